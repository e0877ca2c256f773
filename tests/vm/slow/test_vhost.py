# SPDX-License-Identifier: GPL-2.0
# vm: --mem 2048
"""smq_virtio on vhost-scsi: this kernel's LIO is the target of a VM inside this VM.

The tests are in vhost_guest, the first process of the inner VM. """
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.host import KernelLog, run
from kit.lio import VHOST, Wwn, fileio, ramdisk, vhost_fabric
from kit.targetcli import TOP

sys.path.insert(0, str(TOP / "tools"))
# pylint: disable=wrong-import-position
from testvm import initramfs, kernel as kernels, machine, modules, report  # noqa: E402

GUEST = Path(__file__).with_name("vhost_guest")
PROGRAMS = ("fio", "sg_inq", "sg_luns", "sg_readcap", "sg_reset", "sg_turs", "sg_vpd",
            TOP / "tools/sg_io")
MODULES = ("virtio_pci", "sd_mod", "sg", "crct10dif_generic", "virtio_scsi", "smq_virtio",
           "smq_sg")
PLAIN, PROTECTED = "naa.5001405000000041", "naa.5001405000000042"
NEXUS = "naa.5001405000000a41"
MIB = 32
# The place of the guest's data: 16 MiB from the beginning of a disk.
FIRST, BLOCKS, BLOCK = 32768, 256, 512
# A long limit: the CPU of the inner VM is emulated, by a CPU that may be emulated itself.
SECONDS = 2400

pytestmark = pytest.mark.limit(SECONDS + 300)


class Target:
    """The changes to its two disks that the guest may request. Each is LUN 0 of its own target."""

    def __init__(self, tpg, store: Path, guarded: Path):
        self._tpg, self._store, self._guarded = tpg, store, guarded

    def unlink(self) -> None:
        """Removes the plain disk."""
        self._tpg.unlink(0)

    def link(self) -> None:
        """Adds the plain disk again."""
        self._tpg.add(0, self._store)

    def flip_bit(self, at: int) -> None:
        """Inverts a bit of the protected disk's data without changing its protection
        information."""
        with self._guarded.open("r+b", buffering=0) as file:
            byte = os.pread(file.fileno(), 1, at)[0] ^ 1
            os.pwrite(file.fileno(), bytes([byte]), at)


class Requests(socketserver.StreamRequestHandler):
    """Handles requests of the guest, one per line: a method of Target and its arguments. Answers
    each request when it is done."""

    def handle(self):
        """Handles requests until the guest ends the connection."""
        for line in self.rfile:
            name, *numbers = line.decode("ascii").split()
            answer = "done"
            try:
                getattr(self.server.target, name)(*map(int, numbers))
            except OSError as error:
                answer = str(error)
            self.wfile.write(f"{answer}\n".encode())


@contextmanager
def serve_requests(target: Target, path: Path):
    """Serves the guest's requests at a socket."""
    with socketserver.UnixStreamServer(str(path), Requests) as server:
        server.target = target
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def targets(folder: Path):
    """Makes two targets: a RAM disk, and a file with T10-PI."""
    image = folder / "guarded"
    with ramdisk("store", MIB) as store, \
            fileio("guarded", image, MIB, pi_prot_type=1, pi_prot_format=1) as guarded, \
            vhost_fabric():
        tpgs = [Wwn(name, VHOST).tpg(nexus=NEXUS) for name in (PLAIN, PROTECTED)]
        for tpg, backstore in zip(tpgs, (store, guarded), strict=True):
            tpg.add(0, backstore)
        yield Target(tpgs[0], store, image)


def install(program, tree: Path) -> None:
    """Installs a program, with its libraries at the same paths."""
    path = Path(shutil.which(program))
    shutil.copy(path, tree / "bin" / path.name)
    for library in re.findall(r"(/\S+) \(0x", run("ldd", path).stdout):
        if not (tree / library[1:]).exists():
            (tree / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, tree / library[1:])


def root_of_guest(kernel: kernels.Kernel, folder: Path) -> Path:
    """Makes the guest's initramfs. It holds all files, because reading them from a share would take
    minutes."""
    tree = folder / "tree"
    for name in ("bin", "dev", "modules", "proc", "sys", "tmp"):
        (tree / name).mkdir(parents=True)
    shutil.copy(initramfs.busybox(), tree / "bin/busybox")
    shutil.copy(GUEST, tree / "init")
    for program in PROGRAMS:
        install(program, tree)
    names = []
    for path in modules.dependencies(kernel, list(MODULES)):
        names.append(path.name[:path.name.index(".ko")] + ".ko")
        data = path.read_bytes()
        if path.suffix != ".ko":
            data = kernels.unpack(data, str(path))
        (tree / "modules" / names[-1]).write_bytes(data)
    (tree / "modules/order").write_text("".join(f"{name}\n" for name in names), encoding="ascii")
    (tree / "theirs").write_bytes(os.urandom(BLOCKS * BLOCK))
    # The same data as sg_io's pattern lba.
    (tree / "numbers").write_bytes(b"".join((FIRST + at).to_bytes(8, "big") * (BLOCK // 8)
                                            for at in range(BLOCKS)))
    writes = run(TOP / "tools/sg_io", "gen", "--op", "write10", "--blocks", 8, "--count",
                 BLOCKS // 8, "--pattern", "lba", "--range", f"{FIRST}:{FIRST + BLOCKS - 1}")
    (tree / "writes").write_text(writes.stdout, encoding="ascii")
    initramfs.archive(tree, folder / "initramfs")
    shutil.rmtree(tree)
    return folder / "initramfs"


def command(kernel: kernels.Kernel, folder: Path) -> list[str]:
    """QEMU's command line; its output is the guest's console."""
    words = [machine.QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
             "-machine", "q35", "-m", "384M", "-accel", "tcg", "-cpu", "qemu64,+rdrand",
             # With icount the guest's clock counts the instructions that its CPU executes. Without
             # it timer ticks would use most of the CPU's time.
             "-icount", "shift=4",
             "-kernel", str(kernels.bootable(kernel)),
             "-initrd", str(root_of_guest(kernel, folder)),
             "-append", "console=ttyS0 quiet loglevel=5 panic=-1 oops=panic nokaslr "
             "mitigations=off no_timer_check random.trust_cpu=1 printk.time=1 "
             "rcupdate.rcu_cpu_stall_timeout=60 cryptomgr.notests audit=0 apparmor=0",
             "-serial", "stdio", "-serial", f"unix:{folder}/requests"]
    return words + ["-device", f"vhost-scsi-pci,wwpn={PLAIN}",
                    "-device", f"vhost-scsi-pci,wwpn={PROTECTED},t10_pi=on"]


def run_guest(words: list[str]) -> str:
    """Runs the guest until it ends; returns its output. Prints lines about the guest's steps at
    once."""
    said, began = [], time.monotonic()
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, errors="replace") as guest:
        end = threading.Timer(SECONDS, guest.kill)
        end.start()
        try:
            for line in guest.stdout:
                said.append(line)
                if line.startswith("guest: "):
                    print(f"\n[{time.monotonic() - began:4.0f} s] {line[7:].rstrip()}", end="",
                          flush=True)
        finally:
            end.cancel()
            guest.kill()
    return "".join(said)


def test_all_tests_of_the_guest_pass(tmp_path, capfd):
    """All tests of the guest pass, and neither kernel reports a fault."""
    series = re.match(r"\d+\.\d+", os.uname().release)[0]
    found = kernels.find(series)
    # /lib/modules has this project's modules besides the kernel's own.
    kernel = kernels.Kernel(found.release, found.image, Path("/lib/modules", found.release))
    assert kernel.release == os.uname().release
    with KernelLog() as log:
        with targets(tmp_path) as target, serve_requests(target, tmp_path / "requests"):
            words = command(kernel, tmp_path)
            with capfd.disabled():
                said = run_guest(words)
        console = report.ConsoleLog("vm: end ")
        console.feed(said.encode())
        assert not console.faults(), f"the guest's kernel reported a fault:\n{console.faults()}"
        assert re.search(r"^guest: passed", said, re.M), "the guest did not pass:\n" + said
        assert not log.faults(), "the kernel log reports a bug:\n" + log.tail(80)
