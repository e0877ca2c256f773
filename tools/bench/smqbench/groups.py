# SPDX-License-Identifier: GPL-2.0
"""The part of the kernel to which a function belongs."""

import re

from .symbols import USER, Function
from .tally import Tally

SCSI_MODULES = {"scsi_mod", "scsi_common", "sd_mod", "sg", "bsg"}
OWN_MODULES = frozenset({"smq", "smq_ram", "smq_lio", "smq_sg", "smq_virtio"})
# For both drivers of virtio-scsi, the modules of the ring and of the bus count as part of the LLD.
VIRTIO_MODULES = frozenset({"smq", "smq_virtio", "virtio_scsi", "virtio", "virtio_ring",
                            "virtio_pci", "virtio_pci_modern_dev", "virtio_pci_legacy_dev"})
# The modules above, and tcm_loop, with which smq_lio is compared.
COMPARED_MODULES = VIRTIO_MODULES | {"tcm_loop"}
# What tools/bench/convert measures: the driver pvscsi, and the layer that claims disks.
PVSCSI_MODULES, CONV_MODULES = frozenset({"smq", "smq_pvscsi"}), frozenset({"smq", "smq_conv"})
LLD_MODULES = frozenset({"smq_ram", "smq_lio", "null_blk", "scsi_debug"}) | COMPARED_MODULES
TARGET_MODULES = frozenset({"target_core_mod", "target_core_file", "target_core_iblock"})

MEMORY, LOCKS, TIME = "memory", "locks, rcu", "time, stat, random"
BLOCK, SCSI, LLD = "io_uring, block, vfs", "SCSI mid-layer, sd", "LLD"
TARGET = "LIO"
FAST = "smq_sg"
# This module issues commands in the kernel, as a program does from user space.
LOAD_MODULE = "smq_load"
SCHED, COPY, ENTRY = "scheduler, workqueue", "copy, clear", "entry, interrupt, idle"
PROGRAM, OTHER = "program", "other"

ORDER = [BLOCK, FAST, SCSI, LLD, TARGET, COPY, MEMORY, LOCKS, TIME, SCHED, ENTRY, PROGRAM, OTHER]

# A function belongs to the first group with a pattern that matches its whole name.
_PATTERNS = {
    # Includes functions outside the SCSI modules that only the mid-layer calls on these paths.
    SCSI: r"""
        scsi_.*  __blk_rq_map_sg  sbitmap_(get|put)  (__)?sg_(alloc|free|init)_.*  sg_pool_.*
        sg_next
        """,
    LOCKS: r"""
        _raw_(spin|read|write)_.*  native_queued_.*  queued_(read|write)_.*  _*mutex_.*
        _*(srcu|rcu)_.*  call_rcu.*  (down|up)_(read|write).*  __percpu_(down|up)_.*  lockref_.*
        __local_bh_.*  preempt_.*
        """,
    MEMORY: r"""
        _*k(v|z)?(malloc|alloc|calloc|realloc|free|memdup).*  _*kmem_cache_.*  _*slab_.*
        _*(alloc|free)_slab.*  mempool_.*  bvec_(alloc|free)  cache_from_obj  cmpxchg_double_slab
        put_cpu_partial  get_partial.*  __unfreeze_partials  setup_object  shuffle_freelist
        memcg_.*  _*get_obj_cgroup.*  obj_cgroup.*  (refill|mod)_obj.*  barn_.*  __?pcs_.*
        _*(alloc|free)_(frozen_)?pages?(_.*)?  free_(unref|to)_.*  get_page_from_.*  rmqueue.*
        _*folio_alloc.*  _*v(malloc|zalloc|free).*  check_(stack_object|heap_object)
        __check_(object_size|heap_object)  kmalloc_.*  vmalloc_.*
        """,
    COPY: r"""
        _*mem(cpy|set|move|cmp)(_.*)?  _*copy_(user|from|to|page)_.*  rep_(movs|stos).*
        _*clear_(page|user).*  sg_(copy|pcopy|miter)_.*  __sg_page_iter_.*
        __(get|put)_user_(nocheck_)?\d
        """,
    TIME: r"""
        ktime_.*  read_(tsc|hpet)  (native_)?sched_clock.*  current_time  jiffies_.*
        __msecs_to_jiffies  nsecs_to_jiffies  blk_account_.*  _*blk_stat_.*  update_io_ticks
        part_.*  bdev_(start|end)_io_acct  _*wbt_.*  bio_to_wbt_flags  _*rq_qos_.*  rwb_.*
        blk_(cgroup|cgrp)_.*  _*cgroup_rstat_.*  (add|crng|extract|fast|mix|_mix|credit)_.*
        blake2s_.*  chacha_.*  get_random_.*  touch_atime  timestamp_.*  atime_needs_update
        inode_needs_.*
        """,
    SCHED: r"""
        _*schedule(_.*)?  io_schedule.*  try_to_wake_up  _*wake_.*  ttwu_.*  default_wake_.*
        _*(en|de)queue_(task|entit).*  avg_vruntime  vruntime_.*  dl_server_.*  wakeup_preempt
        (task_)?mm_cid_.*  __set_next_.*  update_(curr|load_avg|rq_clock|min_vruntime|cfs_group).*
        __update_load_avg.*  pick_.*  put_prev_.*  set_next_.*  clear_buddies  psi_.*
        record_times  _*switch_(to|mm).*  finish_task_switch  _*queue_work.*  process_one_work
        worker_.*  insert_work  pwq_.*  kick_process  resched_.*  check_(preempt|spread|cfs).*
        prepare_to_wait.*  finish_wait  init_wait_entry  autoremove_.*  _*wait_for_.*  complete
        cpuacct_.*  select_task_.*  place_entity  sched_balance_.*  newidle_.*  llist_.*
        __cond_resched  enter_lazy_tlb  hrtick_.*  nr_iowait_cpu  mem_cgroup_handle_over_high
        """,
    BLOCK: r"""
        _*io_.*  tctx_task_.*  handle_tw_list  ctx_flush_and_put  task_work_.*  _*blk.*  I_BDEV
        _*bio_.*  _*submit_bio.*  _*bdev.*  _*dio_.*  _*iov_iter.*  import_.*  _*sbitmap_.*
        _*find_(next|first)_.*bit  _*elv_.*  dd_.*  flush_(busy|plug).*  _*rq_.*  _*req_.*
        (internal_|__?)?get_user_pages.*  _*gup_.*  try_grab_.*  _*(un)?pin_user_.*  folio_.*
        _*set_page_dirty.*  page_.*  _*put_page.*  _*list_(add|del)_.*  _*fget.*  _*fdget  fput.*
        (security|apparmor|aa|tomoyo|bpf_lsm|cap)_.*  rw_verify_.*  kiocb_.*  _*percpu_ref_.*
        (__get_task|get_current)_ioprio  should_fail.*  _*(x64|do)_sys_.*  do_vfs_.*  vfs_.*
        _*fsnotify.*  kill_fasync  xa_load  xas_.*  kthread_blkcg  need_.*  _*disk_.*
        p[mu]d_huge  __pte_offset_map  mod_node_page_state  try_get_folio  is_valid_gup_args
        want_pages_array  hook_file_.*  make_vfs[ug]id
        file_.*  __file_.*  filemap_.*  invalidate_inode_.*
        aio_.*  _*get_request  freed_request  generic_make_request.*  attempt_.*merge
        """,
    ENTRY: r"""
        asm_.*  entry_.*  syscall_.*  do_syscall_.*  _*sysvec_.*  _*(hard|soft)?irq.*  error_.*
        exc_.*  ret_from_.*  restore_regs_.*  swapgs_.*  sync_regs  early_xen_.*  _*do_softirq.*
        handle_softirqs  raise_softirq.*  _*exit_to_.*  enter_from_.*  __rseq_.*  _*fpregs_.*
        (save|switch)_fp.*  _*hrtimer_.*  (en|de)queue_hrtimer  timerqueue_.*  _*rb_.*  tick_.*
        _*timer_.*
        (add|mod|del|init|run|expire)_timer.*  _*run_.*timers.*  clockevents_.*  lapic_.*
        native_.*  amd_.*  arch_.*  ct_.*  do_idle  idle_.*  default_idle.*  pv_native_.*
        cpuidle_.*  cpu_startup_.*  nohz_.*  local_touch_nmi  tsc_.*  timekeeping_.*  update_.*
        run_.*
        flush_smp_.*  scheduler_tick  sched_tick  task_tick_.*  trigger_.*  account_.*  calc_.*
        acct_.*  perf_.*  posix_.*  get_(next|nohz)_timer.*  __next_timer_.*  _*timer
        """,
}
_CORE = [(name, re.compile("|".join(patterns.split()))) for name, patterns in _PATTERNS.items()]


def group(function: Function) -> str:
    """The group of a function."""
    if function == USER or function.module == LOAD_MODULE:
        return PROGRAM
    if function.module == FAST:
        return FAST
    if function.module in LLD_MODULES:
        return LLD
    if function.module in TARGET_MODULES:
        return TARGET
    if function.module in SCSI_MODULES:
        return SCSI
    for name, pattern in _CORE:
        if pattern.fullmatch(function.name):
            return name
    return OTHER


def split(insns: Tally[Function]) -> dict[str, float]:
    """Sums up instructions by group. The result has every group, in order."""
    result = dict.fromkeys(ORDER, 0.0)
    for function, value in insns.items():
        result[group(function)] += value
    return result
