# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device pvscsi,id=pv'
# vm: --qemu '-blockdev driver=file,filename={disk:pv:16},node-name=pv'
# vm: --qemu '-device scsi-hd,bus=pv.0,drive=pv,id=pvdisk'
# vm: --qemu '-device megasas,id=mg'
# vm: --qemu '-blockdev driver=file,filename={disk:mg:16},node-name=mg'
# vm: --qemu '-device scsi-hd,bus=mg.0,drive=mg,id=mgdisk'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""The storage tests of kit.matrix on the devices that kit.devices lists for the default run."""
import pytest
from kit.devices import DEFAULT
from kit.matrix import device_fixture

pytestmark = pytest.mark.limit(120)
storage = device_fixture(DEFAULT)


def test_bare_device_works(storage):
    storage.bare()


def test_claimed_device_gives_the_same_results(storage):
    storage.compare_bare()


def test_claimed_device_works(storage):
    storage.converted()


def test_attached_device_works(storage):
    storage.in_place()
