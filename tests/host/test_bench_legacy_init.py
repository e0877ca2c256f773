# SPDX-License-Identifier: GPL-2.0
"""tools/bench/legacy/init on a kernel with both paths. No kernel in Debian's archive has both, so
busybox's shell runs init's functions over a tree that stands in for sysfs. A write to add_host
makes a host in the tree, on the path that use_blk_mq selects at that moment."""

import subprocess
from pathlib import Path

import pytest
from testvm import initramfs
from testvm.errors import VMError

ROOT = Path(__file__).resolve().parents[2]
INIT = ROOT / "tools" / "bench" / "legacy" / "init"

# Functions that stand in for the kernel. init writes to sysfs only by put().
KERNEL = """
note() { echo "$*"; }
die() { echo "error $*"; exit 1; }
mdev() { :; }
sleep() { tries=$((WAIT * 10)); }
dd() { :; }
put() {
    echo "put ${1##*/} $2"
    [ "$1 $2" != "$REFUSED" ] || die "$1: $2 refused"
    [ "$1" != "$KEPT" ] || return 0
    [ "${1##*/}" = scheduler ] && echo "[$2]" >"$1" || echo "$2" >"$1"
    [ "${1##*/}" != add_host ] || make_host
}
make_host() {
    local lun=0 device
    hosts=$((hosts + 1))
    mkdir -p "$SYS/class/scsi_host/host$hosts"
    echo scsi_debug >"$SYS/class/scsi_host/host$hosts/proc_name"
    while [ $lun -lt $(($(cat $SCSI_DEBUG/max_luns) - ${MISSING:-0})) ]; do
        disk=sd$hosts$lun sg=sg$hosts$lun
        device=$SYS/class/scsi_host/host$hosts/device/target$hosts:0:0/$hosts:0:0:$lun
        mkdir -p "$device/block/$disk" "$device/scsi_generic/$sg" \\
            "$SYS/block/$disk/queue" "$SYS/block/$disk/device"
        echo 0x0 >"$SYS/block/$disk/device/iodone_cnt"
        echo 128 >"$SYS/block/$disk/queue/nr_requests"
        case ${WRONG_PATH:-$(cat $SWITCH)} in
        Y) mkdir "$SYS/block/$disk/mq" ;;
        esac
        lun=$((lun + 1))
    done
}
hosts=0 queues=1 depth=128 switch=both kind=exact lun_counts='1 3' means=symbols
use_blk_mq=absent set='' settled='' row='' elevator='' disks='' sgs=''
"""


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """Returns a function that defines init's functions and runs a script after them, over a new
    tree."""
    try:
        busybox = initramfs.busybox()
    except VMError as error:
        pytest.skip(str(error))
    tree = tmp_path / "sys"
    for name in ("bus/pseudo/drivers/scsi_debug", "module/scsi_mod/parameters", "class/scsi_host",
                 "devices/system/clocksource/clocksource0"):
        (tree / name).mkdir(parents=True)
    (tree / "module/scsi_mod/parameters/use_blk_mq").write_text("Y\n")
    (tree / "devices/system/clocksource/clocksource0/current_clocksource").write_text("tsc\n")
    text = INIT.read_text(encoding="ascii")
    functions = text[text.index("SCSI_DEBUG="):text.index("queues='' depth=''")]

    def run_words(words, **environment):
        script = f"SYS={tree}\n" + functions.replace("/sys/", f"{tree}/") + KERNEL + words
        done = subprocess.run([busybox, "sh", "-c", script], capture_output=True, text=True,
                              check=False, timeout=60, stdin=subprocess.DEVNULL,
                              env={"PATH": "/usr/bin:/bin", "SYS": str(tree), **environment})
        return done.stdout.splitlines()
    run_words.tree = tree
    return run_words


def test_one_boot_has_hosts_on_both_paths(run):
    """For each number of LUNs there is a host on each path, and each row finds its host's disks."""
    said = run("""add_hosts
for one in "kernel_legacy 1" "kernel_mq 1" "kernel_legacy_timer 3" "kernel_mq_timer 3"; do
    set_up $one 1
    echo "uses$disks,$sgs"
done
""")
    writes = [line for line in said if line.split()[1:2] and line.split()[1] in
              ("use_blk_mq", "add_host", "max_luns")]
    assert writes == ["put max_luns 1", "put use_blk_mq N", "put add_host 1", "put use_blk_mq Y",
                      "put add_host 1", "put max_luns 3", "put use_blk_mq N", "put add_host 1",
                      "put use_blk_mq Y", "put add_host 1"]
    assert [line for line in said if line.startswith("uses")] == [
        "uses sd10, sg10", "uses sd20, sg20", "uses sd30 sd31 sd32, sg30 sg31 sg32",
        "uses sd40 sd41 sd42, sg40 sg41 sg42"]
    queues = [line for line in said if line.startswith("queue kernel_")]
    assert [line.split()[1:6] for line in queues if "_timer" not in line] == [
        ["kernel_legacy", "sd10", "use_blk_mq=N", "elevator=noop", "queue_depth=128"],
        ["kernel_mq", "sd20", "use_blk_mq=Y", "elevator=none", "queue_depth=128"]]
    # scsi_debug has one delay for all hosts. init writes it only to change it.
    assert [line for line in said if "delay" in line and line.startswith("put")] == [
        "put delay 0", "put ndelay 20000"]
    assert said[-1].startswith("uses")


def test_boot_for_times_sets_each_queue_once(run):
    """In a boot that measures times each round sets up a row again, but its queues only once."""
    said = run("kind=time\nadd_hosts\nset_up kernel_mq 1 1\nset_up kernel_legacy 1 1\n"
               "set_up kernel_legacy 1 2\nset_up kernel_mq 1 2\n")
    assert sum(line.startswith("queue ") for line in said) == 2
    assert [line for line in said if line.startswith("row")] == [
        "row kernel_mq 1", "row kernel_legacy 1", "row kernel_legacy 2", "row kernel_mq 2"]


@pytest.mark.parametrize("environment, message", [
    ({"WRONG_PATH": "Y"}, "error sd10 is on blk-mq in spite of use_blk_mq=N"),
    ({"WRONG_PATH": "N"}, "error sd20 is on the legacy path, blk-mq was expected"),
    ({"MISSING": "1"}, "error max_luns=1: scsi_debug's host shows 0 disks after 30 s, 1 are "
     "wanted"),
    ({"KEPT": "{}/module/scsi_mod/parameters/use_blk_mq"},
     "error use_blk_mq is Y, N was written"),
    ({"REFUSED": "{}/bus/pseudo/drivers/scsi_debug/add_host 1"},
     "error {}/bus/pseudo/drivers/scsi_debug/add_host: 1 refused"),
])
def test_missing_kernel_features_are_named(run, environment, message):
    """The guest names the field, its expected value, and its value."""
    words = {name: value.format(run.tree) for name, value in environment.items()}
    said = run("add_hosts\necho done\n", **words)
    assert said[-1] == message.format(run.tree)
