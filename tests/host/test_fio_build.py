# SPDX-License-Identifier: GPL-2.0
"""fio's headers and the engine that is built with them."""

import os
import shutil
import subprocess

import pytest
from make import make
from sg_io_build import ROOT, TIMEOUT

SOURCE = ROOT / "tools/src/fio_smq"
HEADERS = ROOT / "tools/fio-headers"
FIO = shutil.which("fio")


def headers(*args, **env):
    return subprocess.run([HEADERS, *args], env={**os.environ, **env}, capture_output=True,
                          text=True, check=False, timeout=TIMEOUT)


@pytest.fixture(scope="module", autouse=True)
def there():
    """The folder of the headers that `make build-all` has downloaded."""
    done = headers("path")
    assert done.returncode == 0, done.stderr + "run tools/fio-headers prepare"
    return done.stdout.strip()


def test_build_without_headers_skips_only_the_engine(tmp_path):
    """tools/fio-headers says what is missing and how to install it. make prints one line, builds no
    engine, and succeeds."""
    done = headers("path", SMQ_CACHE=str(tmp_path))
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.endswith(" are not there: tools/fio-headers prepare\n")
    made = subprocess.run(["make", "-s", "-C", SOURCE, f"out={tmp_path}/out"],
                          env={**os.environ, "SMQ_CACHE": str(tmp_path)}, capture_output=True,
                          text=True, check=False, timeout=TIMEOUT)
    assert (made.returncode, made.stderr) == (0, "")
    assert made.stdout.startswith("fio's engine is not built: the headers of fio ")
    assert made.stdout.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_unconfigured_source_is_refused(tmp_path):
    done = headers("prepare", FIO_SOURCE=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (f"tools/fio-headers: FIO_SOURCE: '{tmp_path}' has no fio.h and "
                           "config-host.h: it is no configured source of fio\n")


def test_fio_for_guests_has_the_installed_version(there):
    """The fio that tools/check has built, which starts fast, has the installed version and the
    engines that tests in guests need."""
    done = headers("program")
    assert done.returncode == 0, done.stderr
    program = done.stdout.strip()
    assert os.path.dirname(program) == there
    versions = {subprocess.run([name, "--version"], capture_output=True, check=True,
                               timeout=TIMEOUT).stdout for name in (program, FIO)}
    assert len(versions) == 1
    engines = subprocess.run([program, "--enghelp"], capture_output=True, text=True, check=True,
                             timeout=TIMEOUT).stdout.split()
    assert {"libaio", "io_uring", "psync", "sg"} <= set(engines)


def test_user_can_name_a_built_fio(tmp_path):
    for name in ("fio.h", "config-host.h"):
        (tmp_path / name).touch()
    done = headers("program", FIO_SOURCE=str(tmp_path))
    assert done.returncode == 1 and done.stderr.endswith("has no fio: it is not built\n")
    (tmp_path / "fio").touch(0o755)
    done = headers("program", FIO_SOURCE=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/fio\n")


def run_fio(engine, *args):
    """Runs fio with a job that cannot begin; returns fio's error message."""
    done = subprocess.run([FIO, "--name=x", f"--ioengine=external:{engine}", "--rw=read",
                           "--size=1m", "--filename=/dev/null", *args], capture_output=True,
                          text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 1
    return done.stderr


def test_engine_loads_and_has_its_options():
    make(SOURCE, timeout=TIMEOUT)
    engine = ROOT / "build/tools/fio/fio-smq.so"
    assert run_fio(engine) == "fio: smq: /dev/null: not a /dev/smqsgN\n"
    done = subprocess.run([FIO, f"--enghelp={engine}"], capture_output=True, text=True,
                          check=True, timeout=TIMEOUT)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    text = (ROOT / "docs/fio.md").read_text(encoding="utf-8")
    assert names and [name for name in names if f"| `{name}` |" not in text] == []
    for wrong in ("smq_mode=held-tight", "smq_timeout=0", "smq_batch=2"):
        assert wrong.split("=", maxsplit=1)[0] in run_fio(engine, f"--{wrong}")


def test_engine_exports_one_symbol():
    """The engine exports only fio's symbol, because other names could conflict with fio's."""
    engine = ROOT / "build/tools/fio/fio-smq.so"
    done = subprocess.run(["nm", "-D", "--defined-only", engine], capture_output=True, text=True,
                          check=True, timeout=TIMEOUT)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["ioengine"]


def test_engine_refuses_another_fio(tmp_path):
    """The engine refuses another version of fio, whose structures may differ."""
    other = tmp_path / "bin"
    other.mkdir()
    out = tmp_path / "out"
    # The second build must replace the engine of the first.
    for version in ("fio-9.99", "fio-9.98"):
        (other / "fio").write_text(f"#!/bin/sh\necho {version}\n", encoding="ascii")
        (other / "fio").chmod(0o755)
        subprocess.run(["make", "-s", "-C", SOURCE, f"out={out}", f"engine={out}/fio-smq.so"],
                       env={**os.environ, "PATH": f"{other}:{os.environ['PATH']}"}, check=True,
                       timeout=TIMEOUT)
        said = run_fio(out / "fio-smq.so")
        assert said.startswith("fio: smq: this is fio-3.") and said.endswith(
            f", the engine was built for {version}\n")


def test_engine_is_installed(tmp_path):
    make(SOURCE, "install", "PREFIX=/opt/smq", f"DESTDIR={tmp_path}", timeout=TIMEOUT)
    assert (tmp_path / "opt/smq/lib/fio/fio-smq.so").is_file()
