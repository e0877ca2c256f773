# SPDX-License-Identifier: GPL-2.0
"""All steps that tools/check can run, as one table."""

import fnmatch
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from testvm import needs

KERNELS = ("6.1", "6.12", "7.2", "7.3")
FULL = "6.1"        # the kernel on which all tests run
TIMES = "tests/times.json"
UML, SANITIZE = "uml-perf", "uml-sanitize"
# Each file of tests/vm runs on 6.1, with --all. A line "# on: WORD..." says where else: the kernel,
# and whether only the smoke tests of a file run there; "core" is part of each run.
PLACES = {"core": (FULL, "smoke"), "uml": (UML, ""), "sanitize": (SANITIZE, ""),
          **{kernel: (kernel, "smoke") for kernel in KERNELS if kernel != FULL}}
LINTERS = ("checkpatch", "sparse", "shell", "python", "types", "spelling", "commits")
AREAS = ("build", "lint", "host", "vm", "sanitize", "plant", "slow", "proof")
# The seconds of a step that has no time in tests/times.json yet.
UNKNOWN = dict.fromkeys(AREAS, 60) | {"lint": 20, "host": 10, "vm": 30, "plant": 120, "slow": 600}
# Emulation takes so many times as long as User Mode Linux, where the time is not known.
EMULATION = 4
# Seconds until the first test of a guest begins, and how long the tests of files may take that
# share a guest: by kernel, and for all others.
GUESTS, GUEST = {UML: (4, 60), SANITIZE: (15, 120)}, (15, 150)


@dataclass(frozen=True)
class Step:
    """A part of a run, with its own result. needs: the kernel for which modules must be built
    before. mark: "smoke" if only these tests run. words: the options of the guest. seconds: what it
    took in an earlier run. part: "K/N" if only every Nth test runs."""

    area: str
    name: str
    kernel: str = ""
    targets: tuple[str, ...] = ()
    mark: str = ""
    needs: str = ""
    words: tuple[str, ...] = ()
    seconds: float = 0
    part: str = ""

    @property
    def path(self) -> str:
        """What the patterns of --only and of tests/subjects.toml match."""
        return f"{self.area}/{self.name}"

    @property
    def builds(self) -> bool:
        """Whether the step builds modules, which other steps need."""
        return self.area == "build"

    @property
    def boot(self) -> float:
        """Seconds until the first test begins."""
        return GUESTS.get(self.kernel, GUEST)[0] if self.kernel and not self.builds else 0

    @property
    def slug(self) -> str:
        """The name of the step's folder."""
        return str(self).replace(" on ", "-").replace("/", "-").replace(" ", "-")

    def __str__(self) -> str:
        on = f" on {self.kernel}" if self.kernel and not self.builds else ""
        part = f" part {self.part}" if self.part else ""
        return f"{self.path}{on}{self.mark and ' '}{self.mark}{part}"


class Table:
    """The table. @top: the checkout."""

    def __init__(self, top: Path):
        self.top = top
        self.times: dict[str, float] = json.loads((top / TIMES).read_text(encoding="utf-8"))
        self.steps = [
            *(Step("build", kernel, kernel) for kernel in (*KERNELS, UML, SANITIZE)),
            *(Step("lint", name) for name in LINTERS),
            *self._host("host", "tests/host"),
            *(step for path in self._files("tests/vm") for step in self._places(path)),
            Step("sanitize", "defects", targets=("tests/sanitize/test_defects.py",),
                 needs=SANITIZE),
            *(self._guest("sanitize", path, SANITIZE)
              for path in self._files("tests/vm/sanitize")),
            *(Step("plant", path.stem, targets=(str(path.relative_to(top)),), needs=FULL)
              for path in sorted((top / "tests/plant").glob("*.patch"))),
            *self._host("slow", "tests/host/slow"),
            *(self._guest("slow", path, FULL) for path in self._files("tests/vm/slow")),
            *(replace(step, needs="") for step in self._host("proof", "tests/proof"))]
        self.steps = [replace(step, seconds=self._seconds(step)) for step in self.steps]

    def _files(self, folder: str) -> list[Path]:
        """The test files of a folder, without those of its folders "slow" and "sanitize"."""
        top = self.top / folder
        return [path.relative_to(self.top) for path in sorted(top.rglob("test_*.py"))
                if path.parent.name not in ("slow", "sanitize") or path.parent == top]

    def _host(self, area: str, folder: str) -> list[Step]:
        return [Step(area, _name(path), targets=(str(path),), needs=FULL)
                for path in self._files(folder)]

    def _guest(self, area: str, path: Path, kernel: str, mark: str = "") -> Step:
        """The step of one file in a guest."""
        words = tuple(needs.lines(self.top / path, kernel in (UML, SANITIZE)))
        return Step(area, _name(path), kernel, (str(path),), mark, kernel, words)

    def _places(self, path: Path) -> list[Step]:
        """The steps of one file of tests/vm: on 6.1, and where the file itself says."""
        words = re.findall(r"^# on: (.*)$", (self.top / path).read_text(encoding="utf-8"), re.M)
        return [self._guest("vm", path, FULL)] + [
            self._guest("sanitize" if word == "sanitize" else "vm", path, *PLACES[word])
            for word in " ".join(words).split()]

    def _seconds(self, step: Step) -> float:
        on = f" on {step.kernel}" if step.kernel and not step.builds else ""
        key = f"{step.targets[0] if on else step.path}{on}{step.mark and ' '}{step.mark}"
        native = self.times.get(f"{step.targets[0]} on {UML}") if on and not step.mark else None
        return self.times.get(key, EMULATION * native if native else UNKNOWN[step.area])

    def build_of(self, kernel: str) -> Step:
        """The step that builds the modules for a kernel, which need not be in the table."""
        known = [step for step in self.steps if step.builds and step.kernel == kernel]
        return known[0] if known else Step("build", kernel, kernel, seconds=UNKNOWN["build"])

    def named(self, patterns: list[str], kernel: str) -> list[Step]:
        """The steps that match patterns AREA or AREA/NAME: tests of area vm with the kernel
        @kernel, by default where they are quickest. Raises ValueError."""
        found = []
        for pattern in patterns or ["vm"]:
            area, _, name = pattern.partition("/")
            known = {step: step.name for step in self.steps if step.area == area}
            matching = [step for step in known if fnmatch.fnmatch(step.name, name or "*")]
            if not matching:
                names = sorted(set(known.values())) or f"the areas {' '.join(AREAS)}".split()
                raise ValueError(f"--only {pattern}: matches none of: {' '.join(names)}")
            found += matching
        if not kernel:
            return quickest(found)
        paths = dict.fromkeys(step.targets[0] for step in found
                              if step.area == "vm" and (patterns or step.mark))
        return [step for step in found if step.area != "vm"] + [
            self._guest("vm", Path(path), kernel, "" if patterns else "smoke") for path in paths]


def _name(path: Path) -> str:
    """The name of a file's step: its path below tests/vm or the like, without test_ and .py."""
    folders = [part for part in path.parts[2:-1] if part not in ("slow", "sanitize")]
    return "/".join([*folders, path.stem.removeprefix("test_")])


def quickest(steps: list[Step]) -> list[Step]:
    """Of the steps of area vm that run the same file, the one on User Mode Linux, else that on
    6.1; and all other steps."""
    native = {step.targets for step in steps if step.area == "vm" and step.kernel == UML}
    return [step for step in steps if step.area != "vm" or step.kernel == UML or
            step.kernel == FULL and not step.mark and step.targets not in native]


def together(steps: list[Step]) -> list[Step]:
    """The steps, the longest first. Those that can share a guest become one step."""
    groups: list[list[Step]] = []
    for step in sorted(steps, key=lambda step: -step.seconds):
        limit = GUESTS.get(step.kernel, GUEST)[1]
        group: list[Step] = next((group for group in groups if step.kernel and not step.builds and
                                  _guest_of(group[0]) == _guest_of(step) and
                                  sum(one.seconds for one in (*group, step)) <= limit), [])
        if not group:
            groups.append(group)
        group.append(step)
    merged = [replace(group[0], name=group[0].name + (f"+{len(group) - 1}" if group[1:] else ""),
                      targets=tuple(target for step in group for target in step.targets),
                      seconds=sum(step.seconds for step in group) + group[0].boot)
              for group in groups]
    return sorted(merged, key=lambda step: -step.seconds)


def _guest_of(step: Step) -> tuple[object, ...]:
    return step.area, step.kernel, step.mark, step.part, step.words
