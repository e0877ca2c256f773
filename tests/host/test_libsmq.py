# SPDX-License-Identifier: GPL-2.0
"""libsmq: its CDBs, its texts for results and errors, its exported symbols, and the files that it
installs."""

import errno
import os
import re
import shlex
import shutil
import subprocess

import pytest
from sg_io_build import LIBSMQ, ROOT, TIMEOUT, part, run

SENSE_FIXED = "7000050000000006000000002100"
SENSE_DESCRIPTOR = "7205210000000000"


def ask(*lines):
    program = part("libsmq_parts", libsmq=("cdb.c", "device.c", "outcome.c", "strerror.c"))
    return run(program, stdin="\n".join(lines).encode() + b"\n").stdout.splitlines()


@pytest.mark.parametrize("line,want", [
    ("cdb 08 2097151 256", "081fffff0000"),
    ("cdb 0a 1 255", "0a000001ff00"),
    ("cdb 08 2097152 1", f"{-errno.ERANGE}"),
    ("cdb 08 0 257", f"{-errno.ERANGE}"),
    ("cdb 08 0 0", f"{-errno.ERANGE}"),
    ("cdb 28 4294967295 65535", "2800ffffffff00ffff00"),
    ("cdb 2f 0 0", "2f000000000000000000"),
    ("cdb 28 4294967296 1", f"{-errno.ERANGE}"),
    ("cdb 2a 0 65536", f"{-errno.ERANGE}"),
    ("cdb a8 16909060 84281096", "a80001020304050607080000"),
    ("cdb aa 4294967296 1", f"{-errno.ERANGE}"),
    ("cdb 88 18446744073709551615 4294967295", "8800ffffffffffffffffffffffff0000"),
    ("cdb 8f 1 2", "8f000000000000000001000000020000"),
    ("cdb 12 0 1", f"{-errno.EINVAL}"),
])
def test_cdb_is_built_or_refused(line, want):
    assert ask(line) == [want]


@pytest.mark.parametrize("line,want", [
    # result, resid, key, asc, ascq, sense_len
    ("slot 0 0 0 0 0 0", "GOOD 0 GOOD"),
    (f"slot {1 << 17} 512 0 0 0 0", "GOOD 512 GOOD, 512 bytes short"),
    (f"slot {0x02 | 1 << 16} 0 5 21 0 18",
     "BAD 0 CHECK CONDITION: Illegal Request (5h): Logical block address out of range (21h/00h)"),
    # The slots were set up with a sense_size of 0.
    (f"slot {0x02 | 1 << 16} 0 5 21 0 0",
     "BAD 0 CHECK CONDITION: Illegal Request (5h): Logical block address out of range (21h/00h)"),
    (f"slot {0x28} 0 0 0 0 0", "BAD 0 TASK SET FULL"),
    (f"slot {0x04} 0 0 0 0 0", "GOOD 0 CONDITION MET"),
    (f"slot {0x03 << 8} 4096 0 0 0 0", "BAD 4096 DID_TIME_OUT, 4096 bytes short"),
    (f"slot {0x63 << 8} 0 0 0 0 0", "BAD 0 host 0x63"),
    # If the result is negative, the other fields have no meaning.
    (f"slot {-errno.ENODEV} 7 5 21 0 18", "BAD 0 ENODEV: the device is gone"),
    (f"slot {-errno.EILSEQ} 0 0 0 0 0", f"BAD 0 EILSEQ: {os.strerror(errno.EILSEQ)}"),
    # result, resid, key, asc, ascq
    ("timed 0 0 0 0 0", "GOOD 0 GOOD"),
    (f"timed {0x02 | 1 << 16} 512 5 21 0", "BAD 512 CHECK CONDITION: Illegal Request (5h): "
     "Logical block address out of range (21h/00h), 512 bytes short"),
    (f"timed {0x08} 0 5 21 0", "BAD 0 BUSY"),
    (f"timed {-errno.ECANCELED} 7 5 21 0",
     "BAD 0 ECANCELED: cancelled before it was sent"),
    # result, status | driver << 8 | host << 16 | sense length << 24 | residual << 32
    ("command 0 0 -", "GOOD 0 GOOD"),
    ("command 0 0000020000000000 -", "GOOD 512 GOOD, 512 bytes short"),
    (f"command 0 0e000802 {SENSE_FIXED}",
     "BAD 0 CHECK CONDITION: Illegal Request (5h): Logical block address out of range (21h/00h)"),
    (f"command 0 08000802 {SENSE_DESCRIPTOR}",
     "BAD 0 CHECK CONDITION: Illegal Request (5h): Logical block address out of range (21h/00h)"),
    ("command 0 00010000 -", "BAD 0 DID_NO_CONNECT"),
    (f"command {-errno.EINVAL} ffffffffffffffff -",
     "BAD 0 EINVAL: there is no such slot, a flag is unknown, an unused field is not 0, or the "
     "buffer does not suit the slot"),
])
def test_result_is_converted_to_words(line, want):
    assert ask(line) == [want]


def calls():
    text = (LIBSMQ / "libsmq.h").read_text(encoding="ascii")
    return re.findall(r"\bSMQ_CALL_(\w+),", text)


def test_errors_have_texts():
    names = calls()
    assert ask(f"error {names.index('PREPARE')} {-errno.ERANGE}",
               f"error {names.index('RUN')} {errno.ERANGE}",
               f"error {names.index('OPEN')} {-errno.ENOENT}",
               f"error {names.index('OPEN')} 99999") == [
        "the data is not inside the buffer",
        "the LBA does not fit into the CDB, or the data into the buffer",
        os.strerror(errno.ENOENT), "unknown error"]


def test_errors_of_runs_have_their_own_texts():
    """Each errno that <scsi/smq_sg.h> lists for struct smq_sg_run has a text of its own, except
    ENOMEM, which has the text of strerror()."""
    text = (ROOT / "include/uapi/scsi/smq_sg.h").read_text(encoding="ascii")
    told = text.split(" * struct smq_sg_run - ")[1].split("*/")[0]
    names = set(re.findall(r"\b(E[A-Z]+):", told))
    assert names > {"EAGAIN", "ENOENT", "EMSGSIZE"} and "EINVAL" in names
    numbers = [getattr(errno, name) for name in sorted(names - {"ENOMEM"})]
    run_call = calls().index("RUN")
    said = ask(*(f"error {run_call} {number}" for number in numbers))
    assert not set(said) & {os.strerror(number) for number in numbers}
    # A whole command that waits for its turn ends with the same errors as a slot.
    for number in errno.EAGAIN, errno.ETIMEDOUT:
        assert ask(f"error {calls().index('COMMAND')} {number}", f"error {run_call} {number}") == [
            said[numbers.index(number)]] * 2


def test_each_field_has_the_name_of_its_constant():
    """SMQ_SG_FIELD_NONE has no name, and neither has a number that only a newer module knows."""
    text = (ROOT / "include/uapi/scsi/smq_sg.h").read_text(encoding="ascii")
    fields = {int(number): name.lower() for name, number in re.findall(
        r"^\tSMQ_SG_FIELD_(\w+) = (\d+),$", text, flags=re.M)}
    assert fields[0] == "none" and sorted(fields) == list(range(len(fields)))
    numbers = [*sorted(fields), len(fields), 2 ** 32 - 1]
    assert ask(*(f"field {number}" for number in numbers)) == [
        "-" if number == 0 else fields.get(number, "-") for number in numbers]


@pytest.mark.parametrize("node,error", [
    ("/dev/null", errno.ENOTTY), ("/dev/absent", errno.ENOENT), ("/etc/hostname", errno.ENOTTY)])
def test_open_refuses_other_files(node, error):
    assert ask(f"open {node}") == [f"{-error}"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Installs the library with PREFIX="/opt/my smq"; returns the folder of that prefix."""
    folder = tmp_path_factory.mktemp("install")
    subprocess.run(["make", "-s", "-C", LIBSMQ, "install", "PREFIX=/opt/my smq",
                    f"DESTDIR={folder}"], check=True, timeout=TIMEOUT)
    return folder / "opt/my smq"


def pkg_config(installed, *args):
    env = {**os.environ, "PKG_CONFIG_PATH": f"{installed}/lib/pkgconfig",
           "PKG_CONFIG_SYSROOT_DIR": str(installed.parents[1])}
    done = subprocess.run(["pkg-config", *args, "libsmq"], env=env, capture_output=True,
                          text=True, check=True, timeout=TIMEOUT)
    return shlex.split(done.stdout)


@pytest.mark.parametrize("example", ["random_reads", "inquiry"])
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_examples_build_from_the_installed_files(installed, tmp_path, example, static):
    flags = pkg_config(installed, "--cflags", "--libs", *(["--static"] if static else []))
    if static:
        flags = [f"{installed}/lib/libsmq.a" if f == "-lsmq" else f for f in flags]
    source = LIBSMQ / "examples" / f"{example}.c"
    assert len(source.read_text(encoding="ascii").splitlines()) <= 60
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / example, source, *flags],
                   check=True, timeout=TIMEOUT)
    done = subprocess.run([tmp_path / example, "/dev/null", "1"][:3 if example != "inquiry" else 2],
                          env={"LD_LIBRARY_PATH": f"{installed}/lib"}, capture_output=True,
                          text=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stdout) == (1, "")
    assert "/dev/null: not a /dev/smqsgN" in done.stderr


# Prints C code with the sizes and offsets that cffi computes from the declarations. The code
# compiles only if the headers have the same sizes and offsets.
ASSERTIONS = """
import re, sys, cffi
ffi = cffi.FFI()
ffi.cdef(sys.argv[1])
for name in re.findall(r"^struct (\\w+) {", sys.argv[1], flags=re.M):
    kind = ffi.typeof("struct " + name)
    print(f"_Static_assert(sizeof(struct {name}) == {ffi.sizeof(kind)}, \\"{name}\\");")
    for field, what in kind.fields:
        print(f"_Static_assert(__builtin_offsetof(struct {name}, {field}) == {what.offset} &&"
              f" sizeof(((struct {name} *)0)->{field}) == {ffi.sizeof(what.type)},"
              f" \\"{name}.{field}\\");")
"""


def test_python_module_has_the_declarations_of_the_headers(tmp_path):
    text = (LIBSMQ / "python/smq/_declarations.py").read_text(encoding="ascii")
    cdef = re.search(r'CDEF = """\n(.*?)"""', text, flags=re.S)[1]
    functions = re.sub(r"^struct \w+ \{.*?\};", "", cdef, flags=re.S | re.M)
    functions = re.sub(r"^#define (\w+) (.*)$", r'_Static_assert(\1 == \2, "\1");', functions,
                       flags=re.M)
    module = (LIBSMQ / "python/smq/__init__.py").read_text(encoding="ascii")
    names = re.search(r"^_CALLS = \((.*)\)$", module, flags=re.M)[1]
    assert calls() == [name.upper() for name in re.findall(r'"(\w+)"', names)]
    # Debian's own Python has cffi.
    done = subprocess.run(["/usr/bin/python3", "-c", ASSERTIONS, cdef], capture_output=True,
                          text=True, check=True, timeout=TIMEOUT)
    assert done.stdout.count("_Static_assert") > 50 and "smq_reap" in functions
    source = tmp_path / "agrees.c"
    source.write_text(f"#include <libsmq.h>\n{done.stdout}{functions}", encoding="ascii")
    subprocess.run(["cc", "-fsyntax-only", "-Werror", f"-I{LIBSMQ}", f"-I{ROOT}/include/uapi",
                    source], check=True, timeout=TIMEOUT)


def declared():
    """The exported functions that the header declares, and its inline functions."""
    text = (LIBSMQ / "libsmq.h").read_text(encoding="ascii")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    inline = set(re.findall(r"static inline .*?\b(smq_\w+)\(", text))
    return set(re.findall(r"^[^=\n\t]*?\b(smq_\w+)\(", text, flags=re.M)) - inline, inline


def test_only_functions_of_the_header_are_exported(installed):
    names, inline = declared()
    done = subprocess.run(["nm", "-D", "--defined-only", installed / "lib/libsmq.so"],
                          capture_output=True, text=True, check=True, timeout=TIMEOUT)
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    versions = {name for name in exported if "@" not in name}
    assert versions == {"LIBSMQ_1.0"}
    assert {name.split("@")[0] for name in exported - versions} == names
    manual = (LIBSMQ / "libsmq.3").read_text(encoding="ascii")
    assert {name for name in names | inline if f"{name}(" not in manual} == set()


def test_all_files_have_the_same_version(installed):
    header = (LIBSMQ / "libsmq.h").read_text(encoding="ascii")
    version = re.search(r'LIBSMQ_VERSION\s+"(.*)"', header)[1]
    assert pkg_config(installed, "--modversion") == [version]
    library = os.path.realpath(installed / "lib/libsmq.so")
    assert os.path.basename(library) == f"libsmq.so.1.{version}"
    assert f'"libsmq {version}"' in (LIBSMQ / "libsmq.3").read_text(encoding="ascii")


def test_pip_installs_the_python_module(installed, tmp_path):
    """Without the network: setuptools and cffi are Debian's. pip builds in the folder of the
    sources."""
    python = tmp_path / "venv/bin/python"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages",
                    tmp_path / "venv"], check=True, timeout=TIMEOUT)
    shutil.copytree(LIBSMQ / "python", tmp_path / "source")
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation",
                    tmp_path / "source"], check=True, timeout=TIMEOUT)
    done = subprocess.run(
        [python, "-c", "import smq; print(smq.__file__, smq.__version__, smq.library_version())"],
        env={"LD_LIBRARY_PATH": f"{installed}/lib"}, cwd=tmp_path, capture_output=True, text=True,
        check=True, timeout=TIMEOUT)
    path, version, library = done.stdout.split()
    assert path.startswith(f"{tmp_path}/venv/lib/") and version == library
    assert list(tmp_path.glob("venv/lib/*/site-packages/smq/py.typed"))


# The Python module with a library that has no device. Each line must hold.
NO_DEVICE = """
import errno, smq

class Library:
    def __getattr__(self, name):
        return getattr(real, name)

    def opens(self, *args):
        args[-1][0] = smq._ffi.cast(smq._ffi.typeof(args[-1]).item, 1)
        return 0

    def works(self, *_):
        return self.result

    result = 0
    smq_open = smq_ring_new = opens
    smq_lend = smq_take_back = smq_queue_run = smq_queue_command = smq_execute = works
    smq_close = smq_ring_free = works

def refused(error, call, *args, **more):
    try:
        call(*args, **more)
    except error:
        return True

def is_kept(memory):
    return refused(BufferError, memory.append, 0)

real = smq._lib
library = smq._lib = Library()
lent, taken, data, sent = (bytearray(512) for _ in range(4))
dev, ring = smq.Device("/dev/smqsg0"), smq.Ring(4, commands=True)
dev.lend(lent)
dev.lend(taken, index=1)
ring.queue_run(dev, 0, buffer=None)
dev.take_back(1)
ring.queue_command(dev, bytes(6), data_in=data)
library.result = -errno.EAGAIN
assert refused(smq.Error, ring.queue_command, dev, bytes(6), data_in=sent) and not is_kept(sent)
library.result = 0
count = len(smq._in_flight)
for slot in -1, 1 << 32:
    assert refused(OverflowError, ring.queue_run, dev, slot) and len(smq._in_flight) == count
dev.execute(smq.span(0, 1))
for _ in range(2):
    ring.free()
    dev.close()
# What was not reaped may be in flight.
assert is_kept(lent) and is_kept(taken) and is_kept(data)
assert refused(ValueError, ring.submit) and refused(ValueError, ring.queue_run, dev, 0)
for call in dev.fileno, dev.info, dev.take_back, dev.cancel_all:
    assert refused(ValueError, call)
for call, arg in ((dev.execute, smq.span(0, 1)), (dev.outcome, 0), (dev.prepare, []),
                  (dev.lend, bytearray(1)), (dev.cancel, 0), (dev.setup, 1)):
    assert refused(ValueError, call, arg)
for more in ring.add, ring.remove:
    assert refused(ValueError, more, smq.Device("/dev/smqsg0"))

# A signal ends execute(), not its commands.
for result, kept in (0, False), (-errno.EIO, False), (-errno.EINTR, True):
    memory = bytearray(512)
    with smq.Device("/dev/smqsg0") as dev:
        dev.lend(memory)
        library.result = result
        assert refused(smq.Error, dev.execute, smq.span(0, 1)) is (True if result else None)
        library.result = 0
    assert is_kept(memory) is (True if kept else None)

found = smq._ffi.new("struct smq_outcome *")
found.error = errno.EIO
assert str(smq.Outcome._of(found)).startswith("EIO: ")
"""


def test_python_module_frees_no_memory_in_use(installed):
    env = {**os.environ, "LD_LIBRARY_PATH": f"{installed}/lib",
           "PYTHONPATH": str(LIBSMQ / "python"),
           # malloc() fills what is freed.
           "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.perturb=85"}
    done = subprocess.run(["/usr/bin/python3", "-B", "-c", NO_DEVICE], env=env, check=False,
                          capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
