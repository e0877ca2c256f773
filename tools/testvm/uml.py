# SPDX-License-Identifier: GPL-2.0
"""One run of User Mode Linux: a kernel that is a program of this machine."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .errors import VMError
from .machine import Machine
from .streams import Port

FLAVOURS = ("perf", "sanitize")
# CONFIG_NR_CPUS of umlkernel/base.config.
MOST_CPUS = 8
# MiB: the first root file system and the code that unpacks it do not fit into less.
LEAST_MEMORY = 128
SHARED_MEMORY = Path("/dev/shm")


class UserMode(Machine):
    """A guest without QEMU: its streams are its serial lines."""

    ARCH = "um"
    DEVICES = {"control": "/dev/ttyS0", "stdout": "/dev/ttyS1", "stderr": "/dev/ttyS2"}

    _job = Path("/")

    def _check(self) -> None:
        """Checks for setpriv and prlimit, which are part of util-linux."""
        for tool in ("setpriv", "prlimit"):
            if not shutil.which(tool):
                raise VMError(f"{tool} is not installed: tools/deps install run")

    def _may_boot_again(self, terminal) -> bool:
        """Never: QEMU's defect does not exist here."""
        return False

    def _messages(self, ports: dict[str, Port]) -> int:
        """The console's log, which also takes what the program prints before it has a console."""
        return ports["serial"].guest.fileno()

    def _environment(self) -> dict[str, str]:
        """Sets the folder of the guest's memory, an unlinked file: in /dev/shm if that has room."""
        place = tempfile.gettempdir()
        if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
            free = shutil.disk_usage(SHARED_MEMORY).free
            if free >= self.options.mem * 2**20:
                place = str(SHARED_MEMORY)
        # In HOME the program makes a folder with a socket for its control program.
        return {"PATH": os.environ.get("PATH", ""), "TMPDIR": place, "HOME": str(self._job)}

    def _end(self, process: subprocess.Popen) -> None:
        """Kills the guest: all that the command wrote to shares has been written by now."""
        try:
            # Kill the process group, because each of the guest's address spaces is a process.
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def _command(self, initrd: Path, job: Path, ports: dict[str, Port]) -> list[str]:
        options = self.options
        self._job = job
        command = ["prlimit", "--core=0", "--", str(self.kernel.image),
                   f"mem={options.mem}M", f"ncpus={options.cpus}", "seccomp=on",
                   f"initrd={initrd}", f"smq_job={job}"]
        # A tty of the guest may not become this process's own terminal.
        command += ["con=null", f"con0=null,fd:{ports['serial'].guest.fileno()}", "ssl=null"]
        for index, name in enumerate(("control", "stdout", "stderr")):
            command.append(f"ssl{index}=fd:{ports[name].guest.fileno()}")
        # On a loaded host one of two CPUs may not run for a long time.
        command += ["console=tty0", "quiet", "loglevel=5", "panic=-1", "oops=panic",
                    "printk.time=1", "rcupdate.rcu_cpu_stall_timeout=60"]
        return command + options.append.split()
