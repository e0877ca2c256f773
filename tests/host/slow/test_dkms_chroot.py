# SPDX-License-Identifier: GPL-2.0
"""dkms in a clean Debian 12: add, build, install, a kernel that is installed later, remove.

Needs root, mmdebstrap, access to Debian's archive and 2 GB below /tmp. Takes 20 minutes on two busy
CPUs. tests/host/test_dkms.py takes only seconds, but checks only the list of modules.
"""
import re
import shutil

import pytest
from chroot import ALL, TOP, Root

PACKAGES = "dkms,kmod,openssl,linux-headers-amd64,linux-headers-cloud-amd64"

# WITHOUT RELEASE OPTIONS FOLDERS: removes from a kernel's headers these options, and the symbols
# that these source folders export.
WITHOUT = r"""
cd /lib/modules/"$1"/build
for option in $2; do
    sed -i "s/^CONFIG_$option=.*/# CONFIG_$option is not set/" .config
    sed -i "/^CONFIG_$option=/d" include/config/auto.conf
    sed -i -E "/^#define CONFIG_$option(_MODULE)? /d" include/generated/autoconf.h
done
sed -i -E "\\#$3#d" Module.symvers
"""


@pytest.fixture(name="root", scope="module")
def _root(tmp_path_factory):
    """A clean Debian 12 with dkms, the headers of two kernels, and smq's sources in /root/smq."""
    root = Root(tmp_path_factory.mktemp("dkms") / "root", "bookworm", PACKAGES)
    try:
        tree = root.path / "root/smq"
        for name in ("drivers", "include", "tools/dkms"):
            shutil.copytree(TOP / name, tree / name)
        for name in ("Kbuild", "dkms.conf"):
            shutil.copy(TOP / name, tree / name)
        yield root
    finally:
        root.remove()


def test_package_is_built_installed_and_removed(root):
    stock, = (name for name in root.kernels() if "cloud" not in name)
    cloud, = (name for name in root.kernels() if "cloud" in name)
    root.run("dkms add /root/smq")

    # For the kernel of Debian 12 dkms builds all modules, signed by the key that it makes.
    root.run('dkms build smq/0.1.0 -k "$1" && dkms install smq/0.1.0 -k "$1"', stock)
    assert root.installed(stock) == ALL
    signer = root.run('modinfo -k "$1" -F signer smq_lio', stock).stdout.strip()
    assert signer == "DKMS module signing key"

    # The hook of a kernel's package must not fail for a kernel without these options.
    root.run(WITHOUT, cloud, "TARGET_CORE VIRTIO", "drivers/(target|virtio)/")
    root.run('/etc/kernel/postinst.d/dkms "$1"', cloud)
    assert root.installed(cloud) == ALL - {"smq_lio", "smq_virtio"}
    assert re.search(f"{cloud}, x86_64: installed$", root.run("dkms status").stdout, re.M)

    # The hook must also succeed for a kernel for which smq has no modules.
    bare = "6.1.0-1-bare"
    root.run('mkdir /lib/modules/"$2"; cp -a /usr/src/linux-headers-"$1" /usr/src/bare;'
             'ln -s /usr/src/bare /lib/modules/"$2"/build', cloud, bare)
    root.run(WITHOUT, bare, "SCSI SCSI_MOD", "drivers/scsi/")
    root.run('/etc/kernel/postinst.d/dkms "$1"', bare)
    assert root.installed(bare) == {"smq_none"}

    # When a kernel is installed later, the hooks of its package build the modules.
    newer = root.run("apt-cache pkgnames linux-headers-6.12.").stdout.split()
    newer, = sorted(name for name in newer if re.search(r"[\d+]deb12-amd64$", name))[-1:]
    root.run('apt-get install -y --no-install-recommends "$1"', newer)
    newer = newer.removeprefix("linux-headers-")
    assert root.installed(newer) == ALL

    # If the headers are removed before the modules, dkms must still know which modules it built.
    root.run('rm -rf /usr/src/linux-headers-"$1"', cloud)
    status = root.run("dkms status").stdout
    assert f"{cloud}, x86_64: installed\n" in status and "WARNING" not in status
    root.run("dkms remove smq/0.1.0 --all")
    for release in (stock, cloud, bare, newer):
        assert not root.installed(release)
    assert not (root.path / "var/lib/dkms/smq").exists()
