# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Functions for tools/kernels, tools/fio-headers and tools/herd: download packages from Debian's
# archive with a private apt configuration, so that the system's package sources stay untouched.
# A script that sources this file must define a function die.

keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Prints the URI of the archive for suite $1: the archive from which this system gets its own suite
# or, if $1 is a security suite, its security updates.
archive_of() {
	local suite=$1 codename own uri release
	# shellcheck source=/dev/null
	codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	own=$codename
	[[ $suite != *-security ]] || own=$codename-security
	# shellcheck disable=SC2016 # fields for apt to fill in
	while read -r uri release; do
		if [[ $release == "$own" ]]; then
			printf '%s\n' "$uri"
			return
		fi
	done < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' \
		'Created-By: Packages' 'Component: main')
	# If this system has no source of security updates, print nothing: apt_root then leaves out
	# the suite.
	[[ $suite == *-security ]] ||
		die "apt has no source for '$codename' main: add Debian's archive to /etc/apt/sources.list.d"
}

# apt_root FOLDER SUITE...: creates a private apt configuration for these suites in FOLDER, and
# makes apt use it. With apt_type=deb-src it is for source packages, with apt_foreign=arm64 also for
# packages of arm64, with apt_arch=arm64 only for these.
apt_root() {
	local root=$1 suite uri arch=${apt_arch:-amd64}
	mkdir -p -- "$root"/{lists,archives}/partial
	: >"$root/status"
	: >"$root/sources.list"
	shift
	for suite in "$@"; do
		uri=$(unset APT_CONFIG && archive_of "$suite")
		[[ -z $uri ]] || printf '%s [signed-by=%s] %s %s main\n' \
			"${apt_type:-deb}" "$keyring" "$uri" "$suite" >>"$root/sources.list"
	done
	cat >"$root/apt.conf" <<EOF
Dir::Etc::sourcelist "$root/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$root";
Dir::State::lists "$root/lists";
Dir::State::status "$root/status";
Dir::Cache "$root";
Dir::Cache::archives "$root/archives";
APT::Architecture "$arch";
APT::Architectures { "$arch"; ${apt_foreign:+"\"$apt_foreign\";"} };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Retries "3";
Acquire::http::Timeout "60";
Acquire::https::Timeout "60";
EOF
	export APT_CONFIG=$root/apt.conf
}

# Runs apt-get. On a terminal it shows its progress, otherwise it is quiet.
fetch() {
	local -a quiet=(-qq)
	[[ ! -t 2 ]] || quiet=(-q=0)
	apt-get "${quiet[@]}" "$@" >&2 </dev/null
}
