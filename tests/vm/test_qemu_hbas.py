# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=vs,num_queues=2'
# vm: --qemu '-drive file={disk:vs:8},if=none,id=vsd,format=raw'
# vm: --qemu '-device scsi-hd,bus=vs.0,drive=vsd'
# vm: --qemu '-device pvscsi,id=pv'
# vm: --qemu '-drive file={disk:pv:8},if=none,id=pvd,format=raw'
# vm: --qemu '-device scsi-hd,bus=pv.0,drive=pvd'
# vm: --qemu '-device megasas,id=mg'
# vm: --qemu '-drive file={disk:mg:8},if=none,id=mgd,format=raw'
# vm: --qemu '-device scsi-hd,bus=mg.0,drive=mgd'
# vm: --qemu '-device megasas-gen2,id=mg2'
# vm: --qemu '-drive file={disk:mg2:8},if=none,id=mg2d,format=raw'
# vm: --qemu '-device scsi-hd,bus=mg2.0,drive=mg2d'
# vm: --qemu '-device mptsas1068,id=mpt'
# vm: --qemu '-drive file={disk:mpt:8},if=none,id=mptd,format=raw'
# vm: --qemu '-device scsi-hd,bus=mpt.0,drive=mptd,wwn=0x5000c50015ea71ac'
# vm: --qemu '-device lsi53c895a,id=lsi'
# vm: --qemu '-drive file={disk:lsi:8},if=none,id=lsid,format=raw'
# vm: --qemu '-device scsi-hd,bus=lsi.0,drive=lsid'
# vm: --qemu '-device am53c974,id=amd'
# vm: --qemu '-drive file={disk:amd:8},if=none,id=amdd,format=raw'
# vm: --qemu '-device scsi-hd,bus=amd.0,drive=amdd'
# vm: --qemu '-device qemu-xhci,id=xhci'
# vm: --qemu '-device usb-uas,id=uas,bus=xhci.0'
# vm: --qemu '-drive file={disk:uas:8},if=none,id=uasd,format=raw'
# vm: --qemu '-device scsi-hd,bus=uas.0,drive=uasd'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""The HBAs that QEMU emulates, with the options that target-configs/README.md gives."""
import re
from pathlib import Path

import pytest
from kit.fiojob import fio
from kit.host import SCSI_HOSTS, Host, KernelLog, load, run, wait_for
from kit.targetcli import TOP

README = TOP / "target-configs/README.md"
SECTION = "## Disks of a QEMU guest"
# The modules to load for a driver that needs a further module.
MODULES = {"uas": ("xhci_pci", "uas")}


def rows():
    """Reads the README's table. Returns a dict: for each driver, the QEMU options of its HBAs."""
    text = README.read_text(encoding="utf-8").partition(SECTION)[2]
    found = {}
    for driver, options in re.findall(r"^\| [^|]+ \| (\w+) \| `([^`]+)` \|$", text, re.M):
        found.setdefault(driver, []).append(options)
    return found


ROWS = rows()


def test_this_vm_has_the_options_of_the_readme():
    """The VM of this file has the options that the README gives. With other options the tests would
    prove nothing about the README."""
    text = Path(__file__).read_text(encoding="utf-8")
    words = " ".join(re.findall("^# vm: --qemu '(.*)'$", text, re.M))
    ours = re.sub(r"{disk:(\w+):8}", r"\1.img", words)
    assert ours == " ".join(options for found in ROWS.values() for options in found)


def hosts():
    """Returns the numbers of all SCSI hosts."""
    return {int(path.name[4:]) for path in SCSI_HOSTS.glob("host*")}


# mptsas is no smoke test: on Linux 7.2 it reads past the end of an array, and the kernel reports
# that.
@pytest.mark.parametrize("driver", [
    pytest.param(driver, marks=() if driver == "mptsas" else pytest.mark.smoke)
    for driver in ROWS])
def test_stock_driver_finds_its_disk(driver):
    """Each HBA's stock driver finds the HBA's disk, which returns the data that was written."""
    count = len(ROWS[driver])
    with KernelLog() as log:
        before = hosts()
        # The modules stay loaded: when sym53c8xx is unloaded it frees memory with interrupts off,
        # and the kernel warns.
        for module in MODULES.get(driver, (driver,)):
            load(module)
        found = wait_for(f"{count} hosts of {driver}", lambda: (
            lambda new: new if len(new) == count else None)(sorted(hosts() - before)), 60)
        for number in found:
            disk = Host(number).wait_luns(1, seconds=60)[0]
            assert "QEMU" in run("sg_inq", disk.sg).stdout
            fio(disk.sd, ioengine="io_uring", rw="randwrite", bsrange="512-64k", iodepth=16,
                size="2m", verify="crc32c", verify_fatal=1)
        assert not log.faults() and not log.io_errors(), log.tail(60)
