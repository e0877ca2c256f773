# SPDX-License-Identifier: GPL-2.0
"""The kernel's console log, and the patterns of messages that report a fault of the kernel."""

import re
import threading

_FAULTS = re.compile("|".join((
    r"\bBUG: ",
    # Messages of the slab allocator: BUG, then the name of the cache.
    r"(?:\] |^)BUG \S+ \(",
    r"kernel BUG at ",
    r"(?:\] |^)WARNING: ",
    r"\bOops\b",
    r"Kernel panic - not syncing",
    r"\bKASAN: ",
    r"\bKCSAN: ",
    r"\bUBSAN: ",
    r"\bODEBUG: ",
    r"unable to handle",
    r"general protection fault",
    r"\b(?:divide error|invalid opcode|double fault|stack segment): ",
    r"INFO: task .* blocked for more than",
    r"rcu: INFO: \S+ (?:self-)?detected",
    r"INFO: rcu\S* (?:self-)?detected",
    r"(?:soft|hard) (?:lockup|LOCKUP)",
    r"Hard LOCKUP",
    r"refcount_t: ",
    r"list_(?:add|del) corruption",
    r"kmemleak: \d+ new suspected",
    # Only this project's modules count: scsi_debug of 7.2 does not free all of its memory.
    r"module smq\w* func:\S+ has \d+ allocated at module unload",
    r"INFO: trying to register non-static key",
    r"DEBUG_LOCKS_WARN_ON",
)))
# Reports that a busy host alone can cause: it lets a CPU of the guest stand still. A task that is
# blocked is not among them, because that is how a lost command shows.
_STALLS = re.compile(r"rcu: INFO: \S+ (?:self-)?detected|INFO: rcu\S* (?:self-)?detected|"
                     r"BUG: soft lockup|BUG: workqueue lockup")
# Reports of known defects of the kernel itself, which this project cannot fix. For each report: a
# pattern of its first line; a second pattern, which one of its lines must match; how many lines,
# from the first on, are searched for the second pattern.
_KNOWN = (
    # User Mode Linux of 7.2 walks a process's maple tree without its lock when it flushes the TLB;
    # lockdep reports that when an aio ring is freed.
    (re.compile(r"WARNING: suspicious RCU usage"),
     re.compile(r"lib/maple_tree\.c:\d+ suspicious rcu_dereference_check\(\) usage"), 5),
    # If there is no memory for the map of a LUN's budget, sbitmap_init_node() frees alloc_hint but
    # does not clear the pointer. When the incomplete LUN is released, sbitmap_free() frees it
    # again.
    (re.compile(r"WARNING: mm/percpu\.c:\d+ at scsi_device_dev_release\+"),
     re.compile(r"\bscsi_alloc_sdev\+"), 80),
    # An iSCSI session removes its target in a workqueue with WQ_MEM_RECLAIM. The removal may wait
    # for the target's runtime power management, whose workqueue does not have that flag.
    (re.compile(r"WARNING: .*kernel/workqueue\.c:\d+.* check_flush_dependency"),
     re.compile(r"Workqueue: iscsi_ctrl_\S+ __iscsi_unbind_session"), 20),
)
# The log of a guest that was booted twice has a line that begins with this between the two boots.
BOOTED_AGAIN = "vm: booted again: "
# What the kernel says when it loads the first module that is not part of it.
_FIRST_MODULE = re.compile(r": loading out-of-tree module taints kernel")
_END = re.compile(r"---\[ end |</TASK>$")
_BEFORE = 5
_AFTER = 80


def _is_known(lines: list[str], at: int) -> bool:
    """Whether the report that begins at line @at is of a known defect."""
    for head, word, count in _KNOWN:
        if head.search(lines[at]):
            for line in lines[at:at + count]:
                if word.search(line):
                    return True
                if _END.search(line):
                    break
    return False


def reports(lines: list[str]) -> dict[int, str]:
    """The lines that report a fault, by their numbers."""
    return {at: line.strip() for at, line in enumerate(lines)
            if _FAULTS.search(line) and not _is_known(lines, at)}


class ConsoleLog:
    """Collects the output of the serial console. May be read while output arrives."""

    def __init__(self, end_mark: str):
        self._lock = threading.Lock()
        self._rest = b""
        self._lines: list[str] = []
        self._end_mark = end_mark
        self.ended = threading.Event()

    def feed(self, data: bytes) -> None:
        """Adds output of the console."""
        with self._lock:
            *lines, self._rest = (self._rest + data).split(b"\n")
            for raw in lines:
                line = raw.decode(errors="replace").rstrip("\r")
                if self._end_mark in line:
                    self.ended.set()
                else:
                    self._lines.append(line)

    def text(self) -> str:
        """All of the log so far."""
        with self._lock:
            lines = list(self._lines)
            if self._rest:
                lines.append(self._rest.decode(errors="replace"))
        return "".join(f"{line}\n" for line in lines)

    def tail(self, count: int) -> str:
        """The last lines."""
        return "".join(self.text().splitlines(keepends=True)[-count:])

    def of_last_boot(self) -> "ConsoleLog":
        """What the log has of the last boot."""
        return self._part(self.text().rpartition(BOOTED_AGAIN)[2])

    def with_modules(self) -> "ConsoleLog":
        """What the log has from the time on at which the kernel loaded a module of this project."""
        text = self.text()
        first = _FIRST_MODULE.search(text)
        return self._part(text[first.end():] if first else "")

    def _part(self, text: str) -> "ConsoleLog":
        part = ConsoleLog(self._end_mark)
        part.feed(text.encode())
        return part

    def reports(self) -> dict[int, str]:
        """The lines that report a fault, by their numbers in the log."""
        return reports(self.text().splitlines())

    def stall(self) -> str:
        """The first line that reports a fault, if a busy host alone can have caused all of them;
        otherwise ""."""
        found = list(self.reports().values())
        return found[0] if found and all(map(_STALLS.search, found)) else ""

    def faults(self) -> str:
        """The first report of a fault, with some lines before it; "" if there is none."""
        lines = self.text().splitlines()
        found = list(self.reports())
        if not found:
            return ""
        first = found[0]
        last = min(first + _AFTER, len(lines))
        for i in range(first, last):
            if _END.search(lines[i]):
                last = min(i + 2, len(lines))
                break
        more = sum(at >= last for at in found)
        report = lines[max(first - _BEFORE, 0):last]
        if more:
            report.append(f"({more} more lines that report a fault follow; --log FILE keeps the "
                          "whole log)")
        return "".join(f"{line}\n" for line in report)
