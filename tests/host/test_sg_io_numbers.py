# SPDX-License-Identifier: GPL-2.0
"""Numbers in sg_io's options and command files: each is accepted exactly within its limits, and the
message for any other names the option or key."""
import math
import re

from properties import given, st
from sg_io_build import binary, run

READ, WRITE = "28000000000000000100 in 512", "2a000000000000000100 out 512"
MANY = (1 << 64) - 1
# Where a number is: arguments, then after "|" the line of the command file; its lowest and highest
# value.
NUMBERS = {
    "compare --rounds {} d f": (1, 1000), "run --depth {} d f": (1, 4096),
    "run --batch {} d f": (1, 4096), "run --jobs {} d f": (1, 1024),
    "run --count {} d f": (1, 1 << 48), "run --memory {} d f": (1, 1 << 20),
    "record --count {} d": (1, 1 << 24), "record --buffer {} d": (4, 1 << 20),
    "replay --depth {} d f": (1, 4096), "replay --awake {} d f": (0, 1000000),
    "replay --loop {} d f": (0, 10 ** 9), "replay --stop-when errors={} d f": (1, MANY),
    "verify --depth {} d f": (1, 4096), "verify --jobs {} d f": (1, 1024),
    "copy --chunk {} a b": (1, 1 << 28), "copy --skip {} a b": (0, MANY),
    "copy --seek {} a b": (0, MANY), "copy --blocks {} a b": (1, MANY),
    "copy --depth {} a b": (1, 1024), "copy --jobs {} a b": (1, 64),
    "copy --max-errors {} a b": (1, 1 << 20), "gen --op tur:{} --count 1": (1, 1000000),
    "gen --op read16 --random {}": (0, MANY), "gen --op read10 --block-size {}": (1, 1 << 20),
    "gen --op tur --timeout {}": (1, 86400000), "gen --op read10 --blocks {}": (1, 65535),
    "gen --op read6 --blocks {}": (1, 256),
    "run /dev/null - | 28000000000000000100 in {}": (1, 1 << 28),
    f"run /dev/null - | {READ} timeout={{}}": (1, 86400000),
    f"run /dev/null - | {READ} at={{}}": (0, 31536000000000),
    f"run /dev/null - | {READ} cpu={{}}": (0, 1023),
    f"run /dev/null - | {READ} resid={{}}": (0, 512),
    f"run /dev/null - | {READ} wait={{}}": (1, 86400000000),
    f"run /dev/null - | {READ} until=good repeat={{}}": (1, 1000000),
    f"run /dev/null - | {WRITE} pattern=byte:{{}}": (0, 255),
    f"run /dev/null - | {WRITE} pattern=random:{{}}": (0, MANY),
    f"run /dev/null - | {WRITE} pattern=tag:{{}}": (0, MANY),
    f"run /dev/null - | {WRITE} pattern=tag:1:{{}}": (0, (1 << 32) - 1),
}
JUNK = ["x", "-1", "+1", "1.5", "0x", "5q", "1kk", "1e3", "nan", "5 5", "0x1z"]
REALS = {"run --rate {} d f": 1e9, "replay --speed {} d f": 1e6, "gen --op tur --zipf {}": 100}
TIMES = ["run --time {} d f", "record --time {} d", "replay --from {} d f"]
YEAR = 86400 * 365


@st.composite
def spelled(draw, where, low, high):
    """A number as a program may write it, and its value; None if it is none."""
    value = draw(st.sampled_from([low, high, high + 1, max(low - 1, 0)]) | st.integers(low, high) |
                 st.integers(0, 1 << 70))
    kind = draw(st.sampled_from(["decimal", "hex", "suffix", "junk"]))
    if kind == "junk":
        # A blank ends a word of a command file.
        return draw(st.sampled_from([j for j in JUNK if " " not in j or "|" not in where])), None
    if kind == "suffix":
        shift = draw(st.sampled_from([10, 20, 30, 40]))
        # Keys of a command file, but not BYTES, have no suffix.
        taken = "|" not in where or where.endswith(" in {}")
        return f"{value >> shift}{'kMGT'[shift // 10 - 1]}", (value >> shift << shift) if taken \
            else None
    return (f"{value:#x}" if kind == "hex" else str(value)), value


def refused(where, text):
    """Whether sg_io refuses a number. If it does, its message has the number and its place."""
    args, _, line = where.partition(" | ")
    if "gen" in args:
        args = args if "--count" in args else f"{args} --count 1"
    done = run(binary(), *(word.format(text) for word in args.split()),
               stdin=line.format(text).encode())
    if done.returncode != 2 or not re.search("is no |is 0|over", done.stderr):
        return False
    name = re.findall(r"--[\w-]+|\w+(?==)", where.partition("{}")[0])
    assert (name[-1] if name else "BYTES") in done.stderr, done.stderr
    return True


@given(st.sampled_from(sorted(NUMBERS)).flatmap(
    lambda where: st.tuples(st.just(where), spelled(where, *NUMBERS[where]))))
def test_number_is_accepted_exactly_within_its_limits(case):
    where, (text, value) = case
    low, high = NUMBERS[where]
    assert refused(where, text) == (value is None or not low <= value <= high)


@given(st.sampled_from(sorted(REALS)), st.floats(1e-6, 2e9).map(repr) |
       st.sampled_from(["0", "1e-10", "nan", "inf", "-5", "x", "1x"]))
def test_fraction_is_accepted_exactly_within_its_limits(where, text):
    try:
        good = 1e-6 <= float(text) <= REALS[where]
    except ValueError:
        good = False
    assert refused(where, text) == (not good)


@given(st.sampled_from(TIMES), st.floats(1e-7, 2 * YEAR), st.sampled_from(["", "s", "m", "h"]),
       st.sampled_from(["{}{}"] * 4 + ["{}{}d", "{}{}{}", "-{}{}", "x"]))
def test_time_is_accepted_exactly_within_its_limits(where, value, unit, form):
    seconds = value * {"": 1, "s": 1, "m": 60, "h": 3600}[unit]
    good = form == "{}{}" and 1e-6 <= seconds <= YEAR
    if math.isclose(seconds, YEAR) or math.isclose(seconds, 1e-6):
        return
    assert refused(where, form.format(repr(value), unit, unit or "x")) == (not good)
