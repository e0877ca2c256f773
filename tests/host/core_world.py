# SPDX-License-Identifier: GPL-2.0
"""core_world.c with the functions and types of the layer and of steer."""

from world import World

OBJECTS, POLICY = "include/smq/objects.h", "include/smq/policy.h"
TEMPLATE, LLD = "include/smq/lld_template.h", "include/smq/lld.h"
CORE = "drivers/core/"
STEER = "drivers/policy/steer.c"

TYPES = {
    OBJECTS: ["enum smq_status", "enum smq_cmd_state", "struct smq_cmd", "struct smq_hwq",
              "struct smq_host"],
    POLICY: ["struct smq_policy_ops", "struct smq_policy_hwq", "struct smq_policy_lun",
             "struct smq_policy_cmd", "struct smq_policy", "struct smq_hold"],
    CORE + "depth.h": ["struct smq_depth"],
    CORE + "policy_move.h": ["struct smq_hwq_move"],
    STEER: ["struct steer_knobs", "struct steer_hwq", "struct steer_cmd"],
    CORE + "eh.c": ["struct smq_reset"],
    CORE + "hold_scan.c": ["struct smq_hold_scan"],
}

FUNCTIONS = {
    OBJECTS: ["smq_cmd_enter", "smq_cmd_leave", "smq_hwq_is_full"],
    CORE + "hold.h": ["smq_cmd_in_eh"],
    CORE + "hold.c": ["smq_hold_add", "smq_hold_del", "smq_hold_take", "smq_hold_take_from",
                      "smq_hold_take_back", "smq_hold_work", "smq_hold_kick_all"],
    CORE + "depth.h": ["smq_depth_now", "smq_depth_has_waiting", "smq_depth_get", "smq_depth_put",
                       "smq_depth_lacked"],
    CORE + "depth.c": ["smq_depth_full", "smq_depth_grow",
                       "smq_depth_good"],
    CORE + "policy_move.c": ["smq_hwq_is_open", "smq_move_home_of", "smq_move_end", "smq_move",
                             "smq_move_home", "smq_move_cpu_offline"],
    CORE + "policy_cmd.h": ["smq_seen_set", "smq_seen_begin", "smq_seen_begin_no_policy",
                            "smq_seen_end", "smq_seen_queue", "smq_seen_done",
                            "smq_host_chosen_policy", "smq_host_holds"],
    CORE + "wait.h": ["smq_wait_enter", "smq_wait_follow", "smq_wait_room"],
    CORE + "wait.c": ["smq_wait_hold_for_lun", "smq_wait_hold_for_hwq", "smq_wait_behind",
                      "smq_wait_behind_no_policy", "smq_wait_for_room", "smq_wait_enter_slow",
                      "smq_wait_issue_all", "smq_wait_grant", "smq_wait_must_drain",
                      "smq_wait_next", "smq_wait_grant_listed", "smq_wait_dispatch_lun",
                      "smq_wait_inherit", "smq_policy_room", "smq_wait_refused_one",
                      "smq_wait_refused", "smq_wait_issue", "smq_wait_hold_uncounted",
                      "smq_wait_dispatch_hwq", "smq_policy_issue", "smq_wait_full",
                      "smq_wait_leave"],
    CORE + "hold_scan.c": ["smq_wait_give_back", "smq_wait_take_from_policy", "smq_wait_drain",
                           "smq_hold_scan_at"],
    CORE + "policy_path.c": ["smq_policy_queue", "smq_policy_fall_back", "smq_policy_uncommitted",
                             "smq_policy_take_uncommitted", "smq_policy_may_hold",
                             "smq_policy_begin_refused", "smq_policy_refused", "smq_policy_full",
                             "smq_policy_done_counted", "smq_policy_done", "smq_policy_taken"],
    CORE + "cmd.c": ["smq_cmd_own", "smq_cmd_leave_ended", "smq_cmd_count_end",
                     "smq_cmd_finish", "smq_cmd_done", "smq_cmd_refused"],
    CORE + "policy_use.c": ["smq_use_commit_all"],
    CORE + "eh.c": ["smq_cmd_forget", "smq_cmd_taken", "smq_abort_cmd", "smq_reset_one",
                    "smq_block_host", "smq_reset_begin", "smq_reset_end"],
    TEMPLATE: ["smq_cmd_done_inline", "smq_cmd_end_inline", "smq_detour_commit",
               "smq_queue_detour", "smq_dispatch_list"],
    STEER: ["steer_inflight", "steer_find", "steer_away", "smq_steer_queue", "steer_judge",
            "smq_steer_done", "steer_refused"],
}

WORLD = World("core", TYPES, FUNCTIONS)
explore, holds, finds, right = WORLD.explore, WORLD.holds, WORLD.finds, WORLD.right
