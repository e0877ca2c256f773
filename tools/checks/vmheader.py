# SPDX-License-Identifier: GPL-2.0
"""Reads the lines at the beginning of a test file that say which VM it needs:

    # vm: --cpus 4
    # vm: --qemu '-device pvscsi,id=hba -drive file={disk:a:64},if=none,id=a,format=raw'
    # vm: --qemu '-blockdev driver=iscsi,node-name=b,{tgt:b:64},initiator-name=iqn.2026-01.x:y'

They are options of tools/vm, split as a shell does. {disk:NAME:MIB} stands for the path of an
empty disk image, which is removed after the run. {tmp} is the short path of a temporary folder of
the run. {tgt:NAME:MIB} also makes such an image, and stands for the options by which QEMU's driver
iscsi finds it: during the run the iSCSI target tgt serves the image.
"""

import argparse
import contextlib
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from . import tgt

PREFIX = "# vm:"
HEAD_LINES = 40
MAX_DISK_MIB = 1 << 16
_PLACE = re.compile(r"\{([^{}\s]*)\}")


class HeaderError(ValueError):
    """A header that is wrong; the message says how."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise HeaderError(message)


def _parser() -> argparse.ArgumentParser:
    # The other options of tools/vm are set by tools/check.
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("--cpus", type=int)
    parser.add_argument("--mem", type=int)
    parser.add_argument("--qemu", action="append")
    parser.add_argument("--append", action="append")
    return parser


def options(path: Path) -> list[str]:
    """The options in the header of a file, empty if it has none. Raises HeaderError."""
    words: list[str] = []
    with path.open(encoding="utf-8") as file:
        for number, line in zip(range(1, HEAD_LINES + 1), file, strict=False):
            if not line.startswith(PREFIX):
                continue
            try:
                found = shlex.split(line.removeprefix(PREFIX))
                # Join these options to their values by "=", because a value may begin with a dash.
                for index, word in enumerate(found):
                    if index and found[index - 1] in ("--qemu", "--append"):
                        found[index - 1:index + 1] = [f"{found[index - 1]}={word}", ""]
                found = [word for word in found if word]
                _parser().parse_args(found)
                for place in _PLACE.findall(line):
                    _parse(place)
            except ValueError as error:
                raise HeaderError(f"{path}:{number}: {PREFIX} {error}") from None
            words += found
    return words


def _parse(place: str) -> tuple[str, str, int]:
    """Kind, name and MiB of {disk:NAME:MIB} and {tgt:NAME:MIB}; ("tmp", "", 0) for {tmp}."""
    if place == "tmp":
        return place, "", 0
    kind, _, rest = place.partition(":")
    name, _, mib = rest.partition(":")
    if kind not in ("disk", "tgt") or not re.fullmatch(r"[a-z0-9]+", name) or not mib.isdigit():
        raise HeaderError(f"{{{place}}}: known are {{tmp}}, {{disk:NAME:MIB}} and "
                          "{tgt:NAME:MIB}")
    if not 1 <= int(mib) <= MAX_DISK_MIB:
        raise HeaderError(f"{{{place}}}: a disk has 1 to {MAX_DISK_MIB} MiB")
    return kind, name, int(mib)


@contextlib.contextmanager
def prepared(words: list[str]) -> Iterator[list[str]]:
    """The options with all {...} replaced. The files and the target exist until the context ends.
    Raises HeaderError."""
    if not words:
        yield []
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
                raise HeaderError(f"{PREFIX} {{{found[1]}}}: {name} has a different size "
                                  "in another place")
            return target().lun(path) if kind == "tgt" else str(path)

        try:
            placed = [_PLACE.sub(place, word) for word in words]
        except tgt.TgtError as error:
            raise HeaderError(f"{PREFIX} {{tgt}}: {error}") from None
        yield placed


def of(paths: list[Path]) -> list[str]:
    """The options of files that share a VM. Raises HeaderError if they are not all the same."""
    found = {path: options(path) for path in paths if path.is_file()}
    needs: list[str] = next(iter(found.values()), [])
    for path, words in found.items():
        if words != needs:
            raise HeaderError(f"{path}: has another header ({PREFIX}) than a file with which it "
                              "shares a VM")
    return needs
