# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034 # tools/deps reads the arrays
#
# For tools/deps: the names that other distributions give to Debian's packages, as their package
# lists had them in 2026. Names that are not here are guessed to be the same.

declare -A dnf=(
	[busybox-static]=busybox [g++]=gcc-c++ [gcc-multilib]=glibc-devel.i686 [iproute2]=iproute
	[libblkid-dev]=libblkid-devel [libbpf-dev]=libbpf-devel [libc6-dev]=glibc-devel
	[libelf-dev]=elfutils-libelf-devel [libjson-c-dev]=json-c-devel [libncurses-dev]=ncurses-devel
	[libsgutils2-dev]=sg3_utils-devel [libtraceevent-dev]=libtraceevent-devel
	[libtracefs-dev]=libtracefs-devel [liburing-dev]=liburing-devel
	[linux-headers-amd64]=kernel-devel [linux-image-amd64]=kernel-core [mount]=util-linux
	[mypy]=python3-mypy [pkg-config]=pkgconf-pkg-config [pycodestyle]=python3-pycodestyle
	[procps]=procps-ng [pyflakes3]=python3-pyflakes [qemu-system-arm]=qemu-system-aarch64-core
	[qemu-system-x86]=qemu-system-x86-core [sg3-utils]=sg3_utils [shellcheck]=ShellCheck
	[udev]=systemd-udev [xz-utils]=xz
)
declare -A zypper=(
	[g++]=gcc-c++ [gcc-multilib]=gcc-32bit [groff-base]=groff [libblkid-dev]=libblkid-devel
	[libbpf-dev]=libbpf-devel [libc6-dev]=glibc-devel [libelf-dev]=libelf-devel
	[libjson-c-dev]=libjson-c-devel [libncurses-dev]=ncurses-devel
	[libsgutils2-dev]=libsgutils-devel [libtraceevent-dev]=libtraceevent-devel
	[libtracefs-dev]=libtracefs-devel [liburing-dev]=liburing-devel
	[linux-headers-amd64]=kernel-default-devel [linux-image-amd64]=kernel-default
	[mount]=util-linux [mypy]=python3-mypy [pkg-config]=pkgconf-pkg-config
	[pycodestyle]=python3-pycodestyle [pyflakes3]=python3-pyflakes [qemu-system-arm]=qemu-arm
	[qemu-system-x86]=qemu-x86 [sg3-utils]=sg3_utils [shellcheck]=ShellCheck [xz-utils]=xz
)
declare -A pacman=(
	[busybox-static]=busybox [g++]=gcc [gcc-multilib]=lib32-glibc [groff-base]=groff
	[libblkid-dev]=util-linux-libs [libbpf-dev]=libbpf [libc6-dev]=glibc [libelf-dev]=libelf
	[libjson-c-dev]=json-c [libncurses-dev]=ncurses [libsgutils2-dev]=sg3_utils
	[libtraceevent-dev]=libtraceevent [libtracefs-dev]=libtracefs [liburing-dev]=liburing
	[linux-headers-amd64]=linux-headers [linux-image-amd64]=linux [mount]=util-linux
	[pkg-config]=pkgconf [procps]=procps-ng [pycodestyle]=python-pycodestyle
	[pyflakes3]=python-pyflakes
	[python3]=python [python3-markdown]=python-markdown [python3-matplotlib]=python-matplotlib
	[python3-hypothesis]=python-hypothesis [python3-numpy]=python-numpy
	[python3-pytest]=python-pytest
	[qemu-system-arm]=qemu-system-aarch64 [sg3-utils]=sg3_utils
	[udev]=systemd [xz-utils]=xz
)
# Names that are known to be the same everywhere.
same=" bc bison bpftool clang codespell cpio e2fsprogs fio flex gcc git kmod make mandoc patch perl
procps python3 python3-hypothesis python3-markdown python3-matplotlib python3-numpy python3-pytest
smartmontools sparse systemd util-linux zstd "
# What these are for works on Debian only.
debian_only=" linux-source-6.1 linux-source-6.12 debian-archive-keyring dpkg-dev mmdebstrap "
