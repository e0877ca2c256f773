# SPDX-License-Identifier: GPL-2.0
"""The rows of tools/bench/policies: a device with direct, with direct again (the difference shows
the noise), with a policy, and with other things to compare."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class PolicyRows:
    """The rows of one device; each is called NAME_WORD."""

    policy: str  # "direct" if only the rows of .more are compared with direct
    label: str
    note: str
    more: dict[str, str] = field(default_factory=dict)      # word: label
    data: bool = True           # moves data

    @property
    def words(self) -> dict[str, str]:
        """All rows: word and label."""
        return {"direct": "direct", "again": "direct again", self.policy: self.policy} | self.more


_APART = "smq_ram hw_queues=4 model/hwq_ns=2000000: each queue serves one command at a time"
_READS = ("smq_ram hw_queues=4 depth=64, commands of 64 KiB; after drop_caches 48 MiB of buffered "
          "1 MiB reads, each followed by a checksum of its data")
_THRESHOLDS = {"off": "steer, off"} | {str(n): f"steer above {n} %"
                                       for n in (2, 10, 25, 50, 75, 98)}

_OTHERS = {"wbt": "direct, wbt", "deadline": "direct, mq-deadline", "kyber": "direct, kyber",
           "bfq": "direct, bfq"}
_FILE_OTHERS = {word: text for word, text in _OTHERS.items() if word != "kyber"}
_FILES = ("tcm_loop with queue_depth=128 over smq_ram model/bytes_per_sec=10000000, attached in "
          "prio's row; vm.dirty_bytes=16 MiB; cp of a large file, 2 s later tar -x of 384 files of "
          "16 KiB, and SQLite with synchronous=FULL: ")
_BESIDE_OTHERS = {"prio_wbt": "prio, wbt"} | _FILE_OTHERS
_DEFAULT = ("smq_ram depth=128 model/bytes_per_sec=10000000, max_sectors_kb as by default; "
            "vm.dirty_bytes=16 MiB; beside a writer that overwrites a file of 64 MiB, 4 KiB at a "
            "time, 10 ms apart")

POLICY_ROWS = {
    "shared": PolicyRows(
        "bucket", "one hardware queue", "smq_ram hw_queues=1 null=1 model/doorbell_ns=1: the "
        "commands of all CPUs take the lock of one ring; they end in the doorbell",
        {"bucket_default": "bucket, default share", "deadline": "direct, mq-deadline"}, data=False),
    "shared_home": PolicyRows(
        "bucket", "one hardware queue, rq_affinity 2", "the same, commands end on the CPU that "
        "queued them", data=False),
    "shared_nomerges": PolicyRows(
        "bucket", "one hardware queue, merges off", "the same, nomerges=2", data=False),
    "shared_bell": PolicyRows(
        "bucket", "one hardware queue, doorbell 1 us", "the same, but a doorbell costs 1 us of CPU "
        "time", data=False),
    "prio_full": PolicyRows(
        "prio", "full device", "smq_ram queue_depth=4 model/service_ns=1000000; 64 async writers "
        "with two writes each in flight, one syncer"),
    "prio_trap": PolicyRows(
        "prio", "1 MB/s, a large write", "smq_ram at 1 MB/s, by model/bytes_per_sec for direct and "
        "smq_prio/bytes_per_sec for prio; one async write of 999424 bytes and, 900 ms later, four "
        "sync ones of 4096"),
    "prio_load": PolicyRows(
        "prio", "100 MB/s, mixed writes", "the same at 100 MB/s: 32 async writers with 8 writes "
        "each of 64 KiB, four syncers"),
    "prio_rate": PolicyRows(
        "prio", "10 MB/s, 1300 writes wait", "model/bytes_per_sec=10000000, for prio also "
        "smq_prio/bytes_per_sec: 1300 async writers with one write of 64 KiB each, one syncer"),
    "prio_crowd": PolicyRows(
        "prio", "10 MB/s, more writers than tags", "the same, but the number of async writers "
        "is four times the depth that prio advertises: most wait for a tag"),
    "prio_ratio": PolicyRows(
        "direct", "full device, many sync writes", "smq_ram queue_depth=4 "
        "model/service_ns=1000000; 64 async writers and 64 writers with O_DIRECT, one write each",
        {str(n): f"prio, ratio {n}" for n in (1, 2, 4, 8, 16)}),
    "depth_link": PolicyRows(
        "prio", "10 MB/s, takes 128 commands", "smq_ram depth=128 model/bytes_per_sec=10000000, "
        "max_sectors_kb=512, prio without a setting: 16 async writers with four writes each of "
        "512 KiB, one syncer",
        _OTHERS),
    "depth_conv": PolicyRows(
        "prio", "the same, claimed by smq_conv", "the same disk, claimed; the policy is that of "
        "the upper host", {"wbt": "direct, wbt"}),
    "depth_place": PolicyRows(
        "prio", "the same, in place on tcm_loop", "LIO's tcm_loop with queue_depth=128 over the "
        "same disk; smq_conv has attached its host in prio's row", _OTHERS),
    "depth_lanes": PolicyRows(
        "prio", "64 commands at once, 10 ms each", "smq_ram depth=128 model/service_ns=10000000: "
        "reads, QD64 one by one"),
    "files_appends": PolicyRows(
        "prio", "10 MB/s, appends with fsync on an ext4 of their own", _DEFAULT, _BESIDE_OTHERS),
    "files_appends_one": PolicyRows(
        "prio", "10 MB/s, appends with fsync on the same ext4", _DEFAULT, _BESIDE_OTHERS),
    "files_reads": PolicyRows(
        "prio", "10 MB/s, reads", _DEFAULT, _BESIDE_OTHERS),
    "files_one": PolicyRows(
        "prio", "10 MB/s, one ext4", f"{_FILES}all on one ext4", _FILE_OTHERS),
    "files_writeback": PolicyRows(
        "prio", "10 MB/s, one ext4, data=writeback", f"{_FILES}all on one ext4, mounted with "
        "data=writeback", {"wbt": _OTHERS["wbt"]}),
    "files_apart": PolicyRows(
        "prio", "10 MB/s, an ext4 for the database", f"{_FILES}the database on an ext4 of its own",
        _FILE_OTHERS),
    "steer_apart": PolicyRows(
        "steer", "queues served apart", f"{_APART}; one task on CPU 0, QD64"),
    "steer_balanced": PolicyRows(
        "steer", "queues served apart, a task each", f"{_APART}; a task on each CPU, QD64"),
    "steer_pool": PolicyRows(
        "steer", "queues served alike", "model/service_ns=20000000: the device serves all commands "
        "at once; one task on CPU 0, QD64"),
    "steer_tagset": PolicyRows(
        "direct", "host_tagset, queues served apart", f"{_READS}; model/hwq_ns=1000000",
        _THRESHOLDS),
    "steer_map": PolicyRows(
        "direct", "tags of each queue, queues served apart", f"{_READS}; model/hwq_ns=1000000 "
        "host_tagset=0", _THRESHOLDS),
    "steer_alike": PolicyRows(
        "direct", "host_tagset, queues served alike", f"{_READS}; model/service_ns=16000000",
        _THRESHOLDS),
    "batch_free": PolicyRows(
        "batch", "doorbell free", "smq_ram model/service_ns=500000 under icount, where a "
        "nanosecond is one instruction"),
    "batch_bell": PolicyRows("batch", "doorbell 5 us", "the same, model/doorbell_ns=5000"),
}
