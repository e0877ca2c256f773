# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Part of tools/kernels: builds User Mode Linux from Debian's source of 7.2. Each FLAVOUR.config in
# this folder describes one flavour. It is built in a folder of the cache whose name depends on all
# of its sources.
#
# shellcheck disable=SC2154 # tools/kernels sets cache, suites and top

# shellcheck source=tools/kernel-make.bash
. "$top/tools/kernel-make.bash"

uml_source=linux-source-7.2
uml_suites=${suites[7.2]}
uml_parts=$top/tools/umlkernel
# The approximate number of objects of each flavour, for the progress display.
declare -A uml_objects=([perf]=805 [sanitize]=828)

# Prints a checksum of everything from which a flavour is built, except the kernel's source.
uml_recipe() {
	cat -- "$uml_parts"/{base,"$1"}.config "$uml_parts"/*.patch | cksum | cut -d ' ' -f 1
}

# Downloads the newest source package into the cache, for all flavours, and prints its path.
uml_fetch() {
	local folder=$cache/uml-source set version='' file
	local -a sets
	# The apt folder is used by others, too. The caller is a subshell, whose end releases the lock.
	hold .lock
	IFS='|' read -r -a sets <<<"$uml_suites"
	for set in "${sets[@]}"; do
		say "$uml_source: reading the package lists of $set"
		# shellcheck disable=SC2086 # a list of words
		apt_root "$cache/apt/${set// /+}" $set
		fetch update || die "the package lists of $set cannot be read, see above"
		version=$(package_version "$uml_source")
		[[ -z $version ]] || break
	done
	[[ -n $version ]] || die "no suite has $uml_source (looked in ${uml_suites//|/, })"
	mkdir -p -- "$folder"
	# In the names of downloaded packages apt replaces the colon of a version by %3a.
	file=$folder/${uml_source}_${version//:/%3a}_all.deb
	if [[ ! -r $file ]]; then
		say "$uml_source: downloading $version"
		rm -rf -- "$folder/new"
		mkdir -- "$folder/new"
		(cd -- "$folder/new" && fetch download "$uml_source=$version") ||
			die "downloading $uml_source failed, see above; run it again to continue"
		rm -f -- "$folder"/*.deb
		mv -- "$folder"/new/*.deb "$file"
		rmdir -- "$folder/new"
	fi
	printf '%s\n' "$file"
}

# Unpacks the source into $2 and patches it.
uml_unpack() {
	local deb=$1 dir=$2 patch
	rm -rf -- "$dir"
	mkdir -p -- "$dir/new"
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/$uml_source.tar.xz" |
		tar -xJ -C "$dir/new" --strip-components=1 || die "$deb is damaged: remove it and run this again"
	for patch in "$uml_parts"/*.patch; do
		patch -d "$dir/new" -p1 --quiet --fuzz=0 --no-backup-if-mismatch <"$patch" >&2 ||
			die "${patch##*/} does not apply to $uml_source, see above"
	done
	mv -- "$dir/new" "$dir/source"
}

# Configures the build for flavour $1 in folder $2. Checks that the result has every option of the
# .config files, because Kconfig silently drops options whose dependencies are missing.
uml_configure() {
	local flavour=$1 dir=$2 line
	sed -E '/^# (CONFIG_[A-Z0-9_]+ is not set)$/!{/^#/d}' \
		"$uml_parts"/{base,"$flavour"}.config >"$dir/wanted"
	KCONFIG_ALLCONFIG=$dir/wanted make -s -C "$dir/source" ARCH=um O="$dir/build" allnoconfig \
		>>"$dir/log" 2>&1 || { tail -n 20 "$dir/log" >&2; die "uml-$flavour cannot be configured"; }
	while read -r line; do
		[[ -z $line ]] || grep -qxF -- "$line" "$dir/build/.config" ||
			die "$flavour.config: this kernel does not accept $line"
	done <"$dir/wanted"
}

# Removes everything that a build of modules does not need. Keeps headers and makefiles of the
# source, and no objects of the build.
uml_prune() {
	local dir=$1 name
	for name in "$dir"/source/*; do
		case ${name##*/} in
		Makefile | Kbuild | Kconfig | COPYING | scripts | include | arch | .*) ;;
		*) rm -rf -- "$name" ;;
		esac
	done
	for name in "$dir"/source/arch/*; do
		case ${name##*/} in
		um | x86 | Kconfig) ;;
		*) rm -rf -- "$name" ;;
		esac
	done
	find "$dir/source/arch" -type f -name '*.[cS]' -delete
	rm -f -- "$dir/build/vmlinux"
	kernel_prune "$dir"
}

uml_prepare() {
	local flavour=$1 refresh=$2 name=uml-$1 recipe deb dir release old started=$SECONDS
	recipe=$(uml_recipe "$flavour")
	if ((!refresh)) && grep -qx "RECIPE=$recipe" "$cache/$name/settings" 2>/dev/null; then
		release=$(sed -n 's/^RELEASE=//p' "$cache/$name/settings")
		say "$name: $release is ready"
		return
	fi
	kernel_need
	deb=$(uml_fetch)
	dir=$cache/$name-$(cksum <<<"$recipe ${deb##*/}" | cut -d ' ' -f 1)
	if grep -qsx "IMAGE=$dir/build/linux" "$cache/$name/settings"; then
		say "$name: ${deb##*/} is the newest"
		return
	fi

	# Continue a build that was interrupted.
	if [[ ! -d $dir/source || -e $dir/pruned ]]; then
		say "$name: unpacking $uml_source"
		uml_unpack "$deb" "$dir"
	fi
	: >"$dir/log"
	uml_configure "$flavour" "$dir"
	say "$name: building, which takes some minutes"
	kernel_make "$name" "$dir" "${uml_objects[$flavour]}" ARCH=um all
	release=$(make -s -C "$dir/build" ARCH=um kernelrelease)
	kernel_make "$name" "$dir" "${uml_objects[$flavour]}" ARCH=um INSTALL_MOD_PATH="$dir/root" \
		INSTALL_MOD_STRIP=1 modules_install
	touch "$dir/pruned"
	uml_prune "$dir"

	mkdir -p -- "$cache/$name"
	printf '%s\n' "KERNEL=$name" "RELEASE=$release" "IMAGE=$dir/build/linux" \
		"MODULES=$dir/root/lib/modules/$release" "KDIR=$dir/build" "CHROOT=" "ARCH=um" \
		"RECIPE=$recipe" >"$cache/$name/settings.new"
	mv -- "$cache/$name/settings.new" "$cache/$name/settings"
	for old in "$cache/$name"-*; do
		[[ $old == "$dir" ]] || rm -rf -- "$old"
	done
	say "$name: $release is ready, built in $((SECONDS - started)) s"
}
