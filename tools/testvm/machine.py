# SPDX-License-Identifier: GPL-2.0
"""Runs a guest from its boot to its end, and builds QEMU's command line."""

import os
import queue
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import initramfs, kernel as kernels, modules
from .errors import KERNEL_REPORT, TIMEOUT, VM_FAILED, VMError
from .job import Job
from .report import BOOTED_AGAIN, ConsoleLog
from .streams import Output, Port
from .terminal import Terminal

# QEMU's program, by the architecture of the kernel.
QEMU = {"": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
# When the guest reports the exit status, the last output and kernel messages may not have arrived:
# wait for them this long.
DRAIN_SECONDS = 15
# How long QEMU may take to exit if it has plugins, which write their results at that time.
STOP_SECONDS = 30
# If the command has not begun after this time, the boot hangs or this machine is very busy: boot
# the guest once more, without this limit.
BOOT_SECONDS = 120


@dataclass
class Options:
    """Options of a run; tools/vm --help explains them."""

    kernel: str = "6.1"
    cpus: int = 2
    mem: int = 1024
    icount: bool = False
    kvm: bool = False
    plugins: list[str] = field(default_factory=list)
    qemu: list[str] = field(default_factory=list)
    append: str = ""
    timeout: float | None = 300
    gdb: int | None = None
    log: Path | None = None
    shares: list[Path] = field(default_factory=list)


class Machine:
    """A VM with one job. run() returns the exit status for the caller."""

    # The architectures of the kernels that it can run, see kernel.Kernel.
    ARCHES: tuple[str, ...] = ("", "arm64")
    # The guest's device of each stream; empty if the guest finds the devices by name.
    DEVICES: dict[str, str] = {}

    def __init__(self, options: Options, say: Callable[[str], None]):
        self.options = options
        self.say = say
        self.kernel = kernels.find(options.kernel)
        if self.kernel.arch not in self.ARCHES:
            raise VMError(f"--kernel {options.kernel}: that is a kernel for tools/uml")
        self._nonce = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._monitor: Port | None = None
        self._control: Port | None = None
        self._begin()

    def _begin(self) -> None:
        """Sets up the state of one boot."""
        self._events: queue.Queue[tuple[str, str]] = queue.Queue()
        self.log = ConsoleLog(f"vm: end {self._nonce}")
        self._fails = ""    # why the guest must be booted again

    def run(self, job_for: Callable[[str], Job], terminal: Terminal | None = None) -> int:
        """Boots, runs the job that job_for(nonce) returns, and stops. With @terminal the run is
        interactive."""
        job = job_for(self._nonce)
        job.devices = self.DEVICES
        job.asks = self._may_boot_again(terminal)
        self._check()
        if self.kernel.arch == "arm64":
            job.userland, job.tree = _userland()
        initrd = initramfs.build(self.kernel, job.userland or Path("/"))
        ours = modules.tree(self.kernel)
        with tempfile.TemporaryDirectory(prefix="smq-vm-") as name:
            job.write(Path(name), self.kernel.modules, ours)
            deadline = None
            if self.options.timeout is not None:
                deadline = time.monotonic() + self.options.timeout
            earlier = ""
            try:
                status = self._boot(initrd, Path(name), deadline, terminal, job.asks)
                if status is None:
                    earlier = f"{self.log.text()}{BOOTED_AGAIN}{self._fails}\n"
                    self._begin()
                    status = self._boot(initrd, Path(name), deadline, terminal)
                assert status is not None, "only a boot with @again may have no status"
                return status
            finally:
                if self.options.log:
                    self.options.log.write_text(earlier + self.log.text())

    def _may_boot_again(self, terminal: Terminal | None) -> bool:
        """Whether the guest may be booted again if the kernel crashes, hangs or reports a fault
        before CMD begins. QEMU before 8.1 with several CPUs may keep an old translation of code
        while the kernel patches it. Rarely, this makes an unmodified kernel crash or hang. On a
        busy machine a timer interrupt may be lost, or come so late that the kernel reports an RCU
        stall."""
        options = self.options
        return not (terminal or options.icount or options.kvm or options.plugins or
                    options.gdb is not None)

    def _boot(self, initrd: Path, job: Path, deadline: float | None, terminal: Terminal | None,
              again: bool = False) -> int | None:
        """Boots the guest and waits for its end. Returns the exit status. With @again, returns None
        if the guest must be booted again, because it failed before CMD began."""
        names = ["tty"] if terminal else ["stdout", "stderr"]
        ports = {port: Port(port) for port in ["serial", "monitor", "control", *names]}
        command = self._command(initrd, job, ports)
        outputs = self._connect(ports, terminal)
        self._monitor, self._control = ports["monitor"], ports["control"]
        try:
            self._start(command, ports)
            first = self._first_event(deadline) if again else None
            if self._fails:
                return None
            return self._wait(outputs, deadline, terminal, first)
        finally:
            self._stop()

    def _first_event(self, deadline: float | None) -> tuple[str, str]:
        """The first event of a boot; sets _fails if the kernel crashed, hung or reported a fault.
        CMD has not begun: the guest asks first."""
        left: float = BOOT_SECONDS
        if deadline is not None:
            left = min(left, max(deadline - time.monotonic(), 0))
        try:
            event = self._events.get(timeout=left)
        except queue.Empty:
            # If --timeout has expired, the guest is not booted again: the caller reports that
            # timeout.
            if left == BOOT_SECONDS:
                self._fails = f"the command did not begin within {BOOT_SECONDS} s"
            return "late", ""
        if event[0] == "gone" and self.log.text():
            self._fails = "the guest ended before the command began"
        elif event[0] == "ready" and self.log.faults():
            self._fails = "the kernel reported a fault before the command began"
        return event

    def _check(self) -> None:
        """Raises VMError if a program that the guest needs is missing."""
        program = QEMU[self.kernel.arch]
        if not shutil.which(program):
            group = "arm64" if self.kernel.arch else "run"
            raise VMError(f"{program} is not installed: tools/deps install {group}")

    def _connect(self, ports: dict[str, Port], terminal: Terminal | None) -> list[Output]:
        outputs: list[Output] = []
        # Local variables keep late output of this boot out of the next boot's log.
        log, events = self.log, self._events

        def console(data: bytes) -> None:
            if data:
                log.feed(data)
            else:
                events.put(("gone", ""))

        def control(line: str) -> None:
            word, _, value = line.partition(" ")
            events.put((word, value))

        ports["serial"].follow(console)
        ports["monitor"].follow(lambda _data: None)
        ports["control"].follow(_Lines(control).take)
        if terminal:
            terminal.connect(ports["tty"], ports["control"], lambda: events.put(("quit", "")))
            return outputs
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            output = Output(descriptor, self._nonce.encode(),
                            lambda: events.put(("broken", "")))
            outputs.append(output)
            output.follow(ports[name])
        return outputs

    def _start(self, command: list[str], ports: dict[str, Port]) -> None:
        # The guest must end when this process ends, even if this process is killed.
        command = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._messages(ports), process_group=0,
            stderr=self._messages(ports), env=self._environment(),
            pass_fds=[port.guest.fileno() for port in ports.values()])
        for port in ports.values():
            port.guest.close()

    def _messages(self, _ports: dict[str, Port]) -> int:
        """The descriptor for the messages of QEMU itself, or of the User Mode Linux program."""
        return 2

    def _environment(self) -> dict[str, str] | None:
        """The environment of the guest's process. None: the environment of this process."""
        return None

    def _next_event(self, deadline: float | None) -> tuple[str, str]:
        left = None if deadline is None else max(deadline - time.monotonic(), 0)
        try:
            return self._events.get(timeout=left)
        except queue.Empty:
            return "late", ""

    def _wait(self, outputs: list[Output], deadline: float | None, terminal: Terminal | None,
              first: tuple[str, str] | None) -> int:
        while True:
            word, value = first or self._next_event(deadline)
            first = None
            if word == "late":
                return self._timed_out(outputs)
            if word == "ready":
                self.say("")
                if self.options.gdb is not None:
                    self.say(f"gdb {kernels.bootable(self.kernel)} "
                             f"-ex 'target remote :{self.options.gdb}'")
                if terminal:
                    terminal.begin()
                elif self._control:
                    self._control.send(b"go\n")
            elif word == "exit":
                return self._finished(int(value), outputs, terminal)
            elif word == "stuck":
                self.say(f"vm: {value} was still running and could not be killed")
            elif word == "gone":
                return self._vanished(outputs)
            elif word == "broken":
                return 128 + signal.SIGPIPE
            elif word == "quit":
                return 0

    def _finished(self, status: int, outputs: list[Output], terminal: Terminal | None) -> int:
        deadline = time.monotonic() + DRAIN_SECONDS
        waits = [output.ended for output in outputs] + [self.log.ended]
        whole = all([event.wait(max(deadline - time.monotonic(), 0)) for event in waits])
        if terminal:
            terminal.end()
        self._stop(outputs)
        if self._faulted():
            return KERNEL_REPORT
        if not whole:
            self.say(f"vm: the guest's output did not end within {DRAIN_SECONDS} s of its "
                     "command and may be incomplete")
            return VM_FAILED
        return status

    def _vanished(self, outputs: list[Output]) -> int:
        """Reports a guest that ended before its command did, by a panic or otherwise."""
        self._stop(outputs)
        if self._faulted():
            return KERNEL_REPORT
        self.say(f"vm: the guest ended before its command did; its last messages:\n"
                 f"{self.log.tail(20)}")
        return VM_FAILED

    def _timed_out(self, outputs: list[Output]) -> int:
        self._stop(outputs)
        self.say(f"vm: stopped after {self.options.timeout:g} s (--timeout); the guest's last "
                 f"messages:\n{self.log.tail(20)}")
        self._faulted()
        return TIMEOUT

    def _faulted(self) -> bool:
        report = self.log.faults()
        if report:
            self.say(f"vm: the kernel reported a fault:\n{report}")
        return bool(report)

    def _stop(self, outputs: list[Output] | None = None) -> None:
        """Ends the guest if it still runs, and writes its remaining output."""
        if self._process is None:
            return
        self._end(self._process)
        for output in outputs or []:
            output.finish()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Ends QEMU."""
        if process.poll() is None:
            assert self._monitor, "_boot() has connected it"
            self._monitor.send(b"quit\n")
            try:
                process.wait(STOP_SECONDS if self.options.plugins else 5)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()

    def _command(self, initrd: Path, job: Path, ports: dict[str, Port]) -> list[str]:
        options = self.options
        arm = self.kernel.arch == "arm64"
        command = [QEMU[self.kernel.arch], "-nodefaults", "-no-user-config", "-display", "none",
                   "-no-reboot", "-machine", "virt,gic-version=3" if arm else "q35",
                   "-m", f"{options.mem}M"]
        # The arm64 CPU has pages of 16 KiB, and atomic instructions. pauth-impdef: QEMU's own
        # algorithm for signed pointers, because the architecture's is slow to emulate.
        cpu = "max,pauth-impdef=on,sve=off,sme=off" if arm else "qemu64"
        if options.icount:
            command += ["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off",
                        "-smp", "1", "-cpu", cpu]
        elif options.kvm:
            command += ["-accel", "kvm", "-smp", str(options.cpus), "-cpu", "host"]
        else:
            command += ["-accel", "tcg,thread=multi", "-smp", str(options.cpus),
                        "-cpu", cpu if arm else f"{cpu},+rdrand"]
        command += ["-kernel", str(kernels.bootable(self.kernel)), "-initrd", str(initrd),
                    "-append", self._kernel_arguments()]
        for port in ports.values():
            command += port.chardev()
        command += ["-serial", "chardev:serial", "-mon", "chardev=monitor",
                    "-device", "virtio-serial-pci"]
        for name in ports:
            if name == "tty":
                command += ["-device", "virtconsole,chardev=tty"]
            elif name not in ("serial", "monitor"):
                command += ["-device", f"virtserialport,chardev={name},name={name}"]
        command += _share("job", job, readonly=True)
        command += _share("root", Path("/"), readonly=True)
        for index, path in enumerate(options.shares):
            command += _share(f"share{index}", path, readonly=False)
        for plugin in options.plugins:
            command += ["-plugin", plugin]
        if options.gdb is not None:
            command += ["-gdb", f"tcp:127.0.0.1:{options.gdb}"]
        return command + options.qemu

    def _kernel_arguments(self) -> str:
        # On a busy host the guest's timers may be seconds late: hence no_timer_check and the longer
        # limits for RCU stalls and lockups.
        arm = self.kernel.arch == "arm64"
        words = ["console=ttyAMA0" if arm else "console=ttyS0", "quiet", "loglevel=5", "panic=-1",
                 "oops=panic", "nokaslr", "mitigations=off", "random.trust_cpu=1",
                 "rcupdate.rcu_cpu_stall_timeout=60", "sysctl.kernel.watchdog_thresh=30",
                 "printk.time=1"]
        if not arm:
            words.append("no_timer_check")
        if self.options.icount:
            words.append("norandmaps")
        elif not arm:
            # The emulated TSC is the host's. Without these options the kernel's clocksource
            # watchdog may reject it, and use a clock that costs an exit for each read.
            words += ["tsc=reliable", "clocksource=tsc"]
            # With several CPUs QEMU before 8.1 may keep an old translation of code while the kernel
            # patches it, and then execute int3 there endlessly. Trace events that record command
            # names patch the scheduler, which the other CPUs often execute.
            words.append("trace_options=norecord-cmd")
        return " ".join([*words, self.options.append]).strip()


def _userland() -> tuple[Path, Path]:
    """The root file system of an arm64 guest, and the copy of this tree that is built for it."""
    done = subprocess.run([kernels.TOP / "tools/userland", "path"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise VMError(done.stderr.strip())
    tree = kernels.TOP / "build/arm64"
    if not tree.is_dir():
        raise VMError("there are no tools for arm64: tools/userland tools")
    return Path(done.stdout.strip()), tree


class _Lines:
    """Splits data into lines, and calls take_line for each."""

    def __init__(self, take_line: Callable[[str], None]):
        self._rest = b""
        self._take_line = take_line

    def take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take_line(line.decode(errors="replace"))


def _share(tag: str, path: Path, readonly: bool) -> list[str]:
    # A comma in an option's value must be doubled.
    place = os.fspath(path).replace(",", ",,")
    options = f"local,id={tag},path={place},security_model=none,multidevs=remap"
    if readonly:
        options += ",readonly=on"
    return ["-fsdev", options, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def job_factory(command: list[str], directory: Path, options: Options,
                terminal: Terminal | None) -> Callable[[str], Job]:
    """Returns a function that makes the job from the run's nonce."""
    def make(nonce: str) -> Job:
        return Job(command, directory, nonce, tty=terminal is not None,
                   size=terminal.size() if terminal else None, shares=options.shares)

    return make


def split(text: str, name: str) -> list[str]:
    """Splits the arguments of the option @name as a shell would."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise VMError(f"{name} '{text}': {error}") from None
