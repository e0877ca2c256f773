# SPDX-License-Identifier: GPL-2.0
"""A cache of files that are derived from a kernel: made once, used by later runs."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from .errors import VMError

# Seconds to keep an unused entry. A VM that is still running may read its entry over 9p.
KEEP_SECONDS = 24 * 3600


def root() -> Path:
    """The cache folder of this project."""
    chosen = os.environ.get("SMQ_CACHE")
    if chosen:
        return Path(chosen).resolve()
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise VMError("this user has no home folder: SMQ_CACHE chooses a folder for the cache"
                      ) from None
    return Path(base).resolve() / "smq"


def stamp(*paths: Path) -> str:
    """A text that changes when the size or the modification time of one of the files changes."""
    parts = []
    for path in paths:
        status = path.stat()
        parts.append(f"{path}:{status.st_size}:{status.st_mtime_ns}")
    return "\n".join(parts)


def entry(kind: str, label: str, key: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder for @key. If it does not exist, make(folder) fills a new one. Raises
    VMError if the cache cannot be filled.

    Two VMs may start at once: each fills a temporary folder and renames it. If the rename fails
    because the other VM was first, this function returns the other VM's folder. """
    folder = root() / "vm" / kind
    try:
        return _entry(folder, label, key, make)
    except OSError as error:
        raise VMError(f"the cache {root()} cannot be filled: {error.filename or folder}: "
                      f"{error.strerror}; SMQ_CACHE chooses another one") from None


def _entry(folder: Path, label: str, key: str, make: Callable[[Path], None]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:16]
    path = folder / f"{label}-{digest}"
    if not path.is_dir():
        _prune(folder)
        aside = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
        try:
            make(aside)
            aside.chmod(0o755)
            try:
                aside.rename(path)
            except OSError:
                if not path.is_dir():
                    raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    os.utime(path)
    return path


def _prune(folder: Path) -> None:
    limit = time.time() - KEEP_SECONDS
    for old in folder.iterdir():
        try:
            if old.stat().st_mtime < limit:
                shutil.rmtree(old, ignore_errors=True)
        except FileNotFoundError:
            continue
