# SPDX-License-Identifier: GPL-2.0
"""What the guest is to do: the command with its environment, and settings for its scripts."""

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from . import cache
from .kernel import TOP

_SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Variables that the command gets from this environment. The others are left out, because there may
# be credentials and paths of sockets among them.
_PASSED = ("LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "PYTHONPATH")
_PASSED_PREFIXES = ("LC_", "SMQ_")


def search_path() -> str:
    """PATH in the guest: the system's folders come first."""
    path = list(_SYSTEM_PATH)
    path += [part for part in os.environ.get("PATH", "").split(":") if part and part not in path]
    return ":".join(path)


@dataclass
class Job:
    """A command, and the folder in which it runs. An empty command stands for a shell."""

    command: list[str]
    directory: Path
    nonce: str
    tty: bool = False
    size: os.terminal_size | None = None
    shares: list[Path] = field(default_factory=list)
    # Whether the guest asks the host before it begins the command. The host may stop it instead.
    asks: bool = False
    # The root file system of a guest of another architecture, and the copy of this project's tree,
    # with tools built for it, that the guest has in place of the tree. None: those of this machine.
    userland: Path | None = None
    tree: Path | None = None
    # The device of each stream, for a guest that cannot find them by the streams' names.
    devices: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """The command's environment."""
        result = {"PATH": search_path(), "HOME": "/root", "USER": "root", "LOGNAME": "root",
                  "SHELL": "/bin/bash", "SMQ_VM": "1"}
        for name, value in os.environ.items():
            if name in _PASSED or name.startswith(_PASSED_PREFIXES):
                result[name] = value
        # The default of SMQ_CACHE depends on HOME, which differs in the guest.
        result["SMQ_CACHE"] = str(cache.root())
        return result

    def write(self, folder: Path, kernel_modules: Path | None, smq_modules: Path | None) -> None:
        """Writes two shell scripts for the guest: settings, which guest/init and guest/session
        read, and command, which guest/session runs."""
        settings = {
            "nonce": self.nonce,
            "tty": "1" if self.tty else "",
            "asks": "1" if self.asks else "",
            "kernel_modules": str(kernel_modules or ""),
            "smq_modules": str(smq_modules or ""),
            "userland": str(self.userland or ""),
            "tree": str(self.tree or ""),
            "top": str(TOP),
            "shares": str(len(self.shares)),
        }
        for index, share in enumerate(self.shares):
            settings[f"share_{index}"] = str(share)
        for name, device in self.devices.items():
            settings[f"port_{name}"] = device
        _script(folder / "settings",
                [f"{name}={_quote(value)}" for name, value in settings.items()])

        lines = [f"export {name}={_quote(value)}"
                 for name, value in self.environment().items() if name.isidentifier()]
        if self.size:
            lines.append(f"/run/vm/busybox stty rows {self.size.lines} "
                         f"cols {self.size.columns}")
        lines.append(f"cd -- {_quote(str(self.directory))} || exit 126")
        command = self.command or ["bash", "--rcfile", "/run/vm/bashrc", "-i"]
        lines.append("exec " + " ".join(_quote(word) for word in command))
        _script(folder / "command", lines)


def _quote(text: str) -> str:
    return shlex.quote(text)


def _script(path: Path, lines: list[str]) -> None:
    path.write_bytes(os.fsencode("".join(f"{line}\n" for line in lines)))
