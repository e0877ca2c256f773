# SPDX-License-Identifier: GPL-2.0
# on: uml sanitize 7.2
"""Module parameters and the policy attribute: which values are accepted, and how the others are
refused."""
import os
from pathlib import Path

import pytest
from kit import cdb
from kit.host import ModuleError, SgDev, find_hosts, fio, is_loaded, load, loaded, settle

CPUS = os.cpu_count()

# Parameter, value, and limit. The message must name all three.
BAD = [
    ("hosts", 65, "0..64"), ("hosts", 0xffffffff, "0..64"),
    ("luns", 0, "1..256"), ("luns", 257, "1..256"),
    ("size_mb", 0, "1..16777216"), ("size_mb", 16777217, "1..16777216"),
    ("size_mb", (1 << 64) - 1, "1..16777216"),
    *[("sector_size", size, "512, 1024, 2048, 4096")
      for size in (0, 1, 256, 511, 513, 520, 3072, 4097, 8192, 0x80000000)],
    ("depth", 0, "1..4096"), ("depth", 4097, "1..4096"), ("depth", 0xffffffff, "1..4096"),
]


@pytest.mark.parametrize("name,value,limit", BAD, ids=[f"{row[0]}={row[1]}" for row in BAD])
def test_bad_value_is_refused(klog, name, value, limit):
    """A bad value gives EINVAL and one message with parameter, value and limit; nothing is left
    behind."""
    with pytest.raises(ModuleError, match="Invalid argument"):
        load("smq_ram", **{name: value})
    assert not is_loaded("smq_ram")
    assert not find_hosts("smq_ram") and not Path("/sys/devices/smq_ram").exists()
    said = klog.matching(r"smq_ram: ")
    assert len(said) == 1, said
    assert f"{name}={value} " in said[0] and limit in said[0], said
    assert not klog.faults()


@pytest.mark.parametrize("words", [{"hosts": -1}, {"depth": "deep"}, {"size_mb": "1G"},
                                   {"sector_size": "0x"}, {"luns": 1 << 32}, {"null": "maybe"}],
                         ids=lambda words: "{}={}".format(*list(words.items())[0]))
def test_value_of_another_type_is_refused(klog, words):
    """A value that is no number of the parameter's type is refused before the module sees it."""
    with pytest.raises(ModuleError):
        load("smq_ram", **words)
    assert not is_loaded("smq_ram")
    name, value = list(words.items())[0]
    assert klog.matching(rf"smq_ram: .*{value}.*{name}")


@pytest.mark.parametrize("depth", [1, 4096])
def test_depth_of_host_and_lun(depth):
    """The parameter depth sets the depth of the host and of the LUN. Even with depth=1, fio with
    iodepth=8 completes."""
    with loaded("smq_ram", depth=depth, size_mb=16) as hosts:
        lun = hosts[0].luns()[0]
        assert int(hosts[0].attr("can_queue")) == depth
        assert int((lun.sysfs / "queue_depth").read_text()) == depth
        fio(lun.sd, rw="randwrite", bs="4k", size="1m", ioengine="io_uring", iodepth=8,
            verify="crc32c")
        assert settle(hosts[0])["queued"] >= 512


def test_smallest_disk_keeps_its_data():
    """A disk of the smallest size, 1 MiB, keeps its data and checks its range."""
    with loaded("smq_ram", size_mb=1) as hosts:
        lun = hosts[0].luns()[0]
        assert int(Path("/sys/block", os.path.basename(lun.sd), "size").read_text()) == 2048
        data = os.urandom(1 << 20)
        with SgDev(lun.sd) as dev:
            assert dev.cmd(cdb.blocks(cdb.WRITE_10, 0, 2048), dout=data).good
            assert dev.cmd(cdb.blocks(cdb.READ_10, 0, 2048), din=1 << 20).data == data
            assert not dev.cmd(cdb.blocks(cdb.READ_10, 2048, 1), din=512).good


@pytest.mark.limit(120)
def test_the_largest_number_of_hosts():
    """64 hosts are made and removed."""
    with loaded("smq_ram", hosts=64, size_mb=1, depth=2) as hosts:
        numbers = [host.luns()[0].sd for host in hosts]
        assert len(set(numbers)) == 64


@pytest.mark.parametrize("given,hw,poll", [
    ({}, CPUS, 0), ({"hw_queues": 1}, 1, 0), ({"hw_queues": 1, "poll_queues": 1}, 1, 1),
    ({"poll_queues": CPUS}, CPUS, CPUS)], ids=["default", "one", "one-and-one", "all"])
def test_host_has_the_given_hardware_queues(given, hw, poll):
    """The host has as many hardware queues as the parameters say, and each CPU is mapped to one of
    them."""
    with loaded("smq_ram", size_mb=16, **given) as hosts:
        assert int(hosts[0].attr("smq/hw_queues")) == hw
        assert int(hosts[0].attr("smq/poll_queues")) == poll
        rows = hosts[0].hwqs()
        assert [row["type"] for row in rows] == ["default"] * hw + ["poll"] * poll
        disk = Path("/sys/block", os.path.basename(hosts[0].luns()[0].sd), "mq")
        mapped = [entry for queue in disk.glob("*") for entry in
                  (queue / "cpu_list").read_text().replace(",", " ").split()]
        assert len(list(disk.glob("*"))) == hw + poll
        assert sorted(int(cpu) for cpu in mapped) == sorted(
            list(range(CPUS)) * (2 if poll else 1))


@pytest.mark.parametrize("name", ["hw_queues", "poll_queues"])
def test_number_of_queues_is_cut_to_the_cpus(klog, name):
    """The number of queues is cut to the number of CPUs, and a message says so."""
    with loaded("smq_ram", size_mb=16, **{name: 99}) as hosts:
        cut = int(hosts[0].attr(f"smq/{name}"))
        assert CPUS <= cut < 99
        said = klog.matching(rf"smq: .*{name}=99")
        assert len(said) == 1 and str(cut) in said[0], said
        with SgDev(hosts[0].luns()[0].sg) as dev:
            assert dev.cmd(bytes(6)).good


def test_parameters_are_read_only(ram):
    """Parameters are read-only, because the hosts were created with them."""
    for entry in Path("/sys/module/smq_ram/parameters").iterdir():
        assert entry.stat().st_mode & 0o222 == 0, entry
    assert Path("/sys/module/smq_ram/parameters/depth").read_text().strip() == \
        ram.attr("can_queue")


@pytest.mark.smoke
def test_unknown_policy_is_refused(ram, klog):
    """A host begins with direct; an unknown policy is refused and named in the log."""
    def write(word):
        # A buffered file would repeat a write() that was refused.
        entry = os.open(ram.sysfs / "smq/policy", os.O_WRONLY)
        try:
            os.write(entry, word.encode())
        finally:
            os.close(entry)

    assert ram.policy() == "direct"
    for word in ("direct\n", "direct"):
        write(word)
    assert not klog.matching("policy")
    for word in ("directly", "direc", "x" * 200, "\n", "DIRECT"):
        klog.mark()
        with pytest.raises(OSError, match="Invalid argument"):
            write(word)
        said = klog.matching("policy")
        assert len(said) == 1 and word.strip()[:32] in said[0] and "direct" in said[0], said
        assert len(said[0]) < 160, said
    assert ram.policy() == "direct"
