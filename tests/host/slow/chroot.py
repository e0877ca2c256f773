# SPDX-License-Identifier: GPL-2.0
"""A clean Debian system in a folder: needs root, mmdebstrap, and access to Debian's archive."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
LIMIT = 1800
# tests/host/test_dkms.py compares this list with the modules that the Kbuild files build.
ALL = set(re.findall(r'^\t"(smq\w*) ', (TOP / "dkms.conf").read_text(encoding="ascii"), re.M))

# Uses the archive that this system uses, because no file of the tree names an archive.
SOURCES = """
die() { echo "$*" >&2; exit 2; }
. tools/apt-root.bash
for suite in "$1" "$1-backports"; do
    uri=$(archive_of "$suite")
    echo "deb [signed-by=$keyring] $uri $suite main"
done
"""


class Root:
    """A Debian system in a folder."""

    def __init__(self, path, suite, packages):
        """Makes the system, of a suite and its backports, with some packages."""
        if os.geteuid():
            pytest.skip("not root")
        if not shutil.which("mmdebstrap"):
            pytest.skip("no mmdebstrap: tools/deps install dkms")
        sources = subprocess.run(["bash", "-euc", SOURCES, "bash", suite], cwd=TOP, text=True,
                                 capture_output=True, check=True, timeout=60).stdout
        self.path = path
        try:
            subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "--skip=cleanup/apt",
                            f"--include={packages}", suite, path, "-"], input=sources,
                           text=True, check=True, timeout=LIMIT)
        except BaseException:
            self.remove()
            raise

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, script, *words, ok=True):
        """Runs a script as root in this system, and prints its output."""
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc",
             # A mount point, because unshare inside makes the root's mounts private.
             'root=$1; shift; mount --bind "$root" "$root"; mount -t proc proc "$root/proc";'
             'mount --rbind /dev "$root/dev";'
             'exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ '
             'LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc "$@"',
             "sh", self.path, script, "sh", *map(str, words)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, check=False, timeout=LIMIT)
        print(f"$ {script.strip()}: {done.returncode}\n{done.stdout}")
        if ok and done.returncode:
            logs = list(self.path.glob("var/lib/dkms/smq/*/build/make.log"))
            pytest.fail("".join(log.read_text(encoding="utf-8")[-3000:] for log in logs) or
                        done.stdout[-3000:])
        return done

    def kernels(self):
        """The releases that have headers."""
        return {path.name for path in self.path.glob("lib/modules/*")
                if (path / "build").is_symlink()}

    def installed(self, release):
        """The names of smq's modules that are installed for a kernel."""
        return {path.name.partition(".")[0]
                for path in (self.path / "lib/modules" / release).rglob("smq*.ko*")}
