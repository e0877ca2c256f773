# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=vs,num_queues=2'
# vm: --qemu '-blockdev driver=file,filename={disk:vs:16},node-name=vs'
# vm: --qemu '-device scsi-hd,bus=vs.0,drive=vs,id=vsdisk'
# vm: --qemu '-device mptsas1068,id=mpt'
# vm: --qemu '-blockdev driver=file,filename={disk:mpt:16},node-name=mpt'
# vm: --qemu '-device scsi-hd,bus=mpt.0,drive=mpt,id=mptdisk,wwn=0x5000c50015ea71ac'
# vm: --qemu '-device lsi53c895a,id=lsi'
# vm: --qemu '-blockdev driver=file,filename={disk:lsi:16},node-name=lsi'
# vm: --qemu '-device scsi-hd,bus=lsi.0,drive=lsi,id=lsidisk'
# vm: --qemu '-device am53c974,id=amd'
# vm: --qemu '-blockdev driver=file,filename={disk:amd:16},node-name=amd'
# vm: --qemu '-device scsi-hd,bus=amd.0,drive=amd,id=amddisk'
# vm: --qemu '-device qemu-xhci,id=xhci'
# vm: --qemu '-device usb-uas,id=uas,bus=xhci.0'
# vm: --qemu '-blockdev driver=file,filename={disk:uas:16},node-name=uas'
# vm: --qemu '-device scsi-hd,bus=uas.0,drive=uas,id=uasdisk'
# vm: --qemu '-blockdev driver=file,filename={disk:ata:16},node-name=ata'
# vm: --qemu '-device ide-hd,bus=ide.0,drive=ata,id=atadisk'
# vm: --qemu '-chardev socket,id=hmp,path={tmp}/hmp,server=on,wait=off -mon chardev=hmp'
# vm: --qemu '-chardev socket,id=hmp1,path={tmp}/hmp'
# vm: --qemu '-device virtserialport,chardev=hmp1,name=monitor'
"""The storage test of kit.matrix on the devices of kit.devices that vm/matrix does not have."""
import pytest
from kit.devices import MORE
from kit.matrix import device_fixture

pytestmark = pytest.mark.limit(120)
storage = device_fixture(MORE)


def test_bare_device_works(storage):
    storage.bare()


def test_claimed_device_gives_the_same_results(storage):
    storage.compare_bare()


def test_claimed_device_works(storage):
    storage.converted()


def test_attached_device_works(storage):
    storage.in_place()
