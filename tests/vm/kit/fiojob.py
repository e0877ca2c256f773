# SPDX-License-Identifier: GPL-2.0
"""fio, bounded in time, its result checked."""
import json
import subprocess


def fio(filename: str, limit: float = 120, ok: bool = True, **options) -> dict:
    """Runs one fio job (or numjobs of it) and returns its JSON.

    An option's underscore is fio's own; True gives a flag without value. Fails
    when fio takes longer than @limit seconds or, with @ok, reports an error.
    """
    settings = {"name": "job", "filename": filename, "direct": 1, "group_reporting": True,
                "output_format": "json"} | options
    argv = ["fio"]
    for key, value in settings.items():
        name = "output-format" if key == "output_format" else key
        if value is True:
            argv.append(f"--{name}")
        elif value is not False and value is not None:
            argv.append(f"--{name}={value}")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit, check=False,
                          stdin=subprocess.DEVNULL)
    start = done.stdout.find("{")
    assert start >= 0, f"{' '.join(argv)}: no JSON\n{done.stdout}{done.stderr}"
    report, _ = json.JSONDecoder().raw_decode(done.stdout[start:])
    if ok:
        errors = [job["error"] for job in report["jobs"]]
        assert done.returncode == 0 and not any(errors), (
            f"{' '.join(argv)}: status {done.returncode}, errors {errors}\n"
            f"{done.stdout[:start]}{done.stderr}")
    return report


def total_ios(report: dict) -> int:
    """Reads, writes and trims that fio counted, those of a verify phase included."""
    return sum(job[kind]["total_ios"] for job in report["jobs"]
               for kind in ("read", "write", "trim"))
