# SPDX-License-Identifier: GPL-2.0
"""table.py RESULTS: the demo's figures, on a terminal of 80 columns."""

import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROWS = {
    "null_blk": "null_blk (not SCSI)",
    "scsi_debug": "scsi_debug",
    "scsi_debug_timer": "scsi_debug, 20 us timer",
    "smq_ram_null": "smq_ram null=1",
    "smq_ram": "smq_ram",
    "tcm_loop_rd": "tcm_loop, LIO RAM disk",
    "smq_lio_rd": "smq_lio, LIO RAM disk",
    "virtio_scsi": "virtio_scsi",
    "smq_virtio": "smq_virtio",
}
LOOPS = ("io_uring", "sg_io")
NO_SG = {"null_blk"}
NOT_COUNTED = {"scsi_debug_timer", "virtio_scsi", "smq_virtio"}
MOST = 40   # half the spread in percent: the median of rounds that differ more says nothing

NOTES = """\
512-byte random READs; io_uring: QD 32, batch 16; SG_IO: one by one on /dev/sg.
smq_ram and LIO's RAM disk move data, the others none. null_blk, scsi_debug and
smq_ram complete inside queuecommand; no device with interrupts can do so. The
timer, LIO's workers and QEMU's virtio-scsi device complete later. Devices for
which the CPU waits have no count here: see tools/bench/insn --virtio.
IOPS: median of 3 rounds and half their spread, on an emulated CPU: compare
rows, not absolutes. "busy machine": more than 40 %; run it on an idle one.
Instructions are exact, kernel and program together.
"""

# Kernel instructions per I/O of scsi_debug on Linux 4.19, which still has both
# paths: workload, legacy, mq with one queue.
LINUX_4_19 = [
    ("libaio 4k, QD 32, batch 16", 7256, 5994),
    ("libaio 4k, QD 1 *", 9651, 6112),
    ("SG_IO 512 bytes *", 9158, 5123),
    ("/dev/sg write and read", 9590, 6579),
    ("QD 32, completed by interrupt", 8392, 6868),
]
NOTES_4_19 = """\
* delay=0 makes legacy wake ksoftirqd; a device that interrupts does not:
  there the ratio is 1.10 at QD 1, and 1.08 for SG_IO.
"""

Runs = dict[tuple[str, str], list[tuple[int, int]]]


def read(path: Path) -> Runs:
    """Runs by row and loop: count and nanoseconds."""
    runs: Runs = defaultdict(list)
    for line in path.read_text(encoding="ascii").splitlines():
        row, loop, count, nanoseconds = line.split()
        runs[row, loop].append((int(count), int(nanoseconds)))
    return runs


def iops(runs: list[tuple[int, int]]) -> str:
    """Median, and half the spread in percent, or that other work decided them."""
    values = [count * 1e9 / nanoseconds for count, nanoseconds in runs]
    median = statistics.median(values)
    half = 50 * (max(values) - min(values)) / median
    return "busy machine" if half > MOST else f"{median:.0f} +-{half:2.0f} %"


def instructions(runs: list[tuple[int, int]]) -> str:
    """Instructions of one I/O: a long run minus a short one, so that fixed costs cancel."""
    (count, few), (more, many) = runs
    return f"{(many - few) / (more - count):.0f}"


def measured(folder: Path) -> list[str]:
    """The table of what was measured just now."""
    wall, insn = read(folder / "wall"), read(folder / "insn")
    lines = [f"{'':24}{'I/O per second, this VM':>30}{'instructions per I/O':>25}",
             f"{'device':24}{'io_uring':>15}{'SG_IO':>15}{'io_uring':>15}{'SG_IO':>10}",
             "-" * 79]
    for row, label in ROWS.items():
        cells = []
        for loop in LOOPS:
            none = loop == "sg_io" and row in NO_SG
            cells.append("-" if none else iops(wall[row, loop]))
        for loop in LOOPS:
            none = row in NOT_COUNTED or (loop == "sg_io" and row in NO_SG)
            cells.append("-" if none else instructions(insn[row, loop]))
        lines.append(f"{label:24}{cells[0]:>15}{cells[1]:>15}{cells[2]:>15}{cells[3]:>10}")
    return lines


def linux_4_19() -> list[str]:
    """The table of the legacy path."""
    lines = ["Measured on Linux 4.19, not here: the legacy path, which later kernels lack",
             f"{'scsi_debug, kernel instructions per I/O':42}{'legacy':>8}{'mq':>8}{'ratio':>8}",
             "-" * 66]
    for name, legacy, multi in LINUX_4_19:
        lines.append(f"{name:42}{legacy:8}{multi:8}{legacy / multi:8.2f}")
    return lines


def main() -> int:
    """Prints both tables."""
    folder = Path(sys.argv[1])
    try:
        lines = measured(folder)
    except (OSError, ValueError, statistics.StatisticsError) as error:
        print(f"tools/demo: {folder}: {error}", file=sys.stderr)
        return 1
    print("\n".join(["", *lines, "", NOTES, *linux_4_19(), "", NOTES_4_19]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
