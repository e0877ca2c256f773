# SPDX-License-Identifier: GPL-2.0
# on: core uml sanitize 6.12 7.2
"""smq_ram, or parts of it, is removed with commands in flight."""
import time

import pytest
from kit.fiojob import fio, load_on, total_ios
from kit.host import load, loaded, run, settle, under_way, unload, wait_for
from kit.sgio import SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_HOST, SG_SCSI_RESET_TARGET, SgDev
from kit.trace import traced

JOB = {"ioengine": "io_uring", "rw": "randrw", "bs": 4096, "iodepth": 16, "numjobs": 2,
       "time_based": True, "runtime": 600, "size": "16m"}


@pytest.mark.smoke
def test_unloading_under_load_is_refused_and_harmless(ram, disk):
    with load_on(disk.sd, **JOB) as load_:
        under_way(disk)
        for module in ("smq_ram", "smq"):
            refused = run("rmmod", module, ok=False)
            assert refused.returncode and "in use" in refused.stderr
    assert total_ios(load_.result()) > 0
    assert settle(ram)["inflight"] == 0


@pytest.mark.smoke
def test_resets_under_verified_load(ram, disk):
    # With nomerges=2 each I/O is at least one command, so that the numbers can be compared.
    (disk.queue / "nomerges").write_text("2", encoding="ascii")
    with traced() as trace:
        verified = {"ioengine": "io_uring", "rw": "randwrite", "bs": 4096, "iodepth": 16,
                    "size": "12m", "verify": "crc32c", "verify_fatal": 1}
        with load_on(disk.sd, to_end=True, **verified) as load_, SgDev(disk.sg) as sg:
            under_way(disk)
            for level in (SG_SCSI_RESET_DEVICE, SG_SCSI_RESET_TARGET, SG_SCSI_RESET_HOST) * 2:
                sg.reset(level)
                time.sleep(0.1)
        stats = settle(ram)
    assert trace.check_once() >= total_ios(load_.result())
    assert (stats["lun_resets"], stats["target_resets"], stats["host_resets"]) == (2, 2, 2)


def test_lun_is_deleted_under_load_and_found_again():
    with loaded("smq_ram", luns=2, io_errors=True) as (host,):
        gone, stays = host.luns()
        with load_on(stays.sd, **JOB):
            under_way(stays)
            with load_on(gone.sd, ok=False, **JOB) as load_:
                under_way(gone)
                (gone.sysfs / "delete").write_text("1", encoding="ascii")
                assert any(job["error"] for job in load_.result()["jobs"])
        wait_for("the deleted LUN to disappear", lambda: len(host.luns()) == 1)
        (host.sysfs / "scan").write_text("0 0 0", encoding="ascii")
        fio(host.wait_luns(2)[0].sd, **JOB | {"runtime": 1})


def test_commands_of_a_killed_polling_program_end():
    with loaded("smq_ram", poll_queues=1) as (host,):
        with load_on(host.luns()[0].sd, **JOB | {"rw": "randread", "hipri": True}) as load_:
            wait_for("polled commands", lambda: host.stats()["polled"] > 1000, 40)
            load_.kill()
        assert settle(host, 45)["inflight"] == 0


@pytest.mark.limit(120)
def test_module_is_loaded_and_unloaded_repeatedly():
    for repeat in range(15):
        load("smq_ram", luns=1 + repeat % 4, hosts=1 + repeat % 2)
        unload("smq_ram", seconds=30)
