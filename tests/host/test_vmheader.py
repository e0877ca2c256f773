# SPDX-License-Identifier: GPL-2.0
"""The header of a test file: the VM that it asks for, and which files share a VM."""
import shlex
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tools"))

from checks import plan, pytests, vmheader  # noqa: E402

PVSCSI = "--qemu '-device pvscsi,id=a -drive file={disk:a:64},if=none,id=d'"


@pytest.fixture(name="write")
def write_fixture(tmp_path):
    """Writes a test file that begins with the given lines."""
    def write(*lines, name="test_x.py"):
        path = tmp_path / "tests/vm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(["# SPDX-License-Identifier: GPL-2.0", *lines, ""]),
                        encoding="ascii")
        return path
    return write


def test_file_without_a_header_has_no_options(write):
    assert vmheader.options(write('"""vm: no header"""')) == []
    with vmheader.prepared([]) as words:
        assert words == []


def test_options_of_all_header_lines_are_joined(write):
    path = write(f"# vm: --cpus 4 {PVSCSI}", "# vm: --append 'a=b c' --mem 2048")
    assert vmheader.options(path) == [
        "--cpus", "4", "--qemu=-device pvscsi,id=a -drive file={disk:a:64},if=none,id=d",
        "--append=a=b c", "--mem", "2048"]


def test_disks_are_made_and_removed(write):
    path = write(f"# vm: {PVSCSI}", "# vm: --append 'x={tmp}'")
    with vmheader.prepared(vmheader.options(path)) as words:
        disk = Path(shlex.split(words[0])[3].split(",")[0].partition("file=")[2])
        assert disk.stat().st_size == 64 << 20
        assert words[1] == f"--append=x={disk.parent}"
    assert not disk.parent.exists()


@pytest.mark.parametrize("line, says", [
    ("# vm: --timeout 5", "--timeout"),
    ("# vm: --cpus many", "--cpus: invalid int value: 'many'"),
    ("# vm: word", "unrecognized arguments: word"),
    ("# vm: --qemu 'open", "No closing quotation"),
    ("# vm: --qemu 'x={disk:a}'", "{disk:a}: known are {tmp}, {disk:NAME:MIB} and {tgt:NAME:MIB}"),
    ("# vm: --qemu 'x={tgt:a}'", "{tgt:a}: known are"),
    ("# vm: --qemu 'x={tgt:a:0}'", "a disk has 1 to 65536 MiB"),
    ("# vm: --qemu 'x={disk:../a:1}'", "known are"),
    ("# vm: --qemu 'x={disk:a:0}'", "a disk has 1 to 65536 MiB"),
    ("# vm: --qemu 'x={home}'", "{home}: known are"),
])
def test_wrong_headers_are_reported_with_file_and_line(write, line, says):
    path = write(line)
    with pytest.raises(vmheader.HeaderError) as error:
        vmheader.options(path)
    assert says in str(error.value) and f"{path}:2: " in str(error.value)


def test_each_disk_has_one_size(write):
    path = write("# vm: --qemu 'x={disk:a:64},y={disk:a:32}'")
    with pytest.raises(vmheader.HeaderError, match="a has a different size"):
        with vmheader.prepared(vmheader.options(path)):
            pass


def test_only_files_with_equal_headers_share_a_vm(write):
    one, two = write(f"# vm: {PVSCSI}"), write("", name="test_y.py")
    three = write(f"# vm: {PVSCSI}", name="test_z.py")
    assert vmheader.of([one, three]) == vmheader.of([one]) != vmheader.of([two]) == []
    for paths in ([one, two], [two, one], [one, three, two]):
        with pytest.raises(vmheader.HeaderError, match="has another header"):
            vmheader.of(paths)


class Recorder:
    """Stands in for the class that runs programs."""

    def __init__(self):
        self.words = []

    def run(self, words, *_args, **_environment):
        """Stores the command, and which of its disks exist at the time when it would run."""
        self.words = words
        self.disk = [Path(word.partition("file=")[2].partition(",")[0])
                     for option in words for word in option.split() if "file=" in word]
        self.there = [path.exists() for path in self.disk]
        return 0


def test_vm_gets_the_options_of_the_file(write, tmp_path):
    write(f"# vm: {PVSCSI}")
    runner = Recorder()
    pytests.in_vm(runner, tmp_path, tmp_path, "6.1", ["tests/vm/test_x.py::test_a"], 5)
    assert runner.there == [True] and not runner.disk[0].exists()
    assert runner.words.index("--") > [word[:7] for word in runner.words].index("--qemu=")


def test_user_mode_linux_ignores_headers(write, tmp_path):
    """User Mode Linux has no devices, so files that ask for different VMs share a guest."""
    write(f"# vm: {PVSCSI}")
    write("", name="test_y.py")
    runner, names = Recorder(), ["tests/vm/test_x.py", "tests/vm/test_y.py"]
    pytests.in_vm(runner, tmp_path, tmp_path, "uml-sanitize", names, 5)
    assert runner.words[0].endswith("tools/uml") and runner.words[-2:] == names
    assert not [word for word in runner.words if word.startswith("--qemu")]


def test_bad_header_fails_the_run(write, tmp_path):
    write("# vm: word")
    cases = pytests.in_vm(Recorder(), tmp_path, tmp_path, "6.1", ["tests/vm/test_x.py"], 5)
    assert [case.outcome for case in cases] == ["failed"] and "word" in cases[0].message


def test_smoke_tests_of_a_file_with_a_header_run_in_their_own_vm(write, tmp_path):
    write(f"# vm: {PVSCSI}")
    write("", name="test_y.py")
    steps = plan.smoke_steps(tmp_path, "7.2")
    assert [(step.name, step.targets) for step in steps] == [
        ("smoke_1", ("tests/vm/test_y.py",)),
        ("x", ("tests/vm/test_x.py",))]
    assert all(step.mark == "smoke" for step in steps)


def test_kernels_run_the_documented_smoke_tests():
    def has(kernel, name):
        path = f"tests/vm/{Path(name).with_name(f'test_{Path(name).name}.py')}"
        assert (TOP / path).exists()
        return any(path in step.targets for step in plan.smoke_steps(TOP, kernel))

    assert all(has(plan.MIDDLE_KERNEL, name) for name in plan.MIDDLE_FILES)
    assert not any(has(plan.NEWEST_KERNEL, name) for name in plan.NOT_ON_NEWEST)
    assert has(plan.NEWEST_KERNEL, "policy") and not has(plan.MIDDLE_KERNEL, "policy")
    assert has(plan.NEWEST_KERNEL, "virtio") and not has(plan.MIDDLE_KERNEL, "virtio")
    # A step without any chosen test fails, so each file with a VM of its own must have smoke tests.
    for step in (step for kernel in (plan.MIDDLE_KERNEL, plan.NEWEST_KERNEL)
                 for step in plan.smoke_steps(TOP, kernel) if len(step.targets) == 1):
        assert "mark.smoke" in (TOP / step.targets[0]).read_text(encoding="utf-8"), str(step)


def test_headers_in_the_tree_are_valid():
    for path in sorted((TOP / "tests/vm").rglob("test_*.py")):
        vmheader.options(path)
