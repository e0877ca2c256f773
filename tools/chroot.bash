# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# A function for tools/build-modules, tools/build-suites, tools/kernels, tools/userland.
#
# shellcheck disable=SC2154 # the script sets top

# Runs a command as root in the chroot $1, in which this tree, and the folder $chroot_also if that
# is set, have the same paths as outside. The mounts are in a private namespace and disappear when the
# command ends.
in_chroot() {
	local chroot=$1
	local -a prefix=()
	shift
	((EUID == 0)) || prefix=(sudo --)
	# shellcheck disable=SC2016 # expanded by the inner shell
	"${prefix[@]}" unshare --mount --propagation private sh -euc '
		chroot=$1 top=$2 also=$3
		shift 3
		mkdir -p "$chroot/proc" "$chroot/dev" "$chroot/tmp"
		mount -t proc proc "$chroot/proc"
		mount --rbind /dev "$chroot/dev"
		mount -t tmpfs tmpfs "$chroot/tmp"
		# Mount this last, because the tree may be below one of the other mount points.
		for folder in "$top" ${also:+"$also"}; do
			mkdir -p "$chroot$folder"
			mount --bind "$folder" "$chroot$folder"
		done
		exec chroot "$chroot" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/ LC_ALL=C.UTF-8 "$@"
	' sh "$chroot" "$top" "${chroot_also:-}" "$@"
}
