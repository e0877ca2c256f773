# SPDX-License-Identifier: GPL-2.0
"""smqtop's screen, on a recording: what it shows in terminals of three sizes, its keys, and the
terminal that it leaves behind.

tests/host/smqtop_screens has the screens. After a change:
  SMQTOP_SCREENS=write pytest tests/host/test_smqtop_screen.py"""

import os
import signal
import subprocess
import xml.etree.ElementTree
from pathlib import Path

import pytest
import smqtop_recording as recording
from make import make

TOP = Path(__file__).resolve().parents[2]
SCREENS = TOP / "tests/host/smqtop_screens"
TIMEOUT = 20
ENTER, ESC, TAB = "\r", "\x1b", "\t"
LEFT, RIGHT, DOWN, UP, END, NEXT = ("\x1bOD", "\x1bOC", "\x1bOB", "\x1bOA", "\x1b[4~", "\x1b[6~")

Screen = pytest.importorskip("screen", reason="tools/deps install top").Screen
draw = pytest.importorskip("svg").draw


@pytest.fixture(name="smqtop", scope="module")
def _smqtop():
    make(TOP / "tools/src/smqtop", timeout=120)
    if not (TOP / "tools/smqtop").exists():
        pytest.skip("smqtop is not built: tools/deps install top")
    return TOP / "tools/smqtop"


@pytest.fixture(name="argv")
def _argv(smqtop, tmp_path):
    return [smqtop, "--replay", recording.write(tmp_path / "recording")]


def opened(argv, *size, **env):
    screen = Screen(argv, *size, env=env)
    screen.wait("h help" if not size or size[0] >= 20 else "too small")
    return screen


def go(screen, *keys):
    """Presses keys; each is a key, or a pair of it and what it brings to the screen."""
    for key in keys:
        key, wanted = key if isinstance(key, tuple) else (key, "")
        screen.press(key)
        screen.wait(wanted)


def cell(screen, text):
    """The attributes of the first cell of a text."""
    for y, line in enumerate(screen.screen.display):
        if text in line:
            return screen.screen.buffer[y][line.index(text)]
    raise AssertionError(screen.text())


@pytest.mark.parametrize("name,size,keys", [
    ("luns-80x24", (80, 24), ""),
    ("luns-120x40", (120, 40), ""),
    ("luns-200x60", (200, 60), ""),
    ("hosts-80x24", (80, 24), RIGHT * recording.RECOVERY + "1"),
    ("hosts-120x40", (120, 40), RIGHT * recording.RECOVERY + "1"),
    ("queues-80x24", (80, 24), "3"),
    ("opcodes-80x24", (80, 24), "4"),
    ("errors-80x24", (80, 24), "5"),
    ("errors-120x40", (120, 40), "5"),
    ("commands-80x24", (80, 24), "6"),
    ("files-80x24", (80, 24), "7"),
    ("smq-80x24", (80, 24), "8"),
    ("heat-80x24", (80, 24), ">>m"),
    ("help-80x24", (80, 24), "h"),
])
def test_screen_is_as_stored(argv, name, size, keys):
    stored = SCREENS / f"{name}.txt"
    with opened(argv, *size) as screen:
        screen.press(keys)
        if os.environ.get("SMQTOP_SCREENS") == "write":
            while screen.read(0.5):
                pass
            stored.write_text(screen.text() + "\n", encoding="ascii")
        wanted = stored.read_text(encoding="ascii")
        try:
            screen.wait(lambda text: text + "\n" == wanted, 10)
        except TimeoutError:
            assert screen.text() + "\n" == wanted


def test_colours_have_a_meaning(argv):
    with opened(argv, 120, 40) as screen:
        assert cell(screen, "3    20m").fg == "red"
        assert cell(screen, "0    13u").fg == "default"
        assert cell(screen, "4/192").fg == "default"
        go(screen, RIGHT * recording.FULL)
        screen.wait("192/192")
        assert cell(screen, "192/192").fg == "magenta"
        go(screen, LEFT * (recording.FULL - recording.RECOVERY), ("1", "not running: host1"))
        assert cell(screen, "recovery").fg == cell(screen, "not running").fg == "brown"
        assert cell(screen, "scsi_debug").fg == "default"


def test_picture_has_the_cells_and_their_colours(argv):
    with opened(argv) as screen:
        go(screen, DOWN)
        picture = xml.etree.ElementTree.fromstring(draw(screen.screen))
    texts = [(part.text, part.get("fill")) for part in picture if part.text and part.text.strip()]
    assert [colour for text, colour in texts if text.strip() == "3"] == ["#ff5f5f"]
    assert "sdai  0:0:0:34 " in "".join(text for text, _ in texts)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "vt100"}], ids=["NO_COLOR", "vt100"])
def test_without_colours_the_meaning_is_bold(argv, env):
    with opened(argv, 120, 40, **env) as screen:
        assert {char.fg for line in screen.screen.buffer.values() for char in line.values()} == \
            {"default"}
        assert cell(screen, "3    20m").bold and not cell(screen, "0    13u").bold


def test_from_a_host_to_its_commands_and_back(argv):
    with opened(argv) as screen:
        go(screen, ("1", "DRIVER"), (ENTER, "host0 > paused"))
        assert "1:0:0:0" not in screen.text()
        go(screen, DOWN, UP, (ENTER, "host0 > 0:0:0:3 > "))
        assert "whole host" in screen.wait("q1    host0")
        go(screen, (ENTER, "fio/4711 21.0ms READ(10)"), (ESC, "q1    host0"),
           (ESC, "sdai  0:0:0:34"), (ESC, "qla2xxx"), DOWN, (ENTER, "host1 > "))
        screen.wait("sdzz  1:0:0:0")
        assert "0:0:0:3 " not in screen.text()
        go(screen, ("5", "Medium Error"), (ENTER, "fio/4711"), (ESC, "Medium Error"))
        go(screen, ("2" + TAB, "QUEUE HOST"))
        assert "host1 >" not in screen.text()


def test_a_lun_that_goes_while_its_row_is_open(argv):
    with opened(argv) as screen:
        go(screen, "/0:0:0:5" + ENTER, "\x1b[B")
        screen.wait("filter 0:0:0:5")
        go(screen, (ENTER, "0:0:0:5 > "), RIGHT * recording.GONE)
        screen.wait("0:0:0:5 is gone")
        go(screen, (ESC, "no row matches the filter"), LEFT)
        screen.wait("sdf   0:0:0:5")


def test_filter_sort_and_pages(argv):
    with opened(argv) as screen:
        go(screen, ("/", "filter:"), "x\x7f*:1?" + ENTER)
        text = screen.wait("filter *:1?")
        assert sorted(line.split()[1] for line in text.splitlines()[3:-1] if line) == \
            [f"0:0:0:{i}" for i in range(10, 20)]
        go(screen, "/", "\x15" + ENTER)
        screen.wait(lambda text: "filter *" not in text)
        go(screen, ("s" * 5, "sort name,iops"))
        screen.wait(lambda text: text.splitlines()[3].startswith("sda   0:0:0:0"))
        go(screen, ("S", "sort name,mbps"), (NEXT, "0:0:0:20"), (END, "1:0:0:0"))
        assert screen.screen.buffer[22][0].reverse and "0:0:0:20 " not in screen.text()


def test_recording_forward_backward_and_by_time(argv):
    with opened(argv) as screen:
        go(screen, (RIGHT, "2/30 08:00:02"), (LEFT + LEFT, "1/30"), (">", "11/30 08:00:20"),
           ("t+31" + ENTER, "17/30 08:00:32"), ("t08:00:08" + ENTER, "5/30 08:00:08"),
           ("t9x" + ENTER, "'9x' is no time"), (">>>", "30/30"), (" ", "the end of the recording"))
        assert "paused" in screen.text()
        go(screen, ("<", "20/30"), ("-" * 4, ""), (" ", "24/30"))


def test_size_changes_down_to_nothing(argv):
    with opened(argv) as screen:
        first = screen.text()
        for columns, lines in ((200, 60), (120, 40), (20, 6), (80, 5), (3, 2), (19, 24), (80, 24)):
            screen.resize(columns, lines)
            screen.screen.reset()
            screen.wait(lambda text: text.strip())
            screen.press("m" if columns == 20 else ESC)
        screen.wait(lambda text: text == first)
        screen.press("q")
        assert (screen.end(), screen.restored()) == (0, True)


@pytest.mark.parametrize("keys", ["", "m", "h", "/ab", "1" + ENTER + ENTER])
@pytest.mark.parametrize("size", [(80, 24), (40, 10), (10, 3)])
def test_every_mode_in_small_terminals(argv, keys, size):
    with opened(argv, *size) as screen:
        screen.press(keys)
        while screen.read(0.1):
            pass
        screen.process.send_signal(signal.SIGINT)
        assert (screen.end(), screen.restored()) == (128 + signal.SIGINT, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_and_restore_the_terminal(argv, number):
    with opened(argv) as screen:
        assert not screen.restored()
        screen.process.send_signal(number)
        assert (screen.end(), screen.restored()) == (128 + number, True)


def test_suspended_and_continued_by_a_shell(argv):
    script = '"$@"; echo stopped; read -r _; fg >/dev/null; echo "ended $?"'
    with opened(["bash", "--norc", "-mc", script, "-", *argv]) as screen:
        first = screen.text()
        screen.press("\x1a")
        screen.wait("stopped")
        assert screen.restored()
        screen.screen.reset()
        screen.press("\n")
        screen.wait(lambda text: text == first)
        assert not screen.restored()
        go(screen, (RIGHT, "2/30"), "q")
        screen.wait("ended 0")
        assert (screen.end(), screen.restored()) == (0, True)


def test_dumb_terminal_gets_text(argv):
    with Screen([*argv, "--count=2"], env={"TERM": "dumb"}) as screen:
        assert screen.end() == 0
        assert b"smqtop: terminal 'dumb' has no screen: showing text\r\n" in screen.raw
        assert screen.raw.count(b"DISK  LUN ") == 2 and b"\x1b" not in screen.raw


def test_this_machine_on_the_screen(smqtop):
    with opened([smqtop, "--sysfs", "--interval=0.1"]) as screen:
        screen.wait("sysfs: no times")
        go(screen, ("+", "0.2s"), ("p", "paused"), ("p", "0.2s"), "q")
        assert (screen.end(), screen.restored()) == (0, True)


def test_a_pause_stops_the_screen_but_not_the_recording(smqtop, tmp_path):
    path = tmp_path / "recording"
    with opened([smqtop, "--sysfs", "--interval=0.1", "--record", path]) as screen:
        go(screen, ("p", "paused"))
        shown, recorded = screen.text(), path.read_text(encoding="ascii").count("\n")
        # The clock on the screen has seconds.
        assert not screen.read(2)
        assert screen.text() == shown
        assert path.read_text(encoding="ascii").count("\n") >= recorded + 5
        go(screen, "1", ("2", shown.splitlines()[0]), "p")
        screen.wait(lambda text: shown.splitlines()[0] not in text)
        go(screen, "pq")
        assert (screen.end(), screen.restored()) == (0, True)


def test_a_full_disk_ends_it_with_a_message(smqtop):
    with Screen([smqtop, "--sysfs", "--interval=0.1", "--record=/dev/full"]) as screen:
        assert (screen.end(), screen.restored()) == (3, True)
        assert b"smqtop: /dev/full: No space left on device" in screen.raw


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT)


def test_what_was_recorded_is_what_is_replayed(smqtop, tmp_path):
    path = tmp_path / "recording"
    live = run(smqtop, "--sysfs", "--json", "--interval=0.1", "--count=3", "--record", path)
    assert (live.returncode, live.stderr) == (0, "")
    assert run(smqtop, "--replay", path, "--json").stdout == live.stdout
    assert live.stdout.count("\n") == 3
    assert run(smqtop, "--record=/dev/full", "--sysfs", "--once", "--interval=0.1").returncode == 3


@pytest.mark.parametrize("content,message", [
    ("", "is no recording of smqtop"),
    ("garbage\n", "is no recording of smqtop"),
    (b"\x00\xff" * 5000, "is no recording of smqtop"),
    (None, "No such file or directory"),
], ids=["empty", "text", "binary", "missing"])
def test_no_recording(smqtop, tmp_path, content, message):
    path = tmp_path / "recording"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(smqtop, "--once", "--replay", path)
    assert (done.returncode, done.stdout) == (4, "") and message in done.stderr


def damaged(tmp_path):
    """Five lines: whole, cut, garbage, values that are out of range or of other types, cut."""
    first, second, strange, last = (recording.interval(n) for n in range(4))
    for row in strange["luns"]:
        row |= {"name": "\x1b[2J\x07" + "n" * 300, "depth": "deep", "inflight": -5}
        row["interval"] |= {"done": 10**30, "device": [-1, 5, 999, 5, "x", 7, 3], "bytes": {}}
    strange["hosts"] = {"no": "list"}
    strange["errors"] = [None, 3, [], {}]
    path = tmp_path / "recording"
    path.write_text(recording.line(first) + recording.line(second)[:-500] + "\n" +
                    "\x00\x01{]\n" + recording.line(strange) + recording.line(last)[:700],
                    encoding="latin1")
    return path


def test_damaged_lines_are_told_and_passed(smqtop, tmp_path):
    done = run(smqtop, "--replay", damaged(tmp_path))
    assert done.returncode == 4
    assert [line.partition(": line ")[2] for line in done.stderr.splitlines()] == \
        ["2 is damaged", "3 is damaged", "5 is damaged"]
    assert done.stdout.count("DISK  LUN ") == 2 and "\x1b" not in done.stdout


def test_damaged_lines_on_the_screen(smqtop, tmp_path):
    with opened([smqtop, "--replay", damaged(tmp_path)]) as screen:
        go(screen, (RIGHT, "this line of the recording is damaged"), RIGHT, RIGHT)
        screen.wait("?[2J?")
        go(screen, ("5", "WHAT"), "1", "3", "2", "m")
        screen.wait("4/5")
        go(screen, (RIGHT, "5/5"), "q")
        assert (screen.end(), screen.restored()) == (0, True)
