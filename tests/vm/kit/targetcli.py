# SPDX-License-Identifier: GPL-2.0
"""targetcli, run by tools/targetcli-smq, and the disks of its configurations."""
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .host import KernelLog, Lun, find_hosts, is_loaded, run, unload, wait_for
from .lio import TARGET

TOP = Path(__file__).resolve().parents[3]
PROGRAM = TOP / "tools/targetcli-smq"
BUS = Path("/run/dbus/system_bus_socket")
# Directories of fabrics, each with the module that creates it.
FABRICS = {"smq": "smq_lio", "loopback": "tcm_loop", "iscsi": "iscsi_target_mod", "fc": "tcm_fc",
           "qla2xxx": "tcm_qla2xxx", "vhost": "vhost_scsi"}


def targetcli(words: str, ok: bool = True) -> str:
    """Runs one command and returns its output."""
    done = run(PROGRAM, *words.split(), ok=ok, limit=120)
    return done.stdout + done.stderr


def shell(*commands: str) -> str:
    """Runs commands in one shell of targetcli, because each start takes seconds. Returns their
    output."""
    done = subprocess.run([PROGRAM], input="\n".join(commands), text=True, check=True, timeout=120,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


@contextmanager
def configured() -> Iterator[None]:
    """Runs the system's D-Bus, which targetcli needs. At the end removes LIO's configuration."""
    BUS.parent.mkdir(exist_ok=True)
    with KernelLog() as log:
        with subprocess.Popen(["dbus-daemon", "--system", "--nofork", "--nopidfile"]) as bus:
            try:
                wait_for("the system's bus", BUS.exists)
                yield
            finally:
                if any(TARGET.glob("core/*_*")):
                    targetcli("clearconfig confirm=True", ok=False)
                bus.terminate()
        for fabric, module in FABRICS.items():
            if (TARGET / fabric).exists():
                (TARGET / fabric).rmdir()
            if is_loaded(module):
                unload(module)
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)


def wait_disks(*places: str, driver: str = "smq_lio") -> dict[str, Lun]:
    """Waits until there are disks at exactly these channels, targets and LUNs, and returns them."""
    def ready():
        luns = [lun for host in find_hosts(driver) for lun in host.luns()]
        found = {lun.address.partition(":")[2]: lun for lun in luns
                 if lun.sd and lun.sg and lun.ready}
        return (found,) if found.keys() == set(places) else None
    return wait_for(f"disks at {places}", ready, 30)[0]
