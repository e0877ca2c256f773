# SPDX-License-Identifier: GPL-2.0
# vm: --qemu '-device virtio-scsi-pci,id=vs,num_queues=2,virtqueue_size=64,addr=0x11'
# vm: --qemu '-device virtio-scsi-pci,id=full,num_queues=2,addr=0x12'
# vm: --qemu '-device pvscsi,id=pv'
# vm: --qemu '-drive file={disk:a:64},if=none,id=a,format=raw'
# vm: --qemu '-drive file={disk:b:64},if=none,id=b,format=raw'
# vm: --qemu '-drive file={disk:c:64},if=none,id=c,format=raw'
# vm: --qemu '-device scsi-hd,bus=vs.0,scsi-id=0,drive=a -device scsi-hd,bus=vs.0,scsi-id=1,drive=b'
# vm: --qemu '-device scsi-hd,bus=pv.0,scsi-id=0,drive=c'
# vm: --qemu '-blockdev driver=null-co,node-name=n0,size=67108864,latency-ns=1000000'
# vm: --qemu '-blockdev driver=null-co,node-name=n1,size=67108864,latency-ns=1000000'
# vm: --qemu '-blockdev driver=null-co,node-name=n2,size=67108864,latency-ns=1000000'
# vm: --qemu '-blockdev driver=null-co,node-name=n3,size=67108864,latency-ns=1000000'
# vm: --qemu '-device scsi-hd,bus=full.0,scsi-id=0,lun=0,drive=n0'
# vm: --qemu '-device scsi-hd,bus=full.0,scsi-id=0,lun=1,drive=n1'
# vm: --qemu '-device scsi-hd,bus=full.0,scsi-id=0,lun=2,drive=n2'
# vm: --qemu '-device scsi-hd,bus=full.0,scsi-id=0,lun=3,drive=n3'
# not on uml: needs QEMU's devices
# not on sanitize: devices of QEMU
"""The test of test_switch.py, on smq_virtio with small rings and on smq_pvscsi."""
import random
from contextlib import ExitStack

import pytest
from kit import pvscsi, virtio
from kit.fiojob import total_ios
from kit.host import load, unload
from kit.switching import (LEGACY, POLICIES, Switcher, check_counters, seed, switch_all,
                           verified_loads)

CHANGES = 100


@pytest.fixture(name="devices", params=[pvscsi.COMMIT, pvscsi.QUEUES],
                ids=["one_queue", "queues"])
def devices_fixture(request):
    """Yields a host of smq_virtio and one of smq_pvscsi, each with the policies that it can
    have."""
    load("virtio_scsi")
    load("smq_legacy")
    device = virtio.device_at("0000:00:11.0", "vm/switch_devices")
    virtio.host_of(device, 2)
    with virtio.module(lambda: [device], luns=2), pvscsi.bound(request.param) as second:
        yield [(virtio.take(device, 2), POLICIES),
               (second, LEGACY if request.param == pvscsi.COMMIT else POLICIES)]
    unload("smq_legacy")
    unload("virtio_scsi")


@pytest.mark.smoke
@pytest.mark.limit(240)
def test_random_changes_under_verified_load(devices):
    """smq_virtio's rings are often full: they have 64 descriptors, so 21 commands at most, and each
    of the two disks could use more."""
    rng = random.Random(seed())
    with ExitStack() as loads:
        jobs = verified_loads(loads, [host for host, _ in devices], bs=None, bsrange="4k-64k")
        switchers = [Switcher(host, random.Random(rng.random()), policies)
                     for host, policies in devices]
        switch_all(switchers, CHANGES)
        assert all(job.running for job in jobs)
        loads.close()
    for host, _ in devices:
        stats = check_counters(host)
        assert stats["timeouts"] == 0
    assert all(total_ios(job.result()) > 50 for job in jobs)
    assert sum(row["busy_hwq"] for row in devices[0][0].hwqs()) > 0
