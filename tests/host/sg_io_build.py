# SPDX-License-Identifier: GPL-2.0
"""Builds tools/sg_io, its sanitized variant, and small programs that call some of its C files."""

import functools
import os
import pathlib
import subprocess

from make import make

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / "tools/src/sg_io"
LIBSMQ = ROOT / "tools/libsmq"
HERE = pathlib.Path(__file__).resolve().parent
OUT = ROOT / "build/tests/host"
TIMEOUT = 120

# What reads a command file.
COMMAND_FILE = (*(f"issue/cmdfile/{name}.c" for name in
                  ("cmdfile", "map", "map_option", "cdb", "dataset", "pattern", "tag", "expect")),
                "issue/device/device.c", "inputs.c", "util.c")

SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@functools.cache
def binary(sanitized=False):
    """Builds sg_io; returns its path."""
    args = ["SANITIZE=1"] if sanitized else []
    make(SRC, *args, timeout=TIMEOUT)
    return ROOT / ("build/tools/sg_io-san/sg_io" if sanitized else "tools/sg_io")


@functools.cache
def part(name, *sources, libsmq=(), sanitize=SANITIZE):
    """Builds a test program, sanitized, from tests/host/NAME.c, files of sg_io (@sources) and files
    of libsmq (@libsmq). Returns its path."""
    OUT.mkdir(parents=True, exist_ok=True)
    out, new = OUT / name, OUT / f"{name}.{os.getpid()}"
    subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1",
         "-Wno-missing-field-initializers", *sanitize, f"-I{SRC}", f"-I{LIBSMQ}",
         f"-I{ROOT}/include/uapi", "-o", new, HERE / f"{name}.c",
         *(SRC / s for s in sources), *(LIBSMQ / s for s in libsmq),
         "-luring", "-lsgutils2", "-ljson-c", "-lm"],
        check=True, timeout=TIMEOUT)
    # The atomic rename is needed because another test file may build or run the same program.
    new.replace(out)
    return out


def program_run(program, *args, stdin=b"", cwd=None):
    """Runs a program; returns its exit status and output, as bytes. Fails if it crashed, or if a
    sanitizer reported an error."""
    env = {**os.environ, "ASAN_OPTIONS": "exitcode=99", "UBSAN_OPTIONS": "exitcode=99"}
    done = subprocess.run([program, *map(os.fspath, args)], input=stdin, cwd=cwd, env=env,
                          capture_output=True, timeout=TIMEOUT, check=False)
    assert done.returncode >= 0 and done.returncode != 99, done.stderr
    return done


def run(program, *args, stdin=b"", cwd=None):
    """The same with the output as text."""
    done = program_run(program, *args, stdin=stdin, cwd=cwd)
    done.stdout = done.stdout.decode(errors="replace")
    done.stderr = done.stderr.decode(errors="replace")
    return done
