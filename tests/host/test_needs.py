# SPDX-License-Identifier: GPL-2.0
"""The header of a test file: the VM that it asks for (tools/vm --for FILE)."""
import re
import subprocess
from pathlib import Path

import pytest
from testvm import needs
from testvm.errors import VMError

TOP = Path(__file__).resolve().parents[2]

PVSCSI = "# vm: --qemu '-device pvscsi,id=a -drive file={disk:a:64},if=none,id=d'"


@pytest.fixture(name="write")
def write_fixture(tmp_path):
    """Writes a test file that begins with the given lines."""
    def write(*lines, name="test_x.py"):
        path = tmp_path / name
        path.write_text("\n".join(["# SPDX-License-Identifier: GPL-2.0", *lines, ""]),
                        encoding="ascii")
        return path
    return write


def test_options_of_all_header_lines_are_joined(write):
    path = write("# vm: --cpus 4", PVSCSI, "# vm: --append 'a=b c' --mem 2048", '"""vm: no"""')
    assert needs.options([path]) == [
        "--cpus", "4", "--qemu", "-device pvscsi,id=a -drive file={disk:a:64},if=none,id=d",
        "--append", "a=b c", "--mem", "2048"]
    assert needs.options([path], uml=True) == ["--cpus", "4"]
    assert needs.options([]) == needs.options([write()]) == []


def test_disks_are_made_and_removed(write):
    with needs.prepared(needs.options([write(PVSCSI, "# vm: --append 'x={tmp}'")])) as words:
        disk = Path(re.search("file=([^,]*)", words[1])[1])
        assert disk.stat().st_size == 64 << 20
        assert words[3] == f"x={disk.parent}"
    assert not disk.parent.exists()


@pytest.mark.parametrize("line, says", [
    ("# vm: --no-such 5", "unrecognized arguments: --no-such"),
    ("# vm: --cpus many", "--cpus: invalid positive value: 'many'"),
    ("# vm: --qemu 'open", "No closing quotation"),
    ("# vm: --qemu 'x={disk:a}'", "{disk:a}: known are {tmp}, {disk:NAME:MIB} and {tgt:NAME:MIB}"),
    ("# vm: --qemu 'x={tgt:a:0}'", "a disk has 1 to 65536 MiB"),
    ("# vm: --qemu 'x={disk:../a:1}'", "known are"),
])
def test_wrong_headers_are_reported(write, line, says):
    done = subprocess.run([TOP / "tools/vm", "--for", write(line), "--", "true"], text=True,
                          capture_output=True, check=False)
    assert done.returncode in (2, 125) and says in done.stderr


def test_missing_file_is_named():
    with pytest.raises(VMError, match="--for no/file: No such file"):
        needs.options([Path("no/file")])


def test_each_disk_has_one_size():
    with pytest.raises(VMError, match="a has a different size"):
        with needs.prepared(["x={disk:a:64},y={disk:a:32}"]):
            pass


def test_only_files_with_equal_headers_share_a_vm(write):
    one, two = write(PVSCSI), write("", name="test_y.py")
    with pytest.raises(VMError, match="has another header"):
        needs.options([one, two])
    assert needs.options([one, two], uml=True) == []


def test_headers_in_the_tree_are_valid():
    for path in (TOP / "tests/vm").rglob("test_*.py"):
        needs.options([path])
