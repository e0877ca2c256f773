# SPDX-License-Identifier: GPL-2.0
"""Which part of the kernel a function belongs to."""

import re
from collections import Counter

from .symbols import USER, Function

SCSI_MODULES = {"scsi_mod", "scsi_common", "sd_mod", "sg", "bsg"}
OWN_MODULES = frozenset({"smq", "smq_ram"})
LLD_MODULES = OWN_MODULES | {"null_blk", "scsi_debug"}

MEMORY, LOCKS, TIME = "memory", "locks, rcu", "time, stat, random"
BLOCK, SCSI, LLD = "io_uring, block, vfs", "SCSI mid-layer, sd", "LLD"
SCHED, COPY, ENTRY = "scheduler, workqueue", "copy, clear", "entry, interrupt, timer"
USERLAND, OTHER = "user space", "not grouped"

ORDER = [BLOCK, SCSI, LLD, COPY, MEMORY, LOCKS, TIME, SCHED, ENTRY, USERLAND, OTHER]

# The first that matches decides.
_CORE = [(group, re.compile(rf"(?:{'|'.join(patterns)})$")) for group, patterns in (
    (LOCKS, (
        r"_raw_(?:spin|read|write)_.*", r"native_queued_spin_.*", r"queued_(?:read|write)_.*",
        r"__rcu_read_(?:un)?lock", r"rcu_.*", r"__rcu_.*", r"call_rcu.*", r"mutex_.*",
        r"__mutex_.*", r"(?:down|up)_(?:read|write).*", r"__(?:srcu|percpu_down|percpu_up).*",
        r"__local_bh_.*", r"lockref_.*", r"preempt_.*")),
    (MEMORY, (
        r"(?:__)?k(?:v)?(?:malloc|zalloc|calloc|free|realloc|memdup).*", r"__kmem_cache_.*",
        r"kmem_cache_.*", r"_*slab_.*", r"___?slab_alloc.*", r"mempool_.*", r"cache_from_obj",
        r"memcg_.*", r"_*get_obj_cgroup.*", r"obj_cgroup.*", r"refill_obj_stock.*",
        r"mod_objcg.*", r"put_cpu_partial", r"cmpxchg_double_slab.*", r"__unfreeze_partials",
        r"get_partial.*", r"__slab_.*", r"kmalloc_slab", r"bvec_(?:alloc|free)", r"_*free_pages.*",
        r"free_unref_.*", r"_*alloc_pages.*", r"get_page_from_freelist", r"rmqueue.*",
        r"__folio_alloc.*", r"vmalloc.*", r"v(?:free|map).*", r"setup_object", r"allocate_slab",
        r"shuffle_freelist", r"__check_object_size.*", r"check_stack_object",
        r"__check_heap_object", r"__virt_addr_valid", r"_*free_slab.*", r"free_to_partial_list",
        r"alloc_from_new_slab", r"refill_.*", r"barn_.*", r"__pcs_.*", r"free_to_pcs.*")),
    (COPY, (
        r"_*mem(?:cpy|set|move|cmp)(?:_.*)?", r"copy_user_.*", r"rep_(?:movs|stos).*",
        r"_copy_(?:from|to)_.*", r"copy_page.*", r"clear_page.*", r"clear_user.*",
        r"sg_(?:copy|pcopy|miter).*")),
    (TIME, (
        r"ktime_.*", r"read_tsc", r"read_hpet", r"(?:native_)?sched_clock.*", r"current_time.*",
        r"blk_account_.*", r"blk_stat_.*", r"_*blk_stat.*", r"update_io_ticks", r"part_.*",
        r"bdev_(?:start|end)_io_acct", r"_*wbt_.*", r"bio_to_wbt_flags", r"_*rq_qos_.*",
        r"rwb_.*", r"rq_wait_.*", r"(?:add|extract|mix|credit|crng|_mix|fast)_.*(?:random|pool|mix"
        r"|entropy|init).*", r"blake2s_.*", r"_*get_random.*", r"chacha_.*", r"jiffies_.*",
        r"_*(?:u|n|m)?secs_to_jiffies", r"blk_(?:cgroup|cgrp)_.*", r"__cgroup_rstat_.*",
        r"cgroup_rstat_.*", r"timestamp_.*", r"inode_needs_.*", r"atime_needs_update",
        r"touch_atime", r"coarse_.*", r"blk_update_.*stat.*", r"blk_mq_sched_.*_stat")),
    (SCHED, (
        r"schedule.*", r"__schedule", r"try_to_wake_up", r"wake_.*", r"_*wake_up.*", r"ttwu_.*",
        r"(?:en|de)queue_(?:task|entity).*", r"update_(?:curr|load_avg|rq_clock|min_vruntime).*",
        r"__update_load_avg.*", r"pick_.*_task.*", r"put_prev_.*", r"set_next_.*", r"psi_.*",
        r"record_times", r"__switch_to.*", r"finish_task_switch.*", r"_*queue_work.*",
        r"process_one_work", r"worker_.*", r"insert_work", r"pwq_.*", r"kick_process",
        r"resched_.*", r"check_preempt.*", r"prepare_to_wait.*", r"finish_wait", r"io_schedule.*",
        r"_*wait_for_comm.*", r"complete(?:_all)?", r"wait_for_completion.*", r"cpuacct_.*",
        r"select_task_.*", r"newidle_.*", r"load_balance", r"_*task_rq_lock",
        r"(?:set|check|place|reweight)_.*(?:entity|buddy|spread|preempt).*",
        r"available_idle_cpu", r"llist_.*", r"autoremove_.*", r"swake_.*", r"__cond_resched.*")),
    (BLOCK, (
        r"_*io_.*", r"_*__?(?:do|ia32|x64|se)_sys_io_uring.*", r"handle_tw_list", r"tctx_task_.*",
        r"_*blk.*", r"_*bio_.*", r"_*bdev.*", r"_*submit_bio.*", r"_*iov_iter.*", r"iomap_.*",
        r"_*sbitmap.*", r"_*get_user_pages.*", r"internal_get_user_.*", r"gup_.*",
        r"lockless_pages.*", r"try_grab_.*", r"_*unpin_user.*", r"pin_user_.*", r"folio_.*",
        r"_*set_page_dirty.*", r"page_.*", r"_*put_page.*", r"_*rq_.*", r"_*fget.*", r"fput.*",
        r"rw_verify_.*", r"security_.*", r"apparmor_.*", r"task_work_.*", r"_*disk_.*",
        r"update_hiwater.*", r"kiocb_.*", r"_*percpu_ref.*", r"_*elv_.*", r"dd_.*",
        r"__get_task_ioprio", r"get_current_ioprio", r"_*gup.*", r"should_fail_.*",
        r"_*find_.*_bit.*", r"_*find_(?:first|next).*", r"end_bio_.*", r"_*dio_.*",
        r"fs_.*", r"_*generic_.*", r"file_.*", r"vfs_.*", r"p[um]d_.*", r"_*user_.*",
        r"import_.*", r"_*x64_sys_.*", r"_*do_sys.*", r"sg_(?:alloc|free|init|next|chain).*",
        r"_*sg_.*", r"_*dma_.*", r"need_.*", r"is_vmalloc.*", r"flush_(?:plug|busy).*",
        r"_*alloc_req.*", r"update_io_.*", r"get_max_.*", r"init_request.*", r"_*req_.*",
        r"kernel_fpu_.*", r"_*list_(?:add|del)_.*", r"inode_.*", r"ioprio_.*", r"_*bvec_.*",
        r"put_unused_.*", r"_*fsnotify.*", r"cap_.*", r"capable.*", r"ns_capable.*", r"pud_huge",
        r"try_get_.*", r"mark_page_.*", r"undo_dev_.*", r"_*pagevec.*", r"bsg_.*",
        r"sync_.*", r"mod_timer.*", r"round_jiffies.*", r"add_timer.*", r"_*mod_timer")),
    (ENTRY, (
        r"asm_.*", r"entry_.*", r"syscall_.*", r"do_syscall_.*", r"_*sysvec_.*", r"irq.*",
        r"_*irq.*", r"error_(?:entry|return)", r"paranoid_.*", r"_*hrtimer_.*", r"tick_.*",
        r"timerqueue_.*", r"_*do_softirq.*", r"handle_softirqs", r"run_timer_.*", r"rb_.*",
        r"update_process_times", r"run_.*", r"task_tick_.*", r"scheduler_tick", r"sched_tick",
        r"_*exit_to_user.*", r"exit_to_.*", r"common_interrupt.*", r"lapic_.*", r"_*apic_.*",
        r"native_.*", r"update_wall_.*", r"timekeeping_.*", r"exc_.*", r"_*do_page_fault",
        r"clockevents_.*", r"restore_regs_.*", r"swapgs_.*", r"account_.*", r"_*raise_softirq.*",
        r"trigger_.*", r"_*run_timers.*", r"expire_timers", r"calc_.*", r"cgroup_.*",
        r"fpregs_.*", r"switch_fpu.*", r"perf_.*", r"common_irq.*", r"enter_from_.*",
        r"_*x86_.*", r"x64_sys_.*", r"sync_regs", r"profile_.*", r"posix_.*", r"arch_.*",
        r"ret_from_.*", r"call_timer_.*", r"_*timer_.*", r"detach_if_.*", r"lock_timer_.*",
        r"get_nohz_.*", r"enqueue_(?:timer|hrtimer).*", r"_*remove_hrtimer", r"update_vsyscall.*",
        r"raise_.*", r"vmstat_.*", r"should_.*", r"intel_.*", r"update_.*")),
)]

# What only the SCSI mid-layer calls, though it lives in the kernel proper.
_SCSI = re.compile(r"(?:scsi_.*|sd_.*|__?blk_rq_map_sg|sbitmap_(?:get|put)|sg_(?:alloc|free)_.*"
                   r"|blk_rq_map_sg|sg_pool_.*|_*sg_init_.*)$")


def group(function: Function) -> str:
    """The group a function is counted in."""
    if function == USER:
        return USERLAND
    if function.module in LLD_MODULES:
        return LLD
    if function.module in SCSI_MODULES or _SCSI.match(function.name):
        return SCSI
    for name, pattern in _CORE:
        if pattern.match(function.name):
            return name
    return OTHER


def split(insns: Counter) -> dict[str, float]:
    """Instructions by group; every group is there, in order."""
    result = dict.fromkeys(ORDER, 0.0)
    for function, value in insns.items():
        result[group(function)] += value
    return result
