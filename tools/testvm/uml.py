# SPDX-License-Identifier: GPL-2.0
"""Runs User Mode Linux: a kernel that runs as a program on this machine."""

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .errors import VMError
from .machine import Machine
from .streams import Port
from .terminal import Terminal

FLAVOURS = ("perf", "sanitize")
# CONFIG_NR_CPUS of umlkernel/base.config.
MOST_CPUS = 8
# MiB: the initramfs and the code that unpacks it do not fit into less.
LEAST_MEMORY = 128
SHARED_MEMORY = Path("/dev/shm")


class UserMode(Machine):
    """A guest without QEMU. Its streams are serial lines."""

    ARCHES = ("um",)
    DEVICES = {"control": "/dev/ttyS0", "stdout": "/dev/ttyS1", "stderr": "/dev/ttyS2"}

    _job = Path("/")

    def _check(self) -> None:
        """Checks for setpriv and prlimit, which are part of util-linux."""
        for tool in ("setpriv", "prlimit"):
            if not shutil.which(tool):
                raise VMError(f"{tool} is not installed: tools/deps install run")

    def _may_boot_again(self, terminal: Terminal | None) -> bool:
        """Returns false: only QEMU has the defect that makes a second boot useful."""
        return False

    def _messages(self, ports: dict[str, Port]) -> int:
        """Returns the port of the console. So the log also has what User Mode Linux prints before
        its console exists."""
        return ports["serial"].guest.fileno()

    def _environment(self) -> dict[str, str]:
        """Sets the folder for the unlinked file that is the guest's memory: /dev/shm if that has
        room."""
        place = tempfile.gettempdir()
        if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
            free = shutil.disk_usage(SHARED_MEMORY).free
            if free >= self.options.mem * 2**20:
                place = str(SHARED_MEMORY)
        # User Mode Linux creates the socket for its control program below HOME.
        return {"PATH": os.environ.get("PATH", ""), "TMPDIR": place, "HOME": str(self._job)}

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kills the guest. Files that the command wrote to shares are on the host already."""
        try:
            # Kill the process group, because each address space of the guest is a process.
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
        # The guest's consoles and serial lines must not use the terminal of this process.
        command += ["con=null", f"con0=null,fd:{ports['serial'].guest.fileno()}", "ssl=null"]
        for index, name in enumerate(("control", "stdout", "stderr")):
            command.append(f"ssl{index}=fd:{ports[name].guest.fileno()}")
        # On a busy host a CPU of the guest may not run for a long time: hence the RCU stall limit.
        command += ["console=tty0", "quiet", "loglevel=5", "panic=-1", "oops=panic",
                    "printk.time=1", "rcupdate.rcu_cpu_stall_timeout=60"]
        return command + options.append.split()
