# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Functions for the parts of tools/kernels that build a kernel. A script that sources this file must
# define die.
#
# shellcheck disable=SC2154 # tools/kernels sets top

# Checks that the programs for a build are installed.
kernel_need() {
	local tool
	for tool in make gcc flex bison bc patch depmod; do
		PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
			die "$tool is not installed; as root: $("$top/tools/deps" line build uml)"
	done
}

kernel_say() {
	[[ -t 2 ]] && printf '\r\033[K%s' "$*" >&2 || printf '%s\n' "$*" >&2
}

# kernel_make NAME FOLDER OBJECTS ARGUMENT...: runs make for a kernel in FOLDER/build, at a low
# priority, and shows how many of about OBJECTS objects are built.
kernel_make() {
	local name=$1 dir=$2 objects=$3 pid status=0 count started=$SECONDS spoke=$SECONDS pause=30
	shift 3
	[[ ! -t 2 ]] || pause=2
	(
		unset MAKEFLAGS MFLAGS MAKELEVEL
		exec nice make -C "$dir/build" -j "${JOBS:-$(nproc)}" "$@"
	) >>"$dir/log" 2>&1 </dev/null &
	pid=$!
	# shellcheck disable=SC2064 # expand $pid now, because it is local
	trap "kill $pid 2>/dev/null" EXIT
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		((SECONDS - spoke >= pause)) || continue
		spoke=$SECONDS
		count=$(grep -cE '^  (CC|AS|LD) ' "$dir/log" || true)
		kernel_say "$name: $count of about $objects objects, $((SECONDS - started)) s"
	done
	wait "$pid" || status=$?
	trap - EXIT
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	((status == 0)) || { tail -n 30 "$dir/log" >&2; die "$name does not build, see $dir/log"; }
}

# Removes the files of FOLDER/build that a build of modules does not need. Those of the programs
# below scripts and tools stay.
kernel_prune() {
	find "$1/build" -type f ! -path "$1/build/scripts/*" ! -path "$1/build/tools/*" \
		\( -name '*.o' -o -name '*.ko' -o -name '*.a' -o -name '.*.cmd' -o -name '*.mod.c' \) \
		! -name module-common.o -delete
}
