# SPDX-License-Identifier: GPL-2.0
"""tools/vm: the environment of a command in the VM, and its output and status."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from testvm import machine, report, streams

TOP = Path(__file__).resolve().parents[2]
VM = str(TOP / "tools/vm")
UML = str(TOP / "tools/uml")
# In seconds. A VM needs a few seconds to boot, and more if the host runs other VMs.
LIMIT = 180
# Boot times in seconds: an assumed minimum, then the times that tests have measured on this host.
BOOTS = [4.0]


def vm(*arguments, command, **options):
    """Runs tools/vm until it ends."""
    options.setdefault("timeout", LIMIT)
    return subprocess.run([VM, *arguments, "--", *command], capture_output=True, check=False,
                          **options)


def running(pattern):
    """Other processes that have the pattern in their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if pattern.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return [pid for pid in found if int(pid) != os.getpid()]


def test_stdout_and_stderr_arrive_exactly_and_separately(tmp_path):
    data = os.urandom(10 * 1024 * 1024)
    (tmp_path / "data").write_bytes(data)
    words = ["a b", "new\nline", "q'uo\"te", "$x", "`id`", "*", "", "\\", "tab\t", "ü", "-n"]
    # The arguments of the command arrive unchanged as well.
    script = 'cat "$0"; printf "%s\\0" "$@" >&2; echo again >/dev/stderr'
    done = vm(command=["sh", "-c", script, str(tmp_path / "data"), *words])
    assert done.stdout == data
    assert done.stderr.decode().split("\0") == [*words, "again\n"]
    assert done.returncode == 0


@pytest.mark.parametrize("command, status", [
    (["sh", "-c", "kill -SEGV $$"], 128 + signal.SIGSEGV),
    (["no-such-command"], 127),
    (["/etc/passwd"], 126),
])
def test_exit_status_is_that_of_a_shell(command, status):
    began = time.monotonic()
    assert vm(command=command).returncode == status
    BOOTS.append(time.monotonic() - began)


def test_command_finds_its_environment(tmp_path):
    """One boot checks the whole environment of the command."""
    work = tmp_path / "folder with 'quotes'"
    work.mkdir()
    (work / "file").write_text("from the host\n")
    share = tmp_path / "results, all"
    share.mkdir()
    script = f"""
        set -e
        pwd; cat file; id -u; hostname
        [ -z "$(cat)" ] && echo input-is-empty
        echo changed >file; cat file; echo gone >/tmp/written-by-the-guest
        case $PATH in *:/usr/sbin:*) echo sbin;; esac
        for dir in /sys/kernel/debug /sys/kernel/tracing /sys/kernel/config /dev/pts; do
            [ "$(stat -c %d $dir)" != "$(stat -c %d $dir/..)" ] && echo mounted
        done
        [ -e /dev/vport0p1 ] && echo own-dev
        echo brought >"{share}/out"
        nproc; echo "$SMQ_SEEN:$SECRET"
        # Must be 0, or a guest with several CPUs may hang: see tools/testvm/machine.py.
        cat /sys/kernel/tracing/options/record-cmd
    """
    environment = dict(os.environ, SMQ_SEEN="yes", SECRET="kept", TMPDIR=str(tmp_path))
    before = sorted(tmp_path.iterdir())
    done = vm("--cpus", "3", "--share", str(share), command=["bash", "-c", script],
              cwd=work, env=environment, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        str(work), "from the host", "0", "smq-vm", "input-is-empty", "changed", "sbin",
        "mounted", "mounted", "mounted", "mounted", "own-dev", "3", "yes:", "0"]
    assert done.returncode == 0
    assert (work / "file").read_text() == "from the host\n"
    assert not Path("/tmp/written-by-the-guest").exists()
    assert (share / "out").read_text() == "brought\n"
    assert sorted(tmp_path.iterdir()) == before, "a temporary folder is left behind"


def test_background_processes_end_with_the_command():
    script = "(sleep 1000; echo late) & setsid sleep 1000 & echo first; exit 6"
    started = time.monotonic()
    done = vm(command=["sh", "-c", script], text=True)
    assert (done.stdout, done.returncode) == ("first\n", 6)
    assert time.monotonic() - started < LIMIT / 2


def test_panic_fails_and_its_report_is_printed(tmp_path):
    log = tmp_path / "log"
    done = vm("--log", str(log), command=["sh", "-c", "echo before; echo c >/proc/sysrq-trigger"],
              text=True)
    assert done.returncode == 99
    assert done.stdout == "before\n"
    assert "Kernel panic - not syncing: sysrq triggered crash" in done.stderr
    assert "write_sysrq_trigger" in done.stderr
    assert "sysrq: Trigger a crash" in log.read_text()


@pytest.fixture(name="first_boot")
def fixture_first_boot(tmp_path, monkeypatch):
    """Replaces QEMU by a script, which changes QEMU's arguments at the first start."""
    def change(script):
        qemu = tmp_path / "bin/qemu-system-x86_64"
        qemu.parent.mkdir()
        qemu.write_text("#!/bin/bash\n"
                        f"real={shutil.which('qemu-system-x86_64')}\n"
                        f'if mkdir {tmp_path}/booted 2>/dev/null; then {script}; fi\n'
                        'exec "$real" "$@"\n', encoding="ascii")
        qemu.chmod(0o755)
        monkeypatch.setenv("PATH", f"{qemu.parent}:{os.environ['PATH']}")
    return change


def test_kernel_that_panics_during_boot_is_booted_again(tmp_path, first_boot):
    first_boot('exec "$real" "${@/quiet loglevel/rdinit=/none loglevel}"')
    log = tmp_path / "log"
    done = vm("--log", str(log), command=["sh", "-c", "echo once; exit 3"], text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "once\n", "")
    text = log.read_text()
    assert text.count("Kernel panic") == 1
    assert text.count("vm: booted again: the guest ended before the command began\n") == 1


STALL = "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"


@pytest.mark.parametrize("boots", [1, 2])
def test_kernel_that_reports_a_fault_during_boot_is_booted_again(tmp_path, monkeypatch, capfd,
                                                                 boots):
    """The command does not begin in a boot with a fault, unless the second boot has one as well."""
    logs = iter([STALL] * boots)

    class Log(report.ConsoleLog):
        """A log that begins with a line of the kernel."""
        def __init__(self, mark):
            super().__init__(mark)
            self.feed(f"[    0.000000] {next(logs, 'Linux version 6.1')}\r\n".encode())

    monkeypatch.setattr(machine, "ConsoleLog", Log)
    runs = tmp_path / "runs"
    runs.mkdir()
    options = machine.Options(timeout=LIMIT, shares=[runs], log=tmp_path / "log")
    job = machine.job_factory(["mktemp", "-p", str(runs)], TOP, options, None)
    assert machine.Machine(options, print).run(job) == (0 if boots == 1 else 99)
    assert len(list(runs.iterdir())) == 1, "the command began in the boot with the fault"
    said = options.log.read_text()
    assert said.count(STALL) == boots
    assert said.count("vm: booted again: the kernel reported a fault before the command began") == 1
    assert (STALL in capfd.readouterr().out) == (boots == 2)


def test_kernel_that_never_boots_is_reported(tmp_path):
    log = tmp_path / "log"
    done = vm("--append", "rdinit=/none", "--log", str(log), command=["true"], text=True)
    assert done.returncode == 99
    assert "Unable to mount root fs" in done.stderr
    assert log.read_text().count("Kernel panic") == 2


def test_kernel_warning_fails_a_successful_command():
    line = "WARNING: CPU: 1 PID: 77 at drivers/scsi/scsi_lib.c:123 scsi_nothing+0x1/0x2"
    done = vm(command=["sh", "-c", f"echo '<4>{line}' >/dev/kmsg; echo went on"], text=True)
    assert done.returncode == 99
    assert done.stdout == "went on\n"
    assert line in done.stderr


LOSE_COMMANDS = """
    modprobe scsi_debug
    n=0; until [ -b /dev/sda ] || [ $n = 100 ]; do sleep 0.1; n=$((n+1)); done
    echo 1 >/sys/bus/pseudo/drivers/scsi_debug/every_nth
    echo 4 >/sys/bus/pseudo/drivers/scsi_debug/opts
"""


def test_hung_task_fails_the_command():
    script = LOSE_COMMANDS + """
        echo 2 >/proc/sys/kernel/hung_task_timeout_secs
        dd if=/dev/zero of=/dev/sda bs=4k count=1 conv=fsync &
        n=0; until dmesg | grep -q "blocked for more" || [ $n = 99 ]; do sleep 0.2; n=$((n+1)); done
    """
    done = vm(command=["sh", "-c", script], text=True)
    assert done.returncode == 99
    assert re.search(r"INFO: task dd:\d+ blocked for more than", done.stderr)


def test_unkillable_process_is_named():
    script = LOSE_COMMANDS + "dd if=/dev/sda of=/dev/null count=1 iflag=direct & sleep 2; exit 8"
    done = vm(command=["sh", "-c", script], text=True)
    assert done.returncode == 8
    assert re.fullmatch(r"vm: dd \(\d+\) was still running and could not be killed\n", done.stderr)


def test_timeout_stops_the_vm():
    # The timeout must be long enough for a boot, also on a busy host.
    seconds = round(3 * max(BOOTS))
    started = time.monotonic()
    done = vm("--timeout", str(seconds), command=["sh", "-c", "printf begun; sleep 1000"],
              text=True)
    assert done.returncode == 124
    assert seconds <= time.monotonic() - started < seconds + 40
    assert done.stdout == "begun"
    assert f"stopped after {seconds} s (--timeout)" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_stops_qemu(tmp_path, number):
    mark = f"smq.test={os.getpid()}.{number:d}"
    with subprocess.Popen([VM, "--append", mark, "--", "sh", "-c", "echo up; sleep 1000"],
                          stdout=subprocess.PIPE,
                          env=dict(os.environ, TMPDIR=str(tmp_path))) as process:
        assert process.stdout.readline() == b"up\n"
        assert running(mark)
        process.send_signal(number)
        expected = -number if number == signal.SIGKILL else 128 + number
        assert process.wait(30) == expected
    deadline = time.monotonic() + 20
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(mark)
    if number != signal.SIGKILL:
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("program, arguments, status, text", [
    (UML, ["--cpus", "9", "--", "true"], 2, "--cpus 9: at most 8"),
    (UML, ["--mem", "16", "--", "true"], 2, "--mem 16: at least 128"),
    (UML, ["--share", "/no/such", "--", "true"], 125, "--share /no/such: no such folder"),
    (VM, ["--icount", "--cpus", "2", "--", "true"], 2, "--cpus 2: --icount has one CPU"),
    (VM, ["--kernel", "2.4", "--", "true"], 125, "kernel '2.4' is unknown, expected one of: 6.1"),
    (VM, ["--kernel", "/etc/passwd", "--", "true"], 125, "neither a bzImage, a vmlinux nor"),
    (VM, ["--share", "/no/such", "--", "true"], 125, "--share /no/such: no such folder"),
    (VM, ["--qemu", "-no-such-option", "--", "true"], 125, "ended before its command did"),
])
def test_wrong_arguments_are_refused(program, arguments, status, text):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=LIMIT)
    assert done.returncode == status
    assert text in done.stderr
    assert "Traceback" not in done.stderr


FAULTS = [
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "BUG: KASAN: slab-use-after-free in smq_queue+0x1/0x2 [smq]",
    "kernel BUG at drivers/scsi/scsi_lib.c:99!",
    "WARNING: CPU: 0 PID: 1 at kernel/workqueue.c:1 foo+0x0/0x1",
    "WARNING: kernel/workqueue.c:5851 at __alloc_workqueue+0x6c1/0x860, CPU#1: modprobe/157",
    "WARNING: possible circular locking dependency detected",
    "WARNING: suspicious RCU usage",
    "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
    "refcount_t: underflow; use-after-free.",
    "INFO: task dd:123 blocked for more than 120 seconds.",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [x:1]",
    "list_add corruption. prev->next should be next (1), but was 2. (prev=3).",
    "UBSAN: array-index-out-of-bounds in a.c:1:2",
    "Kernel panic - not syncing: Fatal exception",
]
HARMLESS = [
    "smq: module verification failed: signature and/or required key missing - tainting kernel",
    "sd 0:0:0:0: [sda] tag#0 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
    "scsi host0: scsi_debug: version 0191 [20210520]",
    "mtrr: your CPUs had inconsistent MTRRdefType settings",
    "debug: 1 warning: 2",
]


@pytest.mark.parametrize("line", FAULTS)
def test_line_that_reports_a_fault_is_found(line):
    log = report.ConsoleLog("end mark")
    text = f"[    1.000000] before\r\n[    1.100000] {line}\r\n[    1.200000] after\r\n".encode()
    for i in range(0, len(text), 7):
        log.feed(text[i:i + 7])
    assert line in log.faults()
    assert "before" in log.faults() and "after" in log.faults()


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_line_is_no_fault(line):
    log = report.ConsoleLog("end mark")
    log.feed(f"[    1.100000] {line}\r\n".encode())
    assert log.faults() == ""


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_end_mark_is_removed_from_output_of_any_block_size(size):
    mark = b"0123abcd0124"
    data = b"text 0123abc and 0123abcd012 and 0123abcd" + mark[:-1] + b"\n0123"
    reader, writer = os.pipe()
    output = streams.Output(writer, mark, None)
    whole = data + mark
    for i in range(0, len(whole), size):
        assert not output.ended.is_set()
        output.take(whole[i:i + size])
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        assert file.read() == data
    assert output.ended.is_set()
