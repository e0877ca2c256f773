# SPDX-License-Identifier: GPL-2.0
"""sg_io fidelity: the figures are those of a plain computation, and the verdict follows them."""

import json
import math
import random
import sys
import xml.etree.ElementTree

import pytest
from sg_io_build import SRC, binary, run


def read10(lba):
    return f"2800{lba:08x}00000800"


def line(cdb, at, took=100, cpu=0, dev=None):
    """A line of a recording. @took: ns."""
    end = f" took={took / 1000:.3f}" if took else ""
    return f"{cdb} in 4096 at={at} cpu={cpu}" + (f" dev={dev}" if dev else "") + end + "\n"


def compare(tmp_path, original, replayed, *args, sanitized=True):
    (tmp_path / "a").write_text("".join(original), encoding="ascii")
    (tmp_path / "b").write_text("".join(replayed), encoding="ascii")
    done = run(binary(sanitized), "fidelity", *map(str, args), tmp_path / "a", tmp_path / "b")
    return done


def figures(tmp_path, original, replayed, *args):
    done = compare(tmp_path, original, replayed, "--json", *args)
    assert done.returncode in (0, 1), done.stderr
    got = json.loads(done.stdout)
    assert (done.returncode == 0) == (got["verdict"] == "faithful")
    return got


def percentile(values, share):
    values = sorted(values)
    return values[max(math.ceil(len(values) * share), 1) - 1]


def mean_in_flight(commands):
    """@commands: (start, length) in ns."""
    first = min(start for start, _ in commands)
    assert first == 0
    return sum(length for _, length in commands) / max(start + n for start, n in commands)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("speed", [1, 2])
def test_figures_are_those_of_a_plain_computation(tmp_path, seed, speed):
    rng = random.Random(seed)
    nr = 300
    due = sorted(rng.sample(range(1, 20000), nr - 1))
    due = [0] + [2 * us for us in due]
    took = [rng.randrange(1000, 900_000) for _ in due]
    issued = [us // speed + 30 + rng.randrange(0, 40) for us in due]
    issued[0] = due[0] + 30
    retook = [rng.randrange(1000, 900_000) for _ in due]
    original = [line(read10(8 * n), due[n], took[n], n % 2) for n in range(nr)]
    order = sorted(range(nr), key=lambda n: issued[n])
    replayed = [line(read10(8 * n), issued[n], retook[n], n % 3) for n in order]
    got = figures(tmp_path, original, replayed, "--speed", speed)
    assert (got["commands"], got["missing"], got["extra"]) == (nr, 0, 0)
    late = [1000 * (issued[n] - 30 - due[n] // speed) for n in range(nr)]
    assert got["issue_error_ns"] == {"p50": percentile(late, .5), "p99": percentile(late, .99),
                                     "p999": percentile(late, .999), "max": max(late)}
    assert got["lat_ns"]["p99"] == percentile(retook, .99)
    assert got["original_lat_ns"]["p50"] == percentile(took, .5)
    inversions = sum(issued[i] > issued[k] for i in range(nr) for k in range(i + 1, nr))
    assert got["inversions"] == inversions
    gaps = [sorted(b - a for a, b in zip(at, at[1:]))
            for at in (sorted(us // speed for us in due), sorted(issued))]
    ks = max(abs(sum(g <= x for g in gaps[0]) - sum(g <= x for g in gaps[1])) / (nr - 1)
             for x in {*gaps[0], *gaps[1]})
    assert got["ks_distance"] == pytest.approx(ks, abs=1e-6)
    assert got["original_in_flight"]["mean"] == pytest.approx(mean_in_flight(
        [(1000 * due[n] // speed, took[n]) for n in range(nr)]), abs=1e-5)
    assert got["in_flight"]["mean"] == pytest.approx(mean_in_flight(
        [(1000 * (issued[n] - 30), retook[n]) for n in range(nr)]), abs=1e-5)
    # The curve's area is that of the mean.
    assert sum(got["in_flight"]["curve"]) / 200 == pytest.approx(sum(retook) / max(
        *(1000 * due[n] // speed + took[n] for n in range(nr)),
        *(1000 * (issued[n] - 30) + retook[n] for n in range(nr))), rel=0.01)
    assert got["same_cpu"] == sum(n % 2 == n % 3 for n in range(nr))
    assert got["other_cpu"] == nr - got["same_cpu"]


ONE = [line(read10(8 * n), 100 * n, 50_000) for n in range(100)]


def test_a_recording_is_faithful_to_itself(tmp_path):
    got = figures(tmp_path, ONE, ONE)
    assert (got["verdict"], got["ks_distance"], got["inversions"], got["in_flight_error"]) == (
        "faithful", 0, 0, 0)
    assert (got["in_flight"]["mean"], got["in_flight"]["max"]) == (pytest.approx(
        50 * 100 / 9950, abs=1e-5), 1)
    done = compare(tmp_path, ONE, ONE)
    assert done.stdout.splitlines()[-1] == \
        "faithful: all commands in their order, 99 % of them at most 0.0 us late"


def test_a_command_that_ends_when_another_begins_is_not_in_flight_beside_it(tmp_path):
    lines = [line(read10(8 * n), 100 * n, 100_000) for n in range(10)]
    got = figures(tmp_path, lines, lines)
    assert (got["in_flight"]["max"], got["in_flight"]["mean"]) == (1, 1)


def test_equal_commands_are_paired_in_their_order(tmp_path):
    same = [line(read10(0), 10 * n) for n in range(50)]
    later = [line(read10(0), 10 * n + 3) for n in range(50)]
    got = figures(tmp_path, same, later)
    assert (got["commands"], got["issue_error_ns"]["max"], got["inversions"]) == (50, 0, 0)


def test_reads_before_the_replay_are_left_over(tmp_path):
    """A replay first looks for a file system, with READs that the load may have, too."""
    original = [line(read10(8 * (n % 10)), 100 * n) for n in range(100)]
    replayed = [*(line(read10(8 * n), 10 * n) for n in range(5)),
                *(line(read10(8 * (n % 10)), 100 * n + 5000) for n in range(100))]
    got = figures(tmp_path, original, replayed)
    assert (got["extra"], got["issue_error_ns"]["max"], got["verdict"]) == (5, 0, "faithful")


def test_missing_and_extra_commands(tmp_path):
    more = ["000000000000 none 0 at=0 cpu=0\n",
            *(text.replace(" at=", " at=7") for text in ONE[:1]), *ONE[1:]]
    got = figures(tmp_path, ONE, more)
    assert (got["commands"], got["missing"], got["extra"]) == (100, 0, 1)
    done = compare(tmp_path, ONE, ONE[:90])
    assert done.stdout.splitlines()[-1] == "incomplete: 10 of 100 commands are not in the replay"
    assert figures(tmp_path, ONE[:1], ["000000000000 none 0 at=0\n"])["verdict"] is None


def test_late_and_reordered(tmp_path):
    slow = [line(read10(8 * n), 100 * n + (60 if n > 50 else 0), 50_000) for n in range(100)]
    got = figures(tmp_path, ONE, slow)
    assert (got["verdict"], got["issue_error_ns"]["p99"]) == ("late", 60_000)
    assert figures(tmp_path, ONE, slow, "--late", 60)["verdict"] == "faithful"
    swapped = [*ONE[:10], line(read10(88), 1000), line(read10(80), 1100), *ONE[12:]]
    got = figures(tmp_path, ONE, swapped, "--late", 1000)
    assert (got["verdict"], got["inversions"]) == ("reordered", 1)


def test_commands_of_the_same_microsecond_have_no_order(tmp_path):
    together = [line(read10(8 * n), 0) for n in range(4)]
    backwards = [line(read10(8 * n), 40 - 10 * n) for n in range(4)]
    assert figures(tmp_path, together, backwards)["inversions"] == 0


def test_no_verdict_where_the_machine_was_too_slow(tmp_path):
    head = "# sg_io record /dev/sda\n# an empty timer was {} us late (p99)\n"
    for us, late, verdict, words in ((14.9, 50, "faithful", None), (15.1, 50, "faithful", "15.1"),
                                     (51, 50, None, "51.0"), (51, 60, "faithful", "51.0")):
        got = figures(tmp_path, ONE, [head.format(us), *ONE], "--late", late)
        assert (got["verdict"], got["timer_p99_ns"]) == (verdict, pytest.approx(1000 * us))
        text = compare(tmp_path, ONE, [head.format(us), *ONE], "--late", late).stdout
        assert (words is None) == ("an empty timer was" not in text)
        if verdict is None:
            assert "no verdict: the machine was too slow" in text


def test_lines_without_ends_have_no_load(tmp_path):
    got = figures(tmp_path, ONE, [*ONE[:50], line(read10(400), 5000, 0), *ONE[51:]])
    assert got["in_flight"] is None and got["lat_ns"]["p50"] == 50_000
    bare = [line(read10(8 * n), n, 0) for n in range(3)]
    assert figures(tmp_path, bare, bare)["lat_ns"] is None


def test_devices(tmp_path):
    """Inversions are counted for each device and over all; --map names the replay's devices."""
    a = [line(read10(8 * (n // 2)), 100 * n, dev="ab"[n % 2]) for n in range(20)]
    # The replay of b is late by 1 ms, of a punctual.
    b = [line(read10(8 * (n // 2) + 5 * (n % 2)), 100 * n + 1000 * (n % 2), dev="xy"[n % 2])
         for n in range(20)]
    maps = ["--map", "a=x", "--map", "b=y,offset=5", "--late", 10000]
    got = figures(tmp_path, a, b, *maps)
    assert (got["missing"], got["verdict"]) == (0, "reordered")
    # Each command of b is overtaken by the five of a that were due in the next millisecond.
    assert got["device_inversions"] == {"x": 0, "y": 0}
    assert got["inversions"] == sum(
        i % 2 and 100 * i + 1000 > 100 * k for i in range(20) for k in range(i + 1, 20)
        if not k % 2)
    assert figures(tmp_path, a, b)["missing"] == 20
    text = compare(tmp_path, a, b, *maps).stdout
    assert f"order: {got['inversions']} inversions over all; x 0, y 0" in text


def in_flight_while_busy(commands):
    """The mean of the means of 64 commands. @commands: (start, length) in ns, in the order of their
    starts, of which there are fewer than 256."""
    stop = min(start + n for start, n in commands if start + n > commands[-1][0])
    times = sorted({at for start, n in commands for at in (start, start + n) if at <= stop})
    groups = len(commands) // 64
    area, busy = [0] * groups, [0] * groups
    for at, until in zip(times, times[1:]):
        now = sum(start <= at < start + n for start, n in commands)
        issued = sum(start <= at for start, _ in commands)
        group = min((issued - 1) // 64, groups - 1)
        area[group] += now * (until - at)
        busy[group] += (now > 0) * (until - at)
    return sum(a / b for a, b in zip(area, busy)) / groups


@pytest.mark.parametrize("seed", range(4))
def test_violated_dependencies_and_load_while_busy(tmp_path, seed):
    rng = random.Random(seed)
    nr, window = 200, 300_000
    due = sorted(rng.sample(range(1, 9000), nr))
    due[0] = 0
    took = [rng.randrange(1000, 200_000) for _ in due]
    issued = sorted(rng.sample(range(9000), nr))
    retook = [rng.randrange(1000, 200_000) for _ in due]
    original = [line(read10(8 * n), due[n], took[n]) for n in range(nr)]
    replayed = [line(read10(8 * n), issued[n], retook[n]) for n in range(nr)]
    got = figures(tmp_path, original, replayed, "--mode", "depend", "--window", window / 1e6)
    violated = sum(any(0 <= 1000 * due[i] - 1000 * due[k] - took[k] < window and
                       1000 * issued[k] + retook[k] > 1000 * issued[i] + 1000
                       for k in range(nr)) for i in range(nr))
    assert 0 < violated == got["violated"] and got["verdict"] == "violated"
    assert got["original_in_flight"]["busy_mean"] == pytest.approx(in_flight_while_busy(
        [(1000 * at, n) for at, n in zip(due, took)]), abs=1e-5)
    assert got["in_flight"]["busy_mean"] == pytest.approx(in_flight_while_busy(
        [(1000 * at, n) for at, n in zip(issued, retook)]), abs=1e-5)


@pytest.mark.parametrize("share,verdict", [(1, "faithful"), (0.99, "faithful"),
                                           (0.97, "other load"), (1.03, "other load")])
def test_verdict_of_a_load(tmp_path, share, verdict):
    """One command at a time, and in the replay a second one beside some of them."""
    both = int(100 * abs(1 - share))
    one = [line(read10(8 * n), 100 * n, 100_000) for n in range(100)]
    more = [line(read10(8 * n), 100 * n, 200_000 if n < both else 100_000) for n in range(100)]
    a, b = (more, one) if share < 1 else (one, more)
    got = figures(tmp_path, a, b, "--mode", "load")
    assert got["verdict"] == verdict, got["why"]
    # On a slow machine the replay may have had no chance of the same load.
    got = figures(tmp_path, a, ["# an empty timer was 60.0 us late (p99)\n", *b], "--mode", "load")
    assert got["verdict"] == (verdict if verdict == "faithful" else None), got["why"]


def test_verdict_without_times(tmp_path):
    back = [line(read10(8 * n), 100 * (100 - n), 50_000) for n in range(100)][::-1]
    assert figures(tmp_path, ONE, back, "--mode", "max")["verdict"] == "faithful"
    assert figures(tmp_path, ONE, back)["verdict"] == "reordered"
    assert figures(tmp_path, ONE, back[:50], "--mode", "max")["verdict"] == "incomplete"


def test_picture(tmp_path):
    path = tmp_path / "p.svg"
    figures(tmp_path, ONE, ONE, "--svg", path)
    lines = xml.etree.ElementTree.parse(path).findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 and all(len(one.get("points").split()) == 200 for one in lines)
    done = compare(tmp_path, ONE, ONE, "--svg", tmp_path / "none/p.svg")
    assert done.returncode == 3 and "No such file" in done.stderr


@pytest.mark.parametrize("args,why", [
    ([], "ORIGINAL and REPLAYED are needed"), (["a"], "ORIGINAL and REPLAYED are needed"),
    (["a", "b", "c"], "'c': two files are compared"),
    (["--speed", "0", "a", "b"], "--speed: '0' is no number"),
    (["--mode", "x", "a", "b"], "--mode: 'x' is not time, max, load or depend"),
    (["--late", "0", "a", "b"], "--late: '0' is no number from 1"),
    (["--map", "a", "a", "b"], "--map: 'a' is not OLD=NEW"),
    (["/nonexistent", "b"], "/nonexistent: No such file")])
def test_usage_errors(args, why):
    done = run(binary(True), "fidelity", *args)
    assert (done.returncode, done.stdout) == (2, "") and why in done.stderr


def test_means_are_over_the_time_with_commands(tmp_path):
    """Commands of 1 ms, one each second; the replay issues them without pauses, four at a time."""
    slow = [line(read10(8 * n), 1_000_000 * n, 1_000_000) for n in range(256)]
    fast = [line(read10(8 * n), 5000 + 1000 * (n // 4), 1_000_000) for n in range(256)]
    for mode in ("load", "depend", "max"):
        got = figures(tmp_path, slow, fast, "--mode", mode)
        assert (got["in_flight"]["mean"], got["in_flight"]["busy_mean"]) == (4, 4)
        assert got["original_in_flight"]["busy_mean"] == 1 and got["issue_error_ns"] is None
        assert got["seconds"] == pytest.approx(0.064) and got["original_seconds"] == 255.001
        assert got["run_time_error"] == pytest.approx(0.064 / 255.001 - 1)
        assert got["verdict"] == {"load": "other load", "depend": "faithful",
                                  "max": "faithful"}[mode]
    text = compare(tmp_path, slow, fast, "--mode", "max").stdout
    assert "run time: 0.064 s, original 255.001: -99.97 %\n" in text


def test_a_load_with_another_curve_is_another_load(tmp_path):
    """The means are equal."""
    def groups(*depths):
        at, found = 0, []
        for depth in depths:
            for _ in range(64 // depth):
                found += [line(read10(8 * (len(found) + n)), at, 100_000) for n in range(depth)]
                at += 100
        return found
    got = figures(tmp_path, groups(2, 8, 2, 8), groups(8, 2, 8, 2), "--mode", "load")
    assert got["in_flight"]["busy_mean"] == pytest.approx(got["original_in_flight"]["busy_mean"],
                                                          rel=0.02)
    assert got["verdict"] == "other load" and "the curves" in got["why"]
    assert figures(tmp_path, groups(2, 8, 2, 8), groups(2, 8, 2, 8), "--mode",
                   "load")["verdict"] == "faithful"


def test_few_in_flight_of_many_are_another_load(tmp_path):
    """22 at once for a moment, and otherwise one at a time; the replay has at most 3."""
    a = [line(read10(8 * n), 0 if n < 22 else 10_000 * n, 1_000 if n < 22 else 10_000_000)
         for n in range(86)]
    b = [line(read10(8 * n), n // 3 if n < 22 else 10_000 * n, 1_000 if n < 22 else 10_000_000)
         for n in range(86)]
    got = figures(tmp_path, a, b, "--mode", "load")
    assert (got["original_in_flight"]["max"], got["in_flight"]["max"]) == (22, 3)
    assert got["verdict"] == "other load" and "at most 3 commands" in got["why"]


@pytest.mark.parametrize("mode", ["time", "load", "depend", "max"])
def test_no_verdict_without_times(tmp_path, mode):
    bare = [text.replace(f" at={100 * n}", "") for n, text in enumerate(ONE)]
    for a, b in ((bare, ONE), (ONE, bare), (bare, bare)):
        got = figures(tmp_path, a, b, "--mode", mode)
        assert got["verdict"] == ("faithful" if mode == "max" else None), got["why"]
        assert mode == "max" or "no at=" in got["why"]


def test_idle_time(tmp_path):
    """Pauses of 50 us, of which the replay loses one in ten."""
    b = [line(read10(8 * n), 100 * n - (50 if n % 10 == 5 else 0), 50_000) for n in range(100)]
    got = figures(tmp_path, ONE, b)
    assert got["original_idle"] == {"seconds": pytest.approx(99 * 50e-6), "pauses": 99,
                                    "share": pytest.approx(99 * 50 / 9950)}
    # The pause after the early command is longer.
    assert (got["idle"]["pauses"], got["idle"]["seconds"]) == (89, pytest.approx(99 * 50e-6))
    assert got["idle_kept"] == {"pauses": pytest.approx(89 / 99), "seconds": 1}
    assert "idle: 89 pauses, 49.7 % of the time; original 99, 49.7 %; kept 89.9 % of the pauses, " \
        "100.0 % of their time" in compare(tmp_path, ONE, b).stdout


@pytest.mark.parametrize("seed", range(50))
def test_inversions_of_groups_in_slabs(seed, monkeypatch):
    np = pytest.importorskip("numpy")
    monkeypatch.setattr(sys, "path", [str(SRC), *sys.path])
    from judge import figures as judged     # pylint: disable=import-outside-toplevel
    monkeypatch.setattr(judged, "SLAB", 16)
    rng = random.Random(seed)
    spread = rng.choice([1, 5, 100])
    times = [i * rng.choice([1, 3]) + rng.randrange(spread) for i in range(rng.randrange(80))]
    groups = [rng.randrange(3) for _ in times]
    assert judged.inversions(np.array(times, "i8"), np.array(groups, "u1"), 3) == [
        sum(times[i] > times[k] and groups[i] == groups[k] == group
            for k in range(len(times)) for i in range(k)) for group in range(3)]
