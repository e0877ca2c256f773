# SPDX-License-Identifier: GPL-2.0
"""The devices that are measured, in the order of the report."""

from dataclasses import dataclass

from .errors import BenchError
from .policyrows import POLICY_ROWS


@dataclass(frozen=True)
class Row:
    """A device and its settings."""

    label: str
    model: bool = False  # a model of something that does not run here; the report says so each time
    waits: bool = False  # commands wait for an interrupt, so the CPU may be idle
    data: bool = False      # moves data
    note: str = ""


ROWS = {
    "null_blk": Row("null_blk", note="not SCSI: the lower bound"),
    "scsi_debug": Row("scsi_debug", note="completes inside queuecommand, moves no data"),
    "scsi_debug_data": Row("scsi_debug data", data=True, note="completes inside queuecommand"),
    "scsi_debug_deadline": Row("scsi_debug, mq-deadline", note="completes inside queuecommand, "
                               "moves no data"),
    "scsi_debug_bfq": Row("scsi_debug, bfq", note="completes inside queuecommand, moves no data"),
    "scsi_debug_kyber": Row("scsi_debug, kyber", note="completes inside queuecommand, moves no "
                            "data"),
    "scsi_debug_no_sd": Row("scsi_debug without sd", note="no_uld=1: like a tape, the LUN is not "
                            "bound to sd, so the block layer takes no times"),
    "scsi_debug_no_stats": Row("scsi_debug, queue_stats=0", note="with 0 in this attribute of the "
                               "smq_sg node the block layer takes no times"),
    "scsi_debug_timer": Row("scsi_debug 20 us", waits=True, note="ndelay=20000: completes from a "
                            "timer's interrupt, moves no data"),
    "scsi_debug_poll": Row("scsi_debug, poll queue", note="submit_queues=2 poll_queues=1: "
                           "completes inside queuecommand, moves no data"),
    "scsi_debug_timer_poll": Row("scsi_debug 20 us, poll queue", waits=True,
                                 note="the same device with ndelay=20000: completes from a timer's "
                                 "interrupt, or when it is polled"),
    "smq_ram_null_poll": Row("smq_ram null, poll queue", note="null=1 poll_queues=1: completes "
                             "inside queuecommand, moves no data"),
    "smq_ram_poll": Row("smq_ram, poll queue", data=True, note="poll_queues=1: completes inside "
                        "queuecommand, or when it is polled; its blocks have been written"),
    "smq_ram_holes_poll": Row("smq_ram, poll queue, holes", data=True,
                              note="the same device, but no block has ever been written"),
    "smq_ram_20us_poll": Row("smq_ram 20 us, poll queue", waits=True, data=True,
                             note="service_ns=20000 and a poll queue: completes from a timer's "
                             "interrupt, or when it is polled"),
    "smq_ram_null": Row("smq_ram null", note="completes inside queuecommand, moves no data"),
    "smq_ram": Row("smq_ram", data=True, note="completes inside queuecommand"),
    "smq_ram_batch": Row("smq_ram, batch", data=True, note="the same device with the policy batch"),
    "smq_ram_1q": Row("smq_ram, 1 queue", data=True,
                      note="hw_queues=1, as the legacy model's host has"),
    "legacy_2013": Row("legacy 2013 (model)", model=True, data=True,
                       note="the policy legacy-model, era 2013, on smq_ram with one queue"),
    "legacy_419": Row("legacy 4.19 (model)", model=True, data=True,
                      note="the policy legacy-model, era 4.19, on smq_ram with one queue"),
    "smq_ram_1q_timer": Row("smq_ram 20 us, 1 queue", waits=True, data=True,
                            note="hw_queues=1 service_ns=20000: completes from a timer's "
                            "interrupt"),
    "legacy_2013_timer": Row("legacy 2013 20 us (model)", model=True, waits=True, data=True,
                             note="the policy legacy-model, era 2013, on smq_ram 20 us, 1 queue"),
    "legacy_419_timer": Row("legacy 4.19 20 us (model)", model=True, waits=True, data=True,
                            note="the policy legacy-model, era 4.19, on smq_ram 20 us, 1 queue"),
    "smq_ram_timer": Row("smq_ram, interrupts", waits=True, data=True,
                         note="hardware model, service_ns: completes from a timer's interrupt"),
    "smq_ram_timer_batch": Row("smq_ram, interrupts, batch", waits=True, data=True,
                               note="the same device with the policy batch"),
    "smq_ram_doorbell": Row("smq_ram, expensive doorbell", waits=True, data=True,
                            note="the same device, and a doorbell costs 5 us of CPU time"),
    "smq_ram_doorbell_batch": Row("smq_ram, expensive doorbell, batch", waits=True, data=True,
                                  note="the same device with the policy batch"),
    "smq_ram_20us": Row("smq_ram 20 us", waits=True, data=True,
                        note="service_ns=20000: completes from a timer's interrupt"),
    "smq_ram_20us_batch": Row("smq_ram 20 us, batch", waits=True, data=True,
                              note="the same device with the policy batch"),
    "smq_ram_20us_doorbell": Row("smq_ram 20 us, doorbell 5 us", waits=True, data=True,
                                 note="service_ns=20000 doorbell_ns=5000"),
    "smq_ram_20us_doorbell_batch": Row("smq_ram 20 us, doorbell 5 us, batch", waits=True,
                                       data=True, note="the same device with the policy batch"),
    "smq_ram_100us": Row("smq_ram 100 us", waits=True, data=True, note="service_ns=100000: slow "
                         "enough that one CPU keeps it busy with 32 commands"),
    "smq_ram_100us_batch": Row("smq_ram 100 us, batch", waits=True, data=True,
                               note="the same device with the policy batch"),
    "smq_ram_100us_doorbell": Row("smq_ram 100 us, doorbell 5 us", waits=True, data=True,
                                  note="service_ns=100000 doorbell_ns=5000"),
    "smq_ram_100us_doorbell_batch": Row("smq_ram 100 us, doorbell 5 us, batch", waits=True,
                                        data=True, note="the same device with the policy batch"),
    "virtio_scsi": Row("virtio_scsi", waits=True, note="QEMU's virtio-scsi over null-co"),
    "smq_virtio": Row("smq_virtio", waits=True, note="the same device"),
    "smq_virtio_poll": Row("smq_virtio, polled", waits=True,
                           note="the same device, poll_queues=1; the polling is counted, too"),
    "tcm_loop_rd": Row("tcm_loop, RAM disk", data=True,
                       note="LIO's rd_mcp with is_nonrot=1, through LIO's own local fabric"),
    "smq_lio_rd": Row("smq_lio, RAM disk", data=True, note="the same backstore through smq_lio"),
    "tcm_loop_file": Row("tcm_loop, file", waits=True, data=True,
                         note="LIO's fileio with is_nonrot=1, a file on tmpfs"),
    "smq_lio_file": Row("smq_lio, file", waits=True, data=True,
                        note="the same backstore through smq_lio"),
    "tcm_loop_block": Row("tcm_loop, block device", waits=True,
                          note="LIO's iblock with is_nonrot=1 over null_blk, moves no data"),
    "smq_lio_block": Row("smq_lio, block device", waits=True,
                         note="the same backstore through smq_lio"),
    "conv_scsi_debug": Row("smq_conv, scsi_debug", note="the same disk, claimed by smq_conv"),
    "scsi_debug_1q": Row("scsi_debug, 1 queue", note="submit_queues=1: completes inside "
                         "queuecommand, moves no data"),
    "conv_scsi_debug_1q": Row("smq_conv, scsi_debug, 1 queue",
                              note="the same disk, claimed by smq_conv"),
    "attach_scsi_debug": Row("scsi_debug, attached", note="the same disk, its host attached"),
    "attach_scsi_debug_prio": Row("scsi_debug, attached, prio",
                                  note="the same, with the policy prio; never full, and "
                                  "not while prio looks for 200 ms whether it is"),
    "detached_scsi_debug": Row("scsi_debug, detached", note="attached and detached again"),
    "attach_tcm_loop_rd": Row("tcm_loop, RAM disk, attached", data=True,
                              note="tcm_loop's disk, its host attached"),
    "conv_smq_ram": Row("smq_conv, smq_ram", data=True, note="smq_ram's disk, claimed by smq_conv"),
    "conv_tcm_loop_rd": Row("smq_conv, tcm_loop, RAM disk", data=True,
                            note="tcm_loop's disk, claimed by smq_conv"),
    "kernel_legacy": Row("scsi_debug, given kernel, legacy path",
                         note="scsi_mod.use_blk_mq=0 on a kernel that the user supplied"),
    "kernel_legacy_timer": Row("scsi_debug 20 us, given kernel, legacy path",
                               note="the same kernel and path, ndelay=20000"),
    "kernel_mq": Row("scsi_debug, given kernel, scsi-mq",
                     note="scsi_mod.use_blk_mq=1 on a kernel that the user supplied"),
    "kernel_mq_timer": Row("scsi_debug 20 us, given kernel, scsi-mq",
                           note="the same kernel and path, ndelay=20000"),
}
for _name, _group in POLICY_ROWS.items():
    for _word, _text in _group.words.items():
        ROWS[f"{_name}_{_word}"] = Row(f"{_group.label}, {_text}", waits=True, data=_group.data,
                                       note=_group.note)


def chosen(text: str | None, of: list[str]) -> list[str]:
    """The rows named by an option, in the order of @of; without the option all of them."""
    if text is None:
        return list(of)
    names = text.split(",")
    for name in names:
        if name not in of:
            raise BenchError(f"--rows: there is no row '{name}', only {', '.join(of)}")
    return [name for name in of if name in names]
