# SPDX-License-Identifier: GPL-2.0
"""tools/fc-check on copies of sysfs: right settings give no finding. Each wrong setting gives its
own finding, whose commands write only to existing files."""

import json
import re
import subprocess

import pytest
from fc_tree import TARGET, WWPN, Tree, iscsi, lpfc, mpt3sas, qla2xxx
from sg_io_build import ROOT, TIMEOUT

PROGRAM = ROOT / "tools/fc-check"
HOST7 = "devices/pci0000:3a/0000:3b:00.0/host7"
PORT, DISK = "class/fc_remote_ports/rport-7:0-2", "bus/scsi/devices/7:0:0:4"


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def check(tree, *args):
    """Runs fc-check; returns the findings by name. Checks that the exit status fits the findings,
    and that the files in their commands exist."""
    done = run("--json", "--sysfs", tree.sys, "--proc", tree.proc, *args)
    assert done.stderr == "", done.stderr
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == any(one["level"] != "note" for one in found)
    for one in found:
        assert one["found"] and one["why"] and one["where"], one
        for line in one["commands"]:
            for path in re.findall(r"> (/(?:sys|proc)/\S+)", line):
                if not path.endswith(("/issue_lip", "/scan", "/reset_statistics")):
                    assert (tree.sys.parent / path[1:]).exists(), line
    return {one["check"]: one for one in found}


def only(found, name, level, *where):
    """Checks that the named finding is the only one; returns it."""
    assert list(found) == [name], found
    assert (found[name]["level"], found[name]["where"]) == (level, list(where))
    return found[name]


def test_good_qla2xxx_has_no_findings(tree):
    """Ten LUNs, a queue for each CPU, the driver's defaults."""
    qla2xxx(tree)
    assert check(tree) == {}
    done = run("--sysfs", tree.sys, "--proc", tree.proc)
    assert done.returncode == 0
    assert done.stdout == (f"host7: FC, qla2xxx, {WWPN}, Online, 16 Gbit, target ports 1, "
                           "8 hardware queues, can_queue 4086, 10 LUNs\n"
                           "0 errors, 0 warnings, 0 notes\n")


# Wrong settings: {name of the finding: (file, value, level, place)}.
WRONG = {
    "link": ("class/fc_host/host7/port_state", "Linkdown", "error", "host7"),
    "speed": ("class/fc_host/host7/speed", "8 Gbit", "note", "host7"),
    "errors": ("class/fc_host/host7/statistics/invalid_crc_count", "0x2f", "warning", "host7"),
    "remote-port": (f"{PORT}/port_state", "Blocked", "error", "rport-7:0-2"),
    "fast-io-fail": (f"{PORT}/fast_io_fail_tmo", "5", "warning", "rport-7:0-2"),
    "dev-loss": (f"{PORT}/dev_loss_tmo", "10", "warning", "rport-7:0-2"),
    "lun-state": (f"{DISK}/state", "offline", "error", "7:0:0:4"),
    "timeout": (f"{DISK}/timeout", "3", "warning", "7:0:0:4"),
    "elevator": ("block/sdf/queue/scheduler", "none [mq-deadline]", "warning", "sdf"),
    "add-random": ("block/sdf/queue/add_random", "1", "note", "sdf"),
    "alua": (f"{DISK}/access_state", "standby", "warning", "7:0:0:4"),
    "host-depth": ("class/scsi_host/host7/can_queue", "79", "note", "host7"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_setting_gives_one_finding(tree, name):
    path, value, level, where = WRONG[name]
    qla2xxx(tree)
    tree.put(path, value)
    only(check(tree), name, level, where)


def test_reduced_queue_depth_is_found(tree):
    qla2xxx(tree)
    tree.put(f"{DISK}/queue_depth", 12)
    found = check(tree)
    assert set(found) == {"queue-depth", "uneven-depth"}
    assert found["queue-depth"]["found"] == "queue_depth is 12, ql2xmaxqdepth 64"
    assert "by one each 120 s" in found["queue-depth"]["why"]
    assert found["queue-depth"]["commands"] == [f"echo 64 > /sys/{DISK}/queue_depth"]


@pytest.mark.parametrize("name, value", (("ql2xmqsupport", 0), ("ql2xenablemsix", 2),
                                         ("ql2xnvmeenable", 0)))
def test_qla2xxx_with_one_queue_is_found(tree, name, value):
    """The finding names the wrong parameter. The elevators of ten disks are one finding."""
    qla2xxx(tree, queues=1)
    tree.put(f"module/qla2xxx/parameters/{name}", value)
    found = check(tree)
    assert set(found) == {"hardware-queues", "elevator"}
    assert found["hardware-queues"]["level"] == "warning"
    assert f"{name} is {value}" in found["hardware-queues"]["found"]
    assert f"options qla2xxx {name}=1" in found["hardware-queues"]["commands"][0]
    assert len(found["elevator"]["where"]) == len(found["elevator"]["commands"]) == 10
    said = run("--sysfs", tree.sys).stdout
    assert said.count("(elevator)") == 1 and max(map(len, said.splitlines())) <= 170


def test_one_queue_of_unknown_cause_is_a_note(tree):
    qla2xxx(tree, luns=0, queues=1)
    found = check(tree)
    assert found["hardware-queues"]["level"] == "note" and not found["hardware-queues"]["commands"]
    assert found["masking"]["where"] == ["rport-7:0-2"]


def test_missing_target_is_found(tree):
    """The finding on zoning names the host's own port."""
    qla2xxx(tree, luns=0)
    tree.put(f"{PORT}/roles", "FCP Initiator")
    assert WWPN in only(check(tree), "zoning", "error", "host7")["why"]


def test_host_in_target_mode_is_found(tree):
    """For a host that is a target, as with tcm_qla2xxx, fc-check does not report missing LUNs."""
    qla2xxx(tree, luns=0)
    tree.put(f"{HOST7}/scsi_host/host7/active_mode", "Target")
    only(check(tree), "target-mode", "warning", "host7")


def test_interrupts_on_one_cpu_are_found(tree):
    qla2xxx(tree)
    for irq in range(60, 70):
        tree.put(f"../proc/irq/{irq}/effective_affinity_list", 3)
    one = only(check(tree), "irq-affinity", "warning", "host7")
    assert one["found"] == "all 10 interrupts go to CPU 3"
    assert one["commands"][1] == "echo 1 > /proc/irq/61/smp_affinity_list"
    # Without /proc the affinity is not known, and there is no finding.
    assert json.loads(run("--json", "--sysfs", tree.sys).stdout)["findings"] == []


def test_multipath_needs_fast_io_fail(tree):
    """With multipath fast_io_fail_tmo must be on. Without multipath "off" is right."""
    qla2xxx(tree, luns=1)
    tree.multipath("sdb")
    one = only(check(tree), "fast-io-fail", "warning", "rport-7:0-2")
    assert one["found"] == "fast_io_fail_tmo is off" and "after 30 s" in one["why"]
    tree.put(f"{PORT}/fast_io_fail_tmo", 5)
    assert check(tree) == {}
    tree.put("bus/scsi/devices/7:0:0:0/timeout", 180)
    only(check(tree), "timeout", "warning", "7:0:0:0")


def test_two_paths_without_multipath_are_found(tree):
    qla2xxx(tree, luns=2)
    tree.put("bus/scsi/devices/7:0:0:1/wwid", "naa.600a098000000000")
    only(check(tree), "paths", "warning", "7:0:0:0", "7:0:0:1")
    tree.multipath("sdc")
    tree.put(f"{PORT}/fast_io_fail_tmo", 5)
    assert check(tree) == {}


def test_good_lpfc_has_only_a_note(tree):
    """On a machine with one NUMA node lpfc has two hardware queues, and no setting changes that."""
    lpfc(tree)
    one = only(check(tree), "hardware-queues", "note", "host8")
    assert one["found"] == "2 hardware queues for 8 CPUs" and not one["commands"]


@pytest.mark.parametrize("name", ("lpfc_hdw_queue", "lpfc_fcp_mq_threshold"))
def test_lpfc_with_one_queue_is_found(tmp_path, name):
    tree = Tree(tmp_path, nodes=2)
    lpfc(tree)
    tree.attributes("class/scsi_host/host8", {"nr_hw_queues": 1, name: 1})
    one = only(check(tree), "hardware-queues", "warning", "host8")
    assert f"{name} is 1" in one["found"] and f"lpfc {name}=0" in one["commands"][0]


def test_depths_are_compared_with_the_attributes_of_lpfc(tree):
    """lpfc's attributes give the right depth of a LUN, and the limit of a target."""
    lpfc(tree)
    tree.attributes("class/scsi_host/host8", {"lpfc_tgt_queue_depth": 100, "lpfc_use_msi": 2})
    tree.put("bus/scsi/devices/8:0:0:1/queue_depth", 63)
    found = check(tree)
    assert set(found) == {"hardware-queues", "queue-depth", "uneven-depth", "target-depth"}
    assert found["queue-depth"]["found"] == "queue_depth is 63, lpfc_lun_queue_depth 64"
    assert found["target-depth"]["found"] == (
        "lpfc_tgt_queue_depth is 100, its LUNs' queue_depth 255 in all")


def test_faults_of_iscsi_are_found(tree):
    """iscsi_tcp has only one hardware queue; therefore the block layer chooses an elevator."""
    iscsi(tree)
    found = check(tree)
    assert set(found) == {"hardware-queues", "elevator"}
    assert found["hardware-queues"]["level"] == "note"
    tree.put("class/iscsi_session/session1/recovery_tmo", 5)
    assert check(tree)["recovery"]["level"] == "warning"
    tree.multipath("sdz")
    assert "recovery" not in check(tree)
    tree.put("class/iscsi_session/session1/recovery_tmo", -1)
    assert check(tree)["recovery"]["level"] == "warning"
    tree.put("class/iscsi_session/session1/state", "FAILED")
    one = check(tree)["session"]
    assert one["level"] == "error" and "iqn.2026-01.org.example:smq" in one["commands"][0]


def test_faults_of_sas_are_found(tree):
    """fc-check checks the rates of the host's phys, not those of an expander's phys."""
    mpt3sas(tree)
    tree.put("class/sas_phy/phy-9:0:4/negotiated_linkrate", "3.0 Gbit")
    assert check(tree) == {}
    tree.put("class/sas_phy/phy-9:1/negotiated_linkrate", "6.0 Gbit")
    only(check(tree), "phy-rate", "note", "phy-9:1")
    tree.put("class/sas_phy/phy-9:1/maximum_linkrate", "6.0 Gbit")
    assert "echo '12.0 Gbit'" in only(check(tree), "phy-rate", "warning", "phy-9:1")["commands"][0]
    tree.put("class/sas_phy/phy-9:0/invalid_dword_count", 3000)
    assert check(tree)["errors"]["where"] == ["phy-9:0"]


def test_option_host_limits_the_checks(tree):
    """Without --host all hosts are checked, and the worst finding comes first."""
    qla2xxx(tree)
    lpfc(tree)
    tree.put("class/fc_host/host7/port_state", "Offline")
    assert list(check(tree))[0] == "link"
    assert set(check(tree, "--host", "host8")) == {"hardware-queues"}
    done = run("--sysfs", tree.sys, "--host", "host3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fc-check: host3: no FC, iSCSI or SAS host; there are: host7 host8\n"


def test_missing_host_is_found(tree):
    only(check(tree), "no-host", "error", "/sys/class")


def test_missing_smq_sg_is_found(tree):
    qla2xxx(tree)
    (tree.sys / "class/smq_sg/smqsg0/depth").unlink()
    (tree.sys / "class/smq_sg/smqsg0").rmdir()
    only(check(tree), "smq-sg", "note", "/dev")


def test_missing_attributes_cause_no_error(tree):
    qla2xxx(tree)
    for path in (tree.sys / HOST7).rglob("*"):
        if path.is_file() and path.name not in ("proc_name",):
            path.unlink()
    done = run("--sysfs", tree.sys)
    assert done.stderr == "" and done.stdout.startswith("host7: FC, qla2xxx")


def test_wrong_arguments_give_status_2(tmp_path):
    assert "exit status" in run("--help").stdout
    for args in (("--sysfs", tmp_path / "none"), ("--proc", tmp_path), ("x",)):
        assert run(*args).returncode == 2, args


def test_installed_program_runs(tmp_path):
    """fc-check runs from the folder in which `make install` puts it."""
    subprocess.run(["make", "-s", "-C", ROOT / "tools/src/fc_check", "install",
                    f"DESTDIR={tmp_path}", "PREFIX=/usr"], check=True, timeout=TIMEOUT)
    tree = Tree(tmp_path)
    qla2xxx(tree)
    tree.put("class/fc_host/host7/port_name", TARGET)
    done = subprocess.run([tmp_path / "usr/sbin/fc-check", "--sysfs", tree.sys], cwd="/",
                          capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "") and TARGET in done.stdout
