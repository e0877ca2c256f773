# SPDX-License-Identifier: GPL-2.0
"""Runs in the guest: a database, an untar and a bulk copy on ext4, on a slow disk of another driver
than smq's, whose host smq_conv attaches for prio. Compares prio with the elevators and the kernel's
writeback throttling."""

import mmap
import os
import random
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from smqbench import timing
from smqbench.errors import BenchError
from wallclock.devices import wait_for, write

from .depth import DEPTH, set_up
from .notes import Notes
from .place import Foreign, foreign
from .prio import BLOCK, MB, PERCENTILES, TEN
from .ram import Host, host, read

WORDS = ("direct", "again", "prio", "wbt", "deadline", "bfq")
FOLDER = Path("/run/bench-files")
# Sizes of the disk and of its partitions, in MiB. The second one is the database's, if it has a
# file system of its own.
DISK_MIB, SIZES = 400, (320, 64)
COPY_MIB, QUICK_COPY_MIB = 256, 96
# The tree that is untarred: so many folders with so many files each, of so many bytes.
FOLDERS, FILES, FILE_BYTES = 16, 24, 16384
# A row of the database, and the pause after each commit.
ROW_BYTES, PAUSE = 1000, 0.05
# How many bytes may be dirty before the kernel throttles a writer, and before it begins to write:
# much less than the copy has, so that the copy's time is the device's.
DIRTY_BYTES, BACKGROUND_BYTES = 16 << 20, 4 << 20
# When untar and commits begin, in s after the copy.
BEGIN = 2.0
WORKLOAD = {"op": "write", "bs": BLOCK, "qd": 1, "batch": 1, "luns": 1, "jobs": 3}
# Beside a bulk writer, with the largest commands that a disk has by default: for how long a round
# is measured, after how long, the pause after each append or read, and the files' sizes in MiB.
MEASURED, QUICK_MEASURED, LATER, THINK = 20.0, 8.0, 3.0, 0.01
BULK_MIB, READ_MIB = 64, 16
# Under icount the guest's time passes while the host reads a program for it.
STARTED = 3600.0
# Writes a file again and again, and prints how many MiB it has written so far.
BULK_WRITER = f"""
import os, sys
fd, number = os.open(sys.argv[1], os.O_WRONLY), 0
while True:
    os.pwrite(fd, bytes(1 << 20), number % {BULK_MIB} << 20)
    number += 1
    os.pwrite(1, b"%d\\n" % number, 0)
"""
BESIDE_WORDS = ("direct", "again", "prio", "prio_wbt", "wbt", "deadline", "bfq")


def run(*words: object) -> None:
    """Runs a program. Raises BenchError if it fails."""
    done = subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise BenchError(f"{' '.join(map(str, words))}: status {done.returncode}: {done.stderr}")


def sources(copy_mib: int) -> None:
    """Makes the file that is copied and the archive that is untarred."""
    with open(FOLDER / "bulk", "wb") as bulk:
        for number in range(copy_mib):
            bulk.write(number.to_bytes(4, "little") * (1 << 18))
    tree = FOLDER / "tree"
    for folder in range(FOLDERS):
        (tree / str(folder)).mkdir(parents=True)
        for name in range(FILES):
            (tree / str(folder) / str(name)).write_bytes(
                (folder * FILES + name).to_bytes(4, "little") * (FILE_BYTES // 4))
    with tarfile.open(FOLDER / "tree.tar", "w") as archive:
        archive.add(tree, "tree")


@contextmanager
def mounted(nodes: Sequence[str], mode: str) -> Iterator[list[Path]]:
    """Mounts the ext4 of each node, with this mode of its journal."""
    with ExitStack() as stack:
        places = []
        for number, node in enumerate(nodes):
            place = FOLDER / f"disk{number}"
            place.mkdir(exist_ok=True)
            run("mount", "-t", "ext4", "-o", f"data={mode}", node, place)
            stack.callback(run, "umount", place)
            places.append(place)
        yield places


def timed(*words: object) -> float:
    """Runs a program. Returns how long it took, in s."""
    began = time.monotonic()
    run(*words)
    return time.monotonic() - began


def commits(database: sqlite3.Connection, over: Callable[[], bool]) -> list[float]:
    """Commits rows until over(). Returns how long each commit took, in ms."""
    took = []
    while not over():
        began = time.monotonic()
        database.execute("INSERT INTO rows VALUES (?)", (bytes(ROW_BYTES),))
        took.append(1000 * (time.monotonic() - began))
        time.sleep(PAUSE)
    return took


def verified(database: Path, rows: int, files: Path) -> bool:
    """Whether the database has these rows. Raises BenchError if the copy or the tree is wrong."""
    run("cmp", FOLDER / "bulk", files / "bulk")
    run("diff", "-r", FOLDER / "tree", files / "tree")
    with closing(sqlite3.connect(database)) as opened:
        said = [opened.execute(words).fetchone()[0]
                for words in ("PRAGMA integrity_check", "SELECT count(*) FROM rows")]
    return said == ["ok", rows]


def load(places: Sequence[Path]) -> tuple[list[float], float, float]:
    """Begins to copy, then to untar and to commit. The database is in the last place, the rest in
    the first. Returns how long each commit took, in ms, and how long the copy and the untar, in
    s."""
    files = places[0]
    with closing(sqlite3.connect(places[-1] / "database", isolation_level=None)) as database, \
            ThreadPoolExecutor(2) as pool:
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE rows (data BLOB)")
        copy = pool.submit(timed, "cp", FOLDER / "bulk", files / "bulk")
        time.sleep(BEGIN)
        untar = pool.submit(timed, "tar", "-xf", FOLDER / "tree.tar", "-C", files)
        took = commits(database, lambda: copy.done() and untar.done())
        return took, copy.result(), untar.result()


def beside(notes: Notes, name: str, disk: Foreign, nodes: Sequence[str], mode: str, word: str,
           copy_mib: int) -> None:
    """Measures one round."""
    for node in nodes:
        # Not lazily: that would write while a round runs.
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", node)
    with mounted(nodes, mode) as places:
        disk.model(bytes_per_sec=TEN)
        set_up(disk, word)
        took, copy, untar = load(places)
        disk.model(bytes_per_sec=0)
    with mounted(nodes, mode) as places:
        seen = {"verified": verified(places[-1] / "database", len(took), places[0]),
                "commits": len(took)}
    for metric, percent in PERCENTILES.items():
        notes.value(f"{name}_{word}", metric, timing.percentile(took, percent), path="database",
                    **WORKLOAD, parameters=seen)
    notes.value(f"{name}_{word}", "seconds", untar, path="untar", **WORKLOAD, parameters=seen)
    notes.value(f"{name}_{word}", "mb_s", (copy_mib << 20) / copy / MB, path="copy", **WORKLOAD,
                parameters=seen)


def appends(path: Path, seconds: float) -> list[float]:
    """Appends a block and calls fsync(), again and again. Returns how long each took, in ms."""
    took, end = [], time.monotonic() + seconds
    with open(path, "wb", buffering=0) as file:
        while time.monotonic() < end:
            began = time.monotonic()
            file.write(bytes(BLOCK))
            os.fsync(file.fileno())
            took.append(1000 * (time.monotonic() - began))
            time.sleep(THINK)
    return took


def reads(path: Path, seconds: float) -> list[float]:
    """Reads blocks at random. Returns how long each took, in ms."""
    took, end, chosen = [], time.monotonic() + seconds, random.Random(1)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    with closing(mmap.mmap(-1, BLOCK)) as buffer:
        while time.monotonic() < end:
            began = time.monotonic()
            os.preadv(file, [buffer], BLOCK * chosen.randrange(READ_MIB << 20 >> 12))
            took.append(1000 * (time.monotonic() - began))
            time.sleep(THINK)
    os.close(file)
    return took


def beside_bulk(notes: Notes, name: str, disk: Host, places: Sequence[Path], word: str,
                seconds: float) -> None:
    """Measures appends or reads in the last place, beside a bulk writer in the first."""
    run("sync")
    disk.model(bytes_per_sec=TEN)
    set_up(disk, word)
    said = FOLDER / "said"
    act, path = (reads, "read") if name == "files_reads" else (appends, "append")
    with open(said, "wb") as out, subprocess.Popen(
            ["python3", "-c", BULK_WRITER, places[0] / "bulk"], stdout=out) as bulk:
        try:
            wait_for("the bulk writer", lambda: read(said).strip(), STARTED)
            time.sleep(LATER)
            before, began = int(read(said)), time.monotonic()
            took = act(places[-1] / path, seconds)
            # The last append may have ended late.
            rate = (int(read(said)) - before << 20) / (time.monotonic() - began) / MB
        finally:
            bulk.kill()
    run("sync")
    disk.model(bytes_per_sec=0)
    workload = WORKLOAD | {"jobs": 2, "op": "read" if act is reads else "write"}
    for metric, percent in PERCENTILES.items():
        notes.value(f"{name}_{word}", metric, timing.percentile(took, percent), path=path,
                    **workload, parameters={"number": len(took)})
    notes.value(f"{name}_{word}", "mb_s", rate, path="bulk", **workload, parameters={})


def default_commands(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures appends with fsync(), and reads, beside a bulk writer whose commands are as large as
    the disk takes by default."""
    with host("default", DISK_MIB, hw_queues=1, depth=DEPTH) as device:
        device.set_queue(nomerges=0)
        nodes = device.partitions(*SIZES)
        for node in nodes:
            run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", node)
        with mounted(nodes, "ordered") as places:
            (places[0] / "bulk").write_bytes(bytes(BULK_MIB << 20))
            (places[1] / "read").write_bytes(bytes(READ_MIB << 20))
            for name, used in (("files_appends_one", places[:1]), ("files_appends", places),
                               ("files_reads", places)):
                for _, word in timing.turns(BESIDE_WORDS, 1 if quick else repeats):
                    beside_bulk(notes, name, device, used, word,
                                QUICK_MEASURED if quick else MEASURED)


def measure(notes: Notes, repeats: int, quick: bool) -> None:
    """Measures all cases."""
    copy_mib = QUICK_COPY_MIB if quick else COPY_MIB
    FOLDER.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1g", "bench", FOLDER)
    sources(copy_mib)
    # Once in memory, so that the guest has read all programs from the host.
    (FOLDER / "warm").mkdir()
    load([FOLDER / "warm"])
    for name, value in (("dirty_bytes", DIRTY_BYTES), ("dirty_background_bytes", BACKGROUND_BYTES)):
        write(Path("/proc/sys/vm", name), value)
    default_commands(notes, repeats, quick)
    with host("files", DISK_MIB, hw_queues=1, depth=DEPTH) as device, foreign(device) as disk:
        disk.set_queue(nomerges=0)
        nodes = disk.partitions(*SIZES)
        for name, used, mode, words in (
                ("files_one", nodes[:1], "ordered", WORDS),
                # The commit of a database waits for no data of other files.
                ("files_writeback", nodes[:1], "writeback", WORDS[:4]),
                ("files_apart", nodes, "ordered", WORDS)):
            for _, word in timing.turns(words, 1 if quick else repeats):
                beside(notes, name, disk, used, mode, word, copy_mib)
