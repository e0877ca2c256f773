# SPDX-License-Identifier: GPL-2.0
"""Reads the lines at the beginning of a test file that say which VM it needs:

    # vm: --cpus 4
    # vm: --qemu '-device pvscsi,id=hba -drive file={disk:a:64},if=none,id=a,format=raw'
    # vm: --qemu '-blockdev driver=iscsi,node-name=b,{tgt:b:64},initiator-name=iqn.2026-01.x:y'

They are options of tools/vm, split as a shell does; tools/uml takes only --cpus. {disk:NAME:MIB}
stands for the path of an empty disk image, which is removed after the run. {tmp} is the short path
of a temporary folder of the run. {tgt:NAME:MIB} also makes such an image, and stands for the
options by which QEMU's driver iscsi finds it: during the run the iSCSI target tgt serves the
image.
"""

import contextlib
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import tgt
from .errors import VMError

PREFIX = "# vm:"
HEAD_LINES = 40
MAX_DISK_MIB = 1 << 16
_PLACE = re.compile(r"\{([^{}\s]*)\}")


def lines(path: Path, uml: bool) -> list[str]:
    """The lines of a file's header, without their prefix. @uml: for tools/uml, which has no
    devices: only those with --cpus. Raises VMError."""
    try:
        head = path.read_text(encoding="utf-8").splitlines()[:HEAD_LINES]
    except OSError as error:
        raise VMError(f"--for {path}: {error.strerror}") from None
    return [line.removeprefix(PREFIX) for line in head
            if line.startswith(PREFIX) and (not uml or "--cpus" in line)]


def options(paths: list[Path], uml: bool = False) -> list[str]:
    """The options in the headers of files, which must be the same. Raises VMError."""
    found = {path: lines(path, uml) for path in paths}
    wanted: list[str] = next(iter(found.values()), [])
    for path, words in found.items():
        if words != wanted:
            raise VMError(f"{path}: has another header ({PREFIX}) than a file with which it shares "
                          "a VM")
        for line in words:
            try:
                shlex.split(line)
            except ValueError as error:
                raise VMError(f"{path}: {PREFIX}{line}: {error}") from None
            for place in _PLACE.findall(line):
                _parse(place)
    return [word for line in wanted for word in shlex.split(line)]


def _parse(place: str) -> tuple[str, str, int]:
    """Kind, name and MiB of {disk:NAME:MIB} and {tgt:NAME:MIB}; ("tmp", "", 0) for {tmp}."""
    if place == "tmp":
        return place, "", 0
    found = re.fullmatch(r"(disk|tgt):([a-z0-9]+):([0-9]+)", place)
    if not found:
        raise VMError(f"{{{place}}}: known are {{tmp}}, {{disk:NAME:MIB}} and {{tgt:NAME:MIB}}")
    if not 1 <= int(found[3]) <= MAX_DISK_MIB:
        raise VMError(f"{{{place}}}: a disk has 1 to {MAX_DISK_MIB} MiB")
    return found[1], found[2], int(found[3])


@contextlib.contextmanager
def prepared(words: list[str]) -> Iterator[list[str]]:
    """The options with all {...} replaced. The files and the target exist until the context ends.
    Raises VMError."""
    if not any(map(_PLACE.search, words)):
        yield words
        return
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="smq-"))
        targets: list[tgt.Tgt] = []

        def target() -> tgt.Tgt:
            if not targets:
                targets.append(tgt.Tgt(Path(folder)))
                stack.callback(targets[0].stop)
                targets[0].start()
            return targets[0]

        def place(found: re.Match[str]) -> str:
            kind, name, mib = _parse(found[1])
            if kind == "tmp":
                return folder
            path = Path(folder, f"{name}.img")
            if not path.exists():
                with path.open("wb") as file:
                    file.truncate(mib << 20)
            elif path.stat().st_size != mib << 20:
                raise VMError(f"{PREFIX} {{{found[1]}}}: {name} has a different size in another "
                              "place")
            return target().lun(path) if kind == "tgt" else str(path)

        yield [_PLACE.sub(place, word) for word in words]
