# SPDX-License-Identifier: GPL-2.0
"""The packages in a clean Debian: build, lintian, the same files as the rpms of smq.spec, install,
the pages' lines, here and where `make install` was run, autopkgtest, a newer kernel, upgrade,
purge. One test file for each release of Debian calls check(). Each takes some ten minutes on two
CPUs."""
import re
import shutil
import subprocess

from chroot import ALL, TOP, Root

# What a package build needs beside the Build-Depends; fio for its engine is left out.
BUILDERS = "build-essential,dpkg-dev,lintian"
DKMS = (TOP / "dkms.conf").read_text(encoding="ascii")
VERSION = re.search(r'^PACKAGE_VERSION="(.*)"$', DKMS, re.M)[1]
NEXT = f"{VERSION}.1"
# The releases of kernels for which dkms builds the modules; newer ones may be served.
KERNELS = re.search(r"\$kernelver =~ (\S+) \]\]", DKMS)[1]
# The files that name the version of the release.
VERSIONED = ("dkms.conf", "debian/changelog", "include/smq/version.h", "tools/libsmq/libsmq.h",
             "tools/libsmq/python/pyproject.toml", "tools/libsmq/python/smq/__init__.py")

BUILD = """
cd "/root/$1"
apt-get build-dep -qq --no-install-recommends . >/dev/null
dpkg-buildpackage --build=full --no-sign >/root/build.log 2>&1 ||
    { tail -n 40 /root/build.log; exit 1; }
"""
# All files of the system but those that apt, dpkg and dkms keep for themselves.
FILES = r"""
find / -xdev \( -path /proc -o -path /dev -o -path /sys -o -path /tmp -o -path /var/cache \
    -o -path /var/log -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path '/var/lib/dkms/mok.*' \
    -o -name __pycache__ \) -prune -o -print >"/tmp/$1"
"""


def files(root):
    root.run(FILES, "files")
    return set((root.path / "tmp/files").read_text(encoding="utf-8").splitlines())


def tarball():
    """The tarball of the last commit."""
    done = subprocess.run(["make", "-s", "dist"], cwd=TOP, capture_output=True, text=True,
                          check=True, timeout=60)
    return TOP / done.stdout.strip()


def unpack(root, version):
    """Unpacks the tarball into /root of a system, as if it were of another version."""
    tree = root.path / f"root/smq-{version}"
    tree.mkdir()
    subprocess.run(["tar", "-xf", tarball(), "--strip-components=1", "-C", tree], check=True,
                   timeout=60)
    if version != VERSION:
        for name in VERSIONED:
            path = tree / name
            path.write_text(path.read_text(encoding="utf-8").replace(VERSION, version),
                            encoding="utf-8")


def built(root, version):
    """Builds the packages of a version. Returns their files by name."""
    unpack(root, version)
    root.run(BUILD, f"smq-{version}")
    return {path.name.partition("_")[0]: path
            for path in (root.path / "root").glob(f"*_{version}_*.deb")
            if "dbgsym" not in path.name}


# Builds smq.spec, and prints each file of the packages with its package. Debian's rpm knows no
# packages of Debian: it cannot check what the build needs.
RPM = """
apt-get install -qq --no-install-recommends rpm >/dev/null 2>&1
rpmbuild -tb --nodeps --define "_topdir /root/rpm" "/root/smq-$1.tar.xz" >/root/rpm.log 2>&1 ||
    { tail -n 40 /root/rpm.log; exit 1; }
find /root/rpm/RPMS -name '*.rpm' -exec \
    rpm -qp --qf '[%{=NAME}\\t%{FILEMODES:perms}\\t%{FILENAMES}\\n]' {} +
"""
RPM_NAMES = {"libsmq": "libsmq1", "libsmq-devel": "libsmq-dev"}
# The folders that distributions have in different places, and the files that only one kind has.
FOLDERS = ((r"^/usr/lib(64|/x86_64-linux-gnu)/(libsmq|pkgconfig)", r"LIBDIR/\2"),
           (r"^/usr/lib/python3[.\d]*/(site|dist)-packages", "PYTHON"),
           (r"^/usr/share/doc/.*/", "DOC/"), (r"(/man/.*|\.md)\.gz$", r"\1"))
OWN = re.compile(r"^/usr/lib/\.build-id|^/usr/share/(licenses|lintian)/|\.dist-info/"
                 r"|^DOC/(changelog\.gz|copyright|README\.md|CHANGELOG\.md)$")


def parts(files_of):
    """Where files land, in the words of no distribution."""
    found = set()
    for path in files_of:
        for pattern, to in FOLDERS:
            path = re.sub(pattern, to, path)
        if not OWN.search(path):
            found.add(path)
    return found


def rpms_have_the_files_of(debs, root):
    shutil.copy(tarball(), root.path / "root")
    rpms = {}
    for line in root.run(RPM, VERSION).stdout.splitlines():
        name, mode, path = line.split("\t")
        if not mode.startswith("d"):
            rpms.setdefault(RPM_NAMES.get(name, name), []).append(path)
    assert set(rpms) == set(debs), rpms
    for name, path in debs.items():
        listed = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True,
                                check=True, timeout=60).stdout.splitlines()
        # Mode, owner, size, date, time, path, and the target of a link.
        files_of = [line.split()[5][1:] for line in listed if not line.startswith("d")]
        assert parts(rpms[name]) == parts(files_of), name


# Builds an LLD as an author outside the tree does.
LLD = """
mkdir /tmp/lld && cd /tmp/lld
cp /usr/share/doc/libsmq-dev/examples/smq_zero.c .
printf 'obj-m := smq_zero.o\\ninclude /usr/lib/smq/lld.mk\\n' >Makefile
make KDIR="/lib/modules/$1/build" >make.log 2>&1 || { cat make.log; exit 1; }
modinfo -F depends ./smq_zero.ko
cd / && rm -r /tmp/lld
"""


def lld_builds(root, release):
    """A driver of a SCSI host is built with the packages alone."""
    assert root.run(LLD, release).stdout.strip() == "smq,scsi_mod"


def lines_of_the_pages_run(root):
    """In a VM, whose kernel and modules are those of this tree, with the system's programs."""
    done = subprocess.run(
        [TOP / "tools/vm", "--timeout", "900", "--", "env", f"SMQ_ROOT={root.path}",
         f"SMQ_TREE=/root/smq-{VERSION}", "python3", "-B", "-m", "pytest", "-q", "-p",
         "no:cacheprovider", "tests/vm/test_guides.py"],
        cwd=TOP, capture_output=True, text=True, check=False, timeout=1200)
    print(done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr


def check(suite, folder):
    builder = Root(folder / "builder", suite, BUILDERS)
    try:
        debs = built(builder, VERSION)
        assert set(debs) == {"smq-dkms", "smq-tools", "libsmq1", "libsmq-dev", "python3-smq"}
        done = builder.run('lintian --allow-root --pedantic --fail-on error,warning,pedantic '
                           '"/root/smq_$1_amd64.changes"', VERSION)
        assert not [line for line in done.stdout.splitlines() if re.match("[EWP]: ", line)]
        keep = folder / "packages"
        keep.mkdir()
        for path in debs.values():
            shutil.copy(path, keep)
        rpms_have_the_files_of(debs, builder)
        builder.run('cd "/root/smq-$1" && make -s tools && make -s install', VERSION)
        lines_of_the_pages_run(builder)
        # The same source gives the same bytes.
        shutil.rmtree(builder.path / f"root/smq-{VERSION}")
        for name, path in built(builder, VERSION).items():
            assert path.read_bytes() == (keep / path.name).read_bytes(), name
        for path in built(builder, NEXT).values():
            shutil.copy(path, keep)
        install_and_purge(suite, folder, keep)
    finally:
        builder.remove()


def install_and_purge(suite, folder, keep):
    """Installs the packages in @keep in a system that has never seen them, and removes them."""
    root = Root(folder / "root", suite, "dkms,kmod,linux-headers-amd64,man-db,autopkgtest,autodep8")
    try:
        shutil.copytree(keep, root.path / "tmp/packages")
        unpack(root, VERSION)
        before = files(root)
        stock, = root.kernels()
        root.run('apt-get install -y -qq --no-install-recommends /tmp/packages/*_"$1"_*.deb',
                 VERSION)
        assert root.installed(stock) == ALL
        assert root.run('modinfo -k "$1" -F version smq_sg smq', stock).stdout.split() == [
            VERSION] * 2
        assert root.run("sg_io --version").stdout == f"sg_io {VERSION}\n"
        root.run("man -w sg_io fc-check targetcli-smq libsmq smq_sg 7 smq")
        lines_of_the_pages_run(root)
        lld_builds(root, stock)
        # The system is made for this test, so it may be changed.
        done = root.run('cd /root && autopkgtest --no-built-binaries --ignore-restrictions '
                        'breaks-testbed /tmp/packages/*_"$1"_*.deb "smq-$1/" -- null', VERSION,
                        ok=False)
        results = dict(re.findall(r"^(\S+) +(PASS|FAIL|SKIP)",
                                  done.stdout.rpartition("@ summary\n")[2], re.M))
        assert results == {"tools": "PASS", "dkms-autopkgtest": "PASS"}

        # The hooks of a kernel's package build the modules.
        newer = root.run("apt-cache pkgnames linux-headers-").stdout.split()
        newer = [name.removeprefix("linux-headers-") for name in newer if re.fullmatch(
            r"linux-headers-\d+\.\d+\.[\d.+a-z-]*-amd64", name)]
        newer = max((name for name in newer if re.match(KERNELS, name) and "-cloud-" not in name
                     and "-rt-" not in name),
                    key=lambda name: [int(part) for part in re.findall(r"\d+", name)[:3]])
        root.run('apt-get install -y -qq --no-install-recommends -t "$2-backports" '
                 '"linux-image-$1" "linux-headers-$1"', newer, suite)
        assert newer != stock and root.installed(newer) == ALL

        root.run('apt-get install -y -qq --no-install-recommends /tmp/packages/*_"$1"_*.deb', NEXT)
        for release in (stock, newer):
            assert root.installed(release) == ALL
            assert root.run('modinfo -k "$1" -F version smq', release).stdout == f"{NEXT}\n"
        assert root.run("sg_io --version").stdout == f"sg_io {NEXT}\n"
        assert VERSION not in root.run("dkms status").stdout.replace(NEXT, "")

        root.run("apt-get purge -y -qq smq-dkms smq-tools libsmq1 libsmq-dev python3-smq")
        assert not root.installed(stock) and not root.installed(newer)
        # The kernel itself has a module dm-cache-smq.
        root.run('apt-get purge -y -qq "linux-headers-$1" "linux-image-$1" && '
                 "apt-get autoremove --purge -y -qq", newer)
        left = sorted(path for path in files(root) - before
                      if re.search("smq|sg_io|fc.check", path))
        assert not left
    finally:
        root.remove()
