# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Part of tools/kernels: builds a kernel for tools/vm from a source tree that the user names. Its
# configuration is Debian's of the nearest series, without modules but those of vm.config, and without
# what that file takes out. It is built in a folder of the cache whose name depends on all of its
# sources. The tree stays as it is, and must stay: modules are built with its headers.
#
# shellcheck disable=SC2154 # tools/kernels sets all, cache and top

# shellcheck source=tools/kernel-make.bash
. "$top/tools/kernel-make.bash"

# About the number of objects that a build of 6.6 makes, for the progress display.
source_objects=1450
source_make=(ARCH=x86_64 CROSS_COMPILE=)

# Prints the series of the kernel tree $1, such as 6.6.
source_series() {
	awk '/^VERSION = / { version = $3 } /^PATCHLEVEL = / { print version "." $3; found = 1; exit }
		END { exit !found }' "$1/Makefile" 2>/dev/null ||
		die "--source $1: no source tree of a kernel: its Makefile has no VERSION"
}

# Prints the tree from which the kernel $1 was built.
source_tree() {
	sed -n 's/^SOURCE=//p' "$cache/$1/settings"
}

# Prints that of Debian's series whose number is nearest to $1. After 6.19 came 7.0.
source_nearest() {
	local series
	for series in "${all[@]}"; do
		printf '%s %s\n' "$series" "$1"
	done | awk -F '[. ]' '{ gap = ($1 - $3) * 20 + $2 - $4; if (gap < 0) gap = -gap
		if (NR == 1 || gap < least) { least = gap; name = $1 "." $2 } } END { print name }'
}

# Prints the path of the configuration of Debian's kernel $1.
source_debian() {
	local found
	found=$(settings "$1")
	printf '%s%s/.config\n' "$(sed -n 's/^CHROOT=//p' <<<"$found")" "$(sed -n 's/^KDIR=//p' <<<"$found")"
}

# Prints a checksum of all from which the kernel is built: Debian's configuration $1, ours, and the
# names, sizes and times of the files of the tree $2.
source_recipe() {
	{
		cat -- "$1" "$top/tools/vmkernel/vm.config"
		printf '%s\n' "$2"
		find "$2" -name .git -prune -o -type f -printf '%P %s %T@\n' | LC_ALL=C sort
	} | cksum | cut -d ' ' -f 1
}

# Configures the build of the tree $1 in folder $3, after Debian's configuration $2.
source_configure() {
	local tree=$1 debian=$2 dir=$3 line
	mkdir -p -- "$dir/build"
	sed -E 's/^(CONFIG_[A-Za-z0-9_]+)=m$/# \1 is not set/' "$debian" |
		cat - "$top/tools/vmkernel/vm.config" >"$dir/build/.config"
	make -s -C "$tree" O="$dir/build" "${source_make[@]}" olddefconfig >>"$dir/log" 2>&1 ||
		{ tail -n 20 "$dir/log" >&2; die "$tree cannot be configured"; }
	# Kconfig silently drops options whose dependencies are missing. A later kernel may build in
	# what was a module.
	while read -r line; do
		grep -qxE -- "${line/%=m/=[my]}" "$dir/build/.config" ||
			die "vm.config: the kernel of $tree does not accept $line"
	done < <(grep '^CONFIG_' "$top/tools/vmkernel/vm.config")
}

# source_prepare NAME TREE: builds the kernel NAME; says so if it is built already.
source_prepare() {
	local name=$1 tree=$2 series near debian recipe dir release old started=$SECONDS
	series=$(source_series "$tree")
	near=$(source_nearest "$series")
	settings "$near" >/dev/null ||
		die "for the configuration of $name, Debian's $near is needed: tools/kernels prepare $near"
	debian=$(source_debian "$near")
	recipe=$(source_recipe "$debian" "$tree")
	if grep -qx "RECIPE=$recipe" "$cache/$name/settings" 2>/dev/null; then
		say "$name: $(sed -n 's/^RELEASE=//p' "$cache/$name/settings") is ready"
		return
	fi
	kernel_need
	dir=$cache/$name-$recipe
	mkdir -p -- "$dir"
	: >"$dir/log"
	source_configure "$tree" "$debian" "$dir"
	say "$name: building $tree with Debian's configuration of $near, which takes a while"
	kernel_make "$name" "$dir" "$source_objects" "${source_make[@]}" vmlinux modules
	release=$(make -s -C "$dir/build" "${source_make[@]}" kernelrelease)
	kernel_make "$name" "$dir" "$source_objects" "${source_make[@]}" INSTALL_MOD_PATH="$dir/root" \
		INSTALL_MOD_STRIP=1 modules_install
	kernel_prune "$dir"

	mkdir -p -- "$cache/$name"
	printf '%s\n' "KERNEL=$name" "RELEASE=$release" "IMAGE=$dir/build/vmlinux" \
		"MODULES=$dir/root/lib/modules/$release" "KDIR=$dir/build" "CHROOT=" "SOURCE=$tree" \
		"RECIPE=$recipe" >"$cache/$name/settings.new"
	mv -- "$cache/$name/settings.new" "$cache/$name/settings"
	for old in "$cache/$name"-[0-9]*; do
		[[ $old == "$dir" ]] || rm -rf -- "$old"
	done
	say "$name: $release is ready, built in $((SECONDS - started)) s"
}
