# SPDX-License-Identifier: GPL-2.0
"""tools/uml: which environment a command has under User Mode Linux, how its run ends, which options
are refused, and which lines of the console are faults."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from testvm import report, uml

TOP = Path(__file__).resolve().parents[2]
UML = str(TOP / "tools/uml")
LIMIT = 120


def prepared():
    """The flavours whose kernels are already built."""
    return [name for name in uml.FLAVOURS if subprocess.run(
        [TOP / "tools/kernels", "path", f"uml-{name}"], capture_output=True,
        check=False).returncode == 0]


def run(*arguments, command, **options):
    """Runs tools/uml until it ends, with the first flavour that is built."""
    flavours = prepared()
    if not flavours:
        pytest.skip("no flavour is prepared: tools/kernels prepare uml-perf")
    options.setdefault("timeout", LIMIT)
    return subprocess.run([UML, "--flavour", flavours[0], *arguments, "--", *command],
                          capture_output=True, check=False, **options)


def test_stdout_and_stderr_arrive_exactly_and_separately(tmp_path):
    data = os.urandom(4 * 1024 * 1024)
    (tmp_path / "data").write_bytes(data)
    done = run(command=["sh", "-c", f"cat {tmp_path}/data; printf 'e\\r\\n\\004' >&2; exit 3"])
    assert done.stdout == data
    assert (done.stderr, done.returncode) == (b"e\r\n\x04", 3)


def test_command_finds_its_environment(tmp_path):
    """One boot checks the whole environment of the command."""
    work = tmp_path / "folder with 'quotes'"
    work.mkdir()
    (work / "file").write_text("from the host\n")
    (work / "other").write_text("stays\n")
    share = tmp_path / "results, all"
    share.mkdir()
    script = f"""
        set -e
        pwd; cat file; id -u; uname -r | cut -d - -f 2; nproc
        [ -z "$(cat)" ] && echo input-is-empty
        echo changed >file; cat file; rm other; mv file moved; chmod 700 .; mkdir new
        ! touch /host-file 2>/dev/null || rm /host-file
        for dir in /sys/kernel/debug /sys/kernel/tracing /sys/kernel/config /dev/pts; do
            [ "$(stat -c %d $dir)" != "$(stat -c %d $dir/..)" ] && echo mounted
        done
        [ -e /run/vm/session ] && echo marked
        modprobe scsi_debug; modprobe sd_mod
        until [ -b /dev/sda ]; do sleep 0.1; done; lsblk -ndo TYPE /dev/sda
        echo brought >"{share}/out"
    """
    mode = work.stat().st_mode
    done = run("--share", str(share), command=["bash", "-c", script], cwd=work, text=True,
               env=dict(os.environ, TMPDIR=str(tmp_path)))
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        str(work), "from the host", "0", "smq", "2", "input-is-empty", "changed", "mounted",
        "mounted", "mounted", "mounted", "marked", "disk"]
    assert done.returncode == 0
    assert sorted(path.name for path in work.iterdir()) == ["file", "other"]
    assert (work / "file").read_text() == "from the host\n"
    assert work.stat().st_mode == mode
    assert (share / "out").read_text() == "brought\n"


def test_kernel_report_fails_a_successful_command():
    line = "WARNING: drivers/scsi/scsi_lib.c:123 at scsi_nothing+0x1/0x2"
    done = run(command=["sh", "-c", f"echo '<4>{line}' >/dev/kmsg; echo went on"], text=True)
    assert (done.returncode, done.stdout) == (99, "went on\n")
    assert line in done.stderr


def test_panic_fails_and_its_report_is_printed(tmp_path):
    log = tmp_path / "log"
    done = run("--mem", "192", "--log", str(log), text=True, command=[
        "sh", "-c", "echo before; echo 2 >/proc/sys/vm/panic_on_oom; exec tail /dev/zero"])
    assert (done.returncode, done.stdout) == (99, "before\n")
    assert "Kernel panic - not syncing: Out of memory" in done.stderr
    assert "Out of memory" in log.read_text()


def test_guest_that_ends_before_its_command_is_reported():
    done = run(command=["sh", "-c", "echo before; /run/vm/busybox poweroff -f"], text=True)
    assert (done.returncode, done.stdout) == (125, "before\n")
    assert "the guest ended before its command did" in done.stderr


def processes_of(word):
    """Other processes that have the word in their arguments."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def test_timeout_leaves_no_process_behind():
    word = f"mark.{os.getpid()}.timeout"
    started = time.monotonic()
    done = run("--timeout", "20", "--append", word,
               command=["sh", "-c", "printf begun; sleep 1000"], text=True)
    assert done.returncode == 124
    assert time.monotonic() - started < 80
    assert done.stdout == "begun" and "stopped after 20 s (--timeout)" in done.stderr
    assert not processes_of(word)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_stops_the_guest(number):
    flavours = prepared()
    if not flavours:
        pytest.skip("no flavour is prepared: tools/kernels prepare uml-perf")
    word = f"mark.{os.getpid()}.{number}"
    with subprocess.Popen([UML, "--flavour", flavours[0], "--append", word, "--", "sh", "-c",
                           "echo begun; sleep 1000"], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        process.wait(60)
    deadline = time.monotonic() + 20
    while processes_of(word):
        assert time.monotonic() < deadline, "the guest still runs"
        time.sleep(0.1)


@pytest.mark.parametrize("name", ["base", *uml.FLAVOURS])
def test_config_fragments_set_each_option_once(name):
    text = (TOP / f"tools/umlkernel/{name}.config").read_text()
    names = re.findall(r"^(?:# )?(CONFIG_\w+)(?:=| is not set)", text, re.MULTILINE)
    assert len(names) == len(set(names)) > 0
    cpus = re.search("^CONFIG_NR_CPUS=(.*)", text, re.MULTILINE)
    assert not cpus or int(cpus.group(1)) == uml.MOST_CPUS


@pytest.mark.parametrize("line", [
    "smq_defect.c:150 module smq_defect func:leak has 7770 allocated at module unload",
    "kmemleak: 10 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "BUG smq_cache (Not tainted): Objects remaining on __kmem_cache_shutdown()",
    "INFO: trying to register non-static key.",
    "ODEBUG: free active (active state 0) object: 0 object type: timer_list hint: x+0x0/0x1",
])
def test_reports_of_the_checkers_are_faults(line):
    log = report.ConsoleLog("end mark")
    log.feed(f"[    1.100000] {line}\r\n".encode())
    assert line in log.faults()


def test_leak_of_another_module_is_no_fault():
    log = report.ConsoleLog("end mark")
    log.feed(b"[ 1.1] drivers/scsi/scsi_debug.c:1261 module scsi_debug func:sdebug_target_alloc "
             b"has 32 allocated at module unload\r\n")
    assert log.faults() == ""


# Lines, and which of them report a fault. Three kinds of reports are none if the kernel caused
# them.
DOUBLE_FREE = "WARNING: mm/percpu.c:2255 at {}+0x601/0x1350, CPU#1: python3/86"
CALLER = " [<60f1814f>] ? {}+0xc4f/0x11b0"
FLUSH = "WARNING: CPU: 1 PID: 25 at kernel/workqueue.c:2635 check_flush_dependency.part.0+0xb4/0x1"
RCU = ("WARNING: suspicious RCU usage", "-----")
KNOWN = [DOUBLE_FREE.format("scsi_device_dev_release"), *["more"] * 40,
         CALLER.format("scsi_alloc_sdev"), "---[ end trace 0000000000000000 ]---"]
REPORTS = [
    ([*RCU, "lib/maple_tree.c:715 suspicious rcu_dereference_check() usage!"], []),
    ([*RCU, "drivers/core/hold.c:715 suspicious rcu_dereference_check() usage!"], [0]),
    (KNOWN, []),
    # The report ends before the caller, which is of another one; another caller; another place.
    ([KNOWN[0], KNOWN[-1], *KNOWN[1:]], [0]),
    ([KNOWN[0], CALLER.format("smq_scsi_alloc_sdev"), KNOWN[-1], *KNOWN], [0]),
    ([DOUBLE_FREE.format("smq_host_release"), *KNOWN[1:]], [0]),
    ([FLUSH, "Workqueue: iscsi_ctrl_0:2 __iscsi_unbind_session [scsi_transport_iscsi]"], []),
    ([FLUSH, "Workqueue: smq0 smq_cmd_work [smq]"], [0]),
]


@pytest.mark.parametrize("prefix", ["", "[ 1.1] "])
@pytest.mark.parametrize("lines, faults", REPORTS)
def test_known_kernel_reports_are_no_faults(lines, faults, prefix):
    """On the console lines have a time; those from /dev/kmsg, which the tests in a guest read, have
    none."""
    assert list(report.reports([prefix + line for line in lines])) == faults
