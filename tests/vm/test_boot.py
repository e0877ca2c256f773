# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=hba,num_queues=4,addr=0x10'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-device scsi-hd,bus=hba.0,drive=a,wwn=0x5000c500155a1234'
# not on uml: boots a VM of its own kernel
# not on sanitize: devices of QEMU
"""The files of docs/boot set up hosts, claims and nodes. The first process of this VM is not
systemd: the test does what systemd does at boot. It runs systemd-modules-load and udevd, and lets
the kernel repeat the event of the virtio-scsi device, for which udevd loads the driver."""
import stat
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kit import conv, debugfs, smqsg, virtio
from kit.attach import attached
from kit.fiojob import load_on
from kit.host import SCSI_DEVICES, find_hosts, is_loaded, loaded, run, unload, wait_for
from kit.probe import probed
from kit.trace import recording
from kit.udev import udevd

BOOT = Path(__file__).resolve().parents[2] / "docs/boot"
SLOT = "0000:00:10.0"
ATTACH = "udev/rules.d/90-smq-attach.rules"
HOSTS, NODES = "udev/rules.d/90-smq-hosts.rules", "udev/rules.d/90-smqsg.rules"
MODULES_LOAD = "/lib/systemd/systemd-modules-load"


@contextmanager
def configured(*names):
    """Has the files of these names in /etc during the block. In place of the HBA's driver that they
    name they have that of this VM."""
    with ExitStack() as stack:
        for name in names:
            path = Path("/etc", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = (BOOT / name).read_text(encoding="ascii")
            path.write_text(text.replace("mpt3sas", "virtio_scsi"), encoding="ascii")
            stack.callback(path.unlink)
        yield


@contextmanager
def booted(*names):
    """Does what systemd does at boot, with these files in /etc. At the end unloads the modules."""
    for module in ("smq_virtio", "virtio_scsi"):
        if is_loaded(module):
            unload(module)
    with configured(*names), udevd():
        try:
            run(MODULES_LOAD)
            run("udevadm", "trigger", "--action=add", "--subsystem-match=virtio")
            run("udevadm", "settle", "--timeout=60")
            yield
        finally:
            for module in ("smq_sg", "smq_conv", "virtio_scsi", "smq_virtio", "smq_ram"):
                if is_loaded(module):
                    unload(module)
            run("udevadm", "settle", "--timeout=60")


def host_of(driver):
    """Waits until a driver has its host."""
    return wait_for(f"a host of {driver}", lambda: find_hosts(driver))[0]


def test_claim_with_a_policy_and_nodes_for_a_group():
    """The disk of a rule is claimed before it has a lower disk. Its host has the policy and the
    setting; all nodes are the group's, and a member can use them."""
    with booted(HOSTS, NODES, "modprobe.d/smq_conv.conf", "modprobe.d/smq_ram.conf",
                "modules-load.d/smq_ram.conf", "modules-load.d/smq_sg.conf"):
        host, ram = host_of("smq_conv"), host_of("smq_ram")
        upper, = host.wait_luns(1)
        assert (upper.sysfs / "wwid").read_text(encoding="ascii").strip() in (
            BOOT / "modprobe.d/smq_conv.conf").read_text(encoding="ascii")
        wait_for("the policy", lambda: host.policy() == "prio")
        assert host.attr("smq_prio/ratio") == "8"
        lower = (conv.DRIVER / "claims").read_text(encoding="ascii").split()[0]
        assert not list((SCSI_DEVICES / lower).glob("block"))
        assert ram.policy() == "direct" and ram.attr("smq/poll_queues") == "1"
        for lun in (upper, *ram.wait_luns(2)):
            node = Path(smqsg.node(lun))
            wait_for(f"group and mode of {node}", lambda node=node: node.group() == "disk" and
                     stat.S_IMODE(node.stat().st_mode) == 0o660)
            run("sg_turs", node, user="nobody", group="disk", extra_groups=[])


def test_policy_of_one_hba():
    """smq_virtio is loaded before virtio_scsi and takes the device. The rule finds the host by the
    HBA's PCI address."""
    with booted(HOSTS, "modprobe.d/smq_virtio.conf"):
        host = host_of("smq_virtio")
        host.wait_luns(1)
        assert virtio.bound_to(virtio.device_at(SLOT, "vm/boot")) == "smq_virtio"
        wait_for("the policy", lambda: host.policy() == "batch")
        assert host.attr("smq_batch/usecs") == "20"
        assert host.attr("smq/poll_queues") == "1"


def test_attach_by_a_rule():
    """A rule attaches the host when its LUN appears, and gives it its policy: also when the last
    LUN was gone, which detaches the host. In place, batch measures the driver's doorbell."""
    with booted(ATTACH):
        host = host_of("virtio_scsi")
        for _ in range(2):
            wait_for("the host", lambda: host.sysfs.name in attached())
            wait_for("the policy", lambda: host.policy() == "prio")
            assert host.attr("smq_prio/ratio") == "8"
            lun, = host.wait_luns(1)
            conv.write(host.sysfs / "smq/policy", "batch")
            with load_on(lun.sd, ioengine="libaio", rw="randread", bs=512, iodepth=32,
                         time_based=True, runtime=60):
                wait_for("a sample", lambda: any(
                    debugfs.doorbell(host, hwq["hwq"])[0] for hwq in host.hwqs()), 40)
            conv.write(lun.sysfs / "delete", 1)
            assert not attached()
            conv.write(host.sysfs / "scan", "- - -")
        wait_for("the host", lambda: host.sysfs.name in attached())


def test_udev_is_told_of_a_host_when_the_host_has_its_settings():
    """The kernel sends a host's event after all groups of attributes have appeared, so udev's
    rules can write each of them."""
    with probed("group", "sysfs_create_group name=+0(+0($arg2)):string") as group, \
            probed("event", "dev_uevent of=+0(+0($arg1)):string") as event, ExitStack() as stack:
        with recording(group, event) as lines:
            host, = stack.enter_context(loaded("smq_ram", size_mb=16))
    groups = [at for at, line in enumerate(lines) if 'name="smq_' in line]
    # The host has two devices of this name: that of its class is the last.
    events = [at for at, line in enumerate(lines) if f'of="host{host.number}"' in line]
    assert len(groups) >= 4 and len(events) == 2, "\n".join(lines)
    assert events[-1] > groups[-1], "\n".join(lines)
