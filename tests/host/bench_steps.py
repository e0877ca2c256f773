#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""bench_steps.py DIR SECONDS: runs tools/bench/run with small programs in place of its instruments:
one1 to one3 need one CPU, pair1 and pair2 need two. Each creates DIR/NAME.began, sleeps SECONDS,
and writes the times at which it began and ended to DIR/NAME. For test_bench_steps.py."""
# Like tools/bench/run, this uses Debian's own Python, which has matplotlib.

import sys
from pathlib import Path

from program import program

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
PROGRAM = """#!/usr/bin/python3
import sys, time
from pathlib import Path
sys.path.insert(0, "{bench}")
from smqbench.figures import FigureSet
began = time.monotonic()
Path("{folder}/{name}.began").touch()
time.sleep({seconds})
Path("{folder}/{name}").write_text(f"{{began}} {{time.monotonic()}}")
FigureSet().write(Path(sys.argv[sys.argv.index("--json") + 1]))
"""


def main() -> int:
    """Runs tools/bench/run with these steps."""
    folder, seconds = sys.argv[1:]
    bench = program("run")

    def step(name, **words):
        file = Path(folder, f"{name}.py")
        file.write_text(PROGRAM.format(bench=BENCH, folder=folder, name=name, seconds=seconds))
        file.chmod(0o755)
        return bench.Step(name, 1, program=str(file), **words)
    bench.STEPS = [step("pair1", two_cpus=True), step("one1"), step("one2"), step("one3"),
                   step("pair2", two_cpus=True)]
    sys.argv = ["run", "--out", f"{folder}/report"]
    return bench.main()


if __name__ == "__main__":
    sys.exit(main())
