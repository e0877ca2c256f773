# SPDX-License-Identifier: GPL-2.0
"""smqtop's file for node_exporter: its syntax, by promtool (package prometheus) where there is one,
its names, and its figures."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import smqtop_recording as recording
from make import make

TOP = Path(__file__).resolve().parents[2]
OBJECTS = TOP / "build/tools/smqtop"
LIBRARIES = ["-lbpf", "-ljson-c", "-lsgutils2", "-luring", "-lncursesw", "-ltinfo", "-lm"]
NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:e[-+][0-9]+)?"
LABEL = r'[a-z]+="(?:[^"\\\n]|\\["\\])*"'
SAMPLE = re.compile(rf"([a-z_]+?)(_bucket|_sum|_count)?(?:\{{({LABEL}(?:,{LABEL})*)\}})? "
                    rf"({NUMBER})")


def run(*argv, **options):
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, **options)


@pytest.fixture(name="program", scope="module")
def _program(tmp_path_factory):
    make(TOP / "tools/src/smqtop", timeout=120)
    if not (TOP / "tools/smqtop").exists():
        pytest.skip("smqtop is not built: tools/deps install top")
    program = tmp_path_factory.mktemp("program") / "metrics"
    objects = sorted(path for path in OBJECTS.glob("*.o")
                     if path.name != "main.o" and ".bpf." not in path.name)
    done = run("gcc", "-fms-extensions", "-o", program, f"-I{TOP}/tools/src/smqtop", f"-I{OBJECTS}",
               TOP / "tests/host/smqtop_metrics_main.c", *objects,
               TOP / "build/tools/libsmq/libsmq.a", *LIBRARIES)
    assert done.returncode == 0, done.stderr
    return program


def parse(text):
    """The families: type, and value by labels. Fails if the text is not what the format allows."""
    families, current = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# HELP "):
            current = line.split()[2]
            assert current not in families and len(line.split()) > 3
            families[current] = [None, {}]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == current and families[current] == [None, {}]
            families[current][0] = line.split()[3]
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            name, part, labels, value = found.groups()
            kind, samples = families[current]
            if kind != "histogram":
                name, part = name + (part or ""), None
            assert name == current and bool(part) == (kind == "histogram"), line
            assert (part, labels) not in samples, line
            samples[part, labels] = float(value)
    return families


def written(program, tmp_path, interval):
    path = tmp_path / "scsi.prom"
    done = run(program, path, input=recording.line(interval))
    assert (done.returncode, done.stderr) == (0, "")
    assert [one.name for one in tmp_path.iterdir()] == ["scsi.prom"]
    return path.read_text(encoding="ascii")


def test_format_and_names(program, tmp_path):
    interval = recording.interval(0)
    for row in interval["luns"][5], interval["errors"][0]:
        row["label"] = 'a"b\\c\new\x1b'
    text = written(program, tmp_path, interval)
    families = parse(text)
    for name, (kind, samples) in families.items():
        assert name.startswith(("scsi_", "smqtop_")) and samples
        assert name.endswith("_total") == (kind == "counter")
        assert name.endswith("_seconds") == (kind == "histogram")
    assert r'device="a\"b\\c?ew?"' in text
    promtool = shutil.which("promtool")
    if promtool:
        done = run(promtool, "check", "metrics", input=text)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_figures(program, tmp_path):
    families = parse(written(program, tmp_path, recording.interval(0)))
    slow = 'lun="0:0:0:3",device="sdd"'
    values = {name: samples[None, slow] for name, (kind, samples) in families.items()
              if kind != "histogram" and (None, slow) in samples}
    assert values == {
        "scsi_lun_commands_total": 178, "scsi_lun_bytes_total": 178 * 4096,
        "scsi_lun_failed_commands_total": 2, "scsi_lun_timeouts_total": 1,
        "scsi_lun_task_set_full_total": 0, "scsi_lun_refused_commands_total": 0,
        "scsi_lun_retries_total": 0, "scsi_lun_inflight_commands": 4, "scsi_lun_queue_depth": 192}
    samples = families["scsi_lun_device_seconds"][1]
    bounds = {float(labels.partition(',le="')[2].rstrip('"')): value
              for (part, labels), value in samples.items()
              if part == "_bucket" and labels.startswith(slow)}
    assert sorted(bounds.items()) == list(bounds.items())
    assert [*bounds.values()] == sorted(bounds.values())
    # 20 of 178 took less than 16.8 ms, 150 less than 33.6 ms, and 8 less than 67 ms.
    assert [bounds[2**n / 1e9] for n in (23, 24, 25, 26)] == [0, 20, 170, 178]
    assert bounds[float("inf")] == samples["_count", slow] == 178
    assert samples["_sum", slow] == pytest.approx(178 * 0.0205, rel=0.1)
    running = families["scsi_host_running"][1]
    assert running[None, 'host="host1",driver="qla2xxx"'] == 1


def test_figures_of_error_handling(program, tmp_path):
    families = parse(written(program, tmp_path, recording.interval(recording.RECOVERY)))
    host = None, 'host="host1",driver="qla2xxx"'
    assert {name[10:]: families[name][1][host] for name in families
            if name.startswith("scsi_host_") and name.endswith("_total")} == {
        "commands_total": 0, "error_handling_total": 2, "error_handling_seconds_total": 1.5,
        "aborts_total": 3, "escalations_total": 1, "target_resets_total": 4,
        "bus_resets_total": 5, "host_resets_total": 6}


def test_without_times_no_histograms(program, tmp_path):
    families = parse(written(program, tmp_path, recording.interval(recording.RECOVERY) |
                             {"times": False}))
    assert "histogram" not in {kind for kind, _ in families.values()}
    # Nor what sysfs does not count: 0 would be wrong.
    assert not [name for name in families if "abort" in name or "retries" in name]
    assert "scsi_lun_timeouts_total" in families
    assert families["scsi_host_running"][1][None, 'host="host1",driver="qla2xxx"'] == 0


def test_files_that_cannot_be_written(program, tmp_path):
    line = recording.line(recording.interval(0))
    done = run(program, tmp_path / "no/scsi.prom", input=line)
    assert done.returncode == 3 and "No such file or directory" in done.stderr
    (tmp_path / "scsi.prom").mkdir()
    done = run(program, tmp_path / "scsi.prom", input=line)
    assert done.returncode == 3 and "Is a directory" in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["scsi.prom"]


def test_smqtop_writes_it_in_each_interval(tmp_path):
    path = tmp_path / "scsi.prom"
    options = ["--sysfs", "--interval=0.1", "--count=2", "--prometheus"]
    assert run(TOP / "tools/smqtop", *options, path).returncode == 0
    parse(path.read_text(encoding="ascii"))
    done = run(TOP / "tools/smqtop", *options, tmp_path / "no/scsi.prom")
    assert done.returncode == 3
    assert done.stderr == f"smqtop: {tmp_path}/no/scsi.prom: No such file or directory\n"
