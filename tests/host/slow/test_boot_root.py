# SPDX-License-Identifier: GPL-2.0
"""Debian 12 boots with the files of docs/boot, from a disk that smq_conv claims in the initramfs:
once with an initramfs of initramfs-tools, once with one of dracut. QEMU's virtio-scsi is the HBA.

Takes seven minutes on two busy CPUs. tests/vm/test_boot.py takes less than one, but has no
initramfs, and its first process is not systemd.
"""
import re
import shutil
import subprocess
import sys

import pytest
from chroot import TOP, Root

sys.path.insert(0, str(TOP / "tools"))
from testvm import kernel as kernels, modules  # noqa: E402

BOOT = TOP / "docs/boot"
SERIES = "6.1"
PACKAGES = "systemd-sysv,udev,kmod,initramfs-tools,dracut-core"
# The kernel's modules that this guest needs.
NEEDED = ["virtio_pci", "virtio_scsi", "sd_mod", "ext4", "configfs"]
UUID = "c61b2a5e-4a0c-4d0b-9d35-6d1d0a4c7b11"
# Prints one line for each SCSI host and each node to the console, and ends the guest.
REPORT = r"""
exec >/dev/ttyS0 2>&1
udevadm settle
disk=$(readlink -f "/sys/dev/block/$(mountpoint -d /)")
for host in /sys/class/scsi_host/host*; do
    read -r driver <"$host/proc_name"
    case $disk in */"${host##*/}"/*) driver="$driver root" ;; esac
    echo "host: $driver" $(cat "$host/smq/policy" "$host/smq_prio/ratio" 2>/dev/null)
done
stat -c 'node: %G %a' /dev/smqsg[0-9]*
systemctl poweroff --force
"""
SERVICE = """
[Unit]
After=smq-ram-host.service
[Service]
Type=oneshot
ExecStart=/bin/sh /report
[Install]
WantedBy=multi-user.target
"""
BUILDERS = {
    "initramfs-tools": 'echo smq_conv >>/etc/initramfs-tools/modules; update-initramfs -c -k "$1";'
                       'mv /boot/initrd.img-"$1" /boot/initramfs-tools',
    "dracut": 'dracut --force --no-hostonly /boot/dracut "$1"',
}


def install_modules(root, kernel):
    """Puts the needed modules of the kernel and all of this project into the system."""
    to = root.path / "lib/modules" / kernel.release
    for path in modules.dependencies(kernel, NEEDED):
        target = to / path.resolve().relative_to(kernel.modules.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for path in kernel.modules.glob("modules.*"):
        if path.name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            shutil.copy(path, to)
    (to / "updates").mkdir()
    for path in modules.built(kernel):
        shutil.copy(path, to / "updates")
    # update-initramfs reads which formats of compression the kernel knows.
    shutil.copy(kernel.image.with_name(f"config-{kernel.release}"), root.path / "boot")
    root.run('depmod "$1"', kernel.release)


def install_files(root):
    """Puts the files of docs/boot into /etc, except those of smq_virtio. The HBA's driver is this
    guest's."""
    for path in BOOT.rglob("*.*"):
        if path.is_file() and path.stem != "smq_virtio":
            target = root.path / "etc" / path.relative_to(BOOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text(encoding="ascii")
            target.write_text(text.replace("mpt3sas", "virtio_scsi"), encoding="ascii")
    (root.path / "report").write_text(REPORT, encoding="ascii")
    (root.path / "etc/systemd/system/report.service").write_text(SERVICE, encoding="ascii")
    root.run("systemctl enable smq-ram-host report")


@pytest.fixture(name="system", scope="module")
def _system(tmp_path_factory):
    """The kernel, the folder with an initramfs of each kind, and the disk's image."""
    folder = tmp_path_factory.mktemp("boot")
    kernel = kernels.find(SERIES)
    root = Root(folder / "root", "bookworm", PACKAGES)
    try:
        install_modules(root, kernel)
        install_files(root)
        for script in BUILDERS.values():
            root.run(script, kernel.release)
        for name in BUILDERS:
            shutil.move(root.path / "boot" / name, folder)
        subprocess.run(["mkfs.ext4", "-q", "-U", UUID, "-d", root.path, folder / "disk", "2G"],
                       check=True, timeout=300)
    finally:
        root.remove()
    yield kernel, folder
    (folder / "disk").unlink()


@pytest.mark.parametrize("builder", BUILDERS)
def test_root_is_on_a_claimed_disk(system, builder):
    kernel, folder = system
    done = subprocess.run(
        ["qemu-system-x86_64", "-m", "1024", "-smp", "2", "-nographic", "-no-reboot",
         "-kernel", kernel.image, "-initrd", folder / builder,
         "-append", f"console=ttyS0 root=UUID={UUID} rw",
         "-drive", f"file={folder / 'disk'},if=none,id=a,format=raw,snapshot=on",
         "-device", "virtio-scsi-pci,id=hba", "-device",
         "scsi-hd,bus=hba.0,drive=a,wwn=0x5000c500155a1234"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False,
        timeout=900)
    print(done.stdout + done.stderr)
    hosts = re.findall(r"host: (.*?)\r?$", done.stdout, re.M)
    direct, prio = "[direct] batch bucket prio steer 4", "direct batch bucket [prio] steer 8"
    assert sorted(hosts) == [f"smq_conv root {prio}", f"smq_ram {direct}", f"smq_ram {direct}",
                             "virtio_scsi"]
    # The lower disk, the claimed disk, and three RAM disks.
    assert re.findall(r"node: (.*?)\r?$", done.stdout, re.M) == ["disk 660"] * 5
