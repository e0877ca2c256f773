# SPDX-License-Identifier: GPL-2.0
"""Checks that each line of code that a litmus test in tests/proof quotes exists, and that each
barrier that BARRIER matches has a litmus test, or a reason in this file why it needs none.
"tools/check --only proof" runs the litmus tests with herd7."""

import re
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/proof"))

import litmus  # noqa: E402

TESTS = {one.name: one for one in litmus.everything()}

BARRIER = re.compile(
    r"\bsmp_(?:mb|rmb|wmb|acquire)\w*\(|\b\w+_(?:acquire|release)\(|\bsynchronize_rcu\(|"
    r"\b(?:call_rcu|queue_rcu_work|rcu_assign_pointer)\(|"
    r"\b(?:xchg|cmpxchg|atomic\w*_xchg|atomic\w*_cmpxchg|atomic_fetch_\w+)\(")
# Names that BARRIER matches although they are not barriers.
NAMES = re.compile(r"\bsmqsg_\w+\(|\b\w+_release\((?:struct|fd|file)|\blio_\w+\(|\bram_release\(|"
                   r"\bvs_release\(|\w+_regions\(|device_release_driver\(|\bbdev_release\(|"
                   r"\bsmq_cmd_own\(")
# Places that need no litmus test, with the reason.
WITHOUT = {
    ("drivers/conv/attach.c", "conv_attach_quiesce"): "waits for readers, then memory is freed",
    ("drivers/conv/attach.c", "conv_attach_unlist"): "waits for readers, then memory is freed",
    ("drivers/core/attached.c", "smq_attached_free_lun"): "waits for readers, then memory is freed",
    ("drivers/core/attached_list.c", "smq_attached_unlist"):
        "waits for readers, then memory is freed",
    ("drivers/core/attached.c", "smq_attached_end_faults"): "the state is checked again under the "
                                                            "lock",
    ("drivers/core/attached.c", "smq_attached_used_again"): "what follows depends on the state",
    ("drivers/core/attached.c", "smq_attached_check_one"): "the state is changed under the lock",
    ("drivers/core/attached.c", "smq_attached_settle_lun"): "the state is changed under the lock",
    ("drivers/core/attached.c", "smq_attached_settle"): "what the next user of the tag writes "
                                                        "depends on the state",
    ("drivers/core/attached.c", "smq_attached_taken"): "what the next user of the tag writes "
                                                       "depends on the state",
    ("drivers/core/depth.h", "smq_depth_get"): "a count; related data has its own barrier",
    ("drivers/core/depth.c", "smq_depth_lower"): "waits for RCU sections of the block layer",
    ("drivers/core/fault.c", "smq_fault_take_back"): "the state is checked again under the lock",
    ("drivers/core/fault.c", "smq_fault_count_down"): "a count; no other data depends on it",
    ("drivers/core/fault.c", "smq_fault_uncount"): "a count; no other data depends on it",
    ("drivers/core/fault_set.c", "smq_fault_store_kind"): "a count; no other data depends on it",
    ("drivers/core/stats.c", "smq_sum_hwq"): "statistics; no other data depends on them",
    ("drivers/ram/device.c", "ram_book_link"): "a time; no other data depends on it",
    ("include/smq/straight.h", "smq_straight_run_others"):
        "a count; who sets it to 0 runs the queue",
    ("drivers/sg/depth.c", "smqsg_reserve_some"): "a count; related data has its own barrier",
    ("drivers/sg/owner.c", "smqsg_lock_pages"): "a count; no other data depends on it",
    ("drivers/sg/order.c", "smqsg_order_enter"): "a count; no other data depends on it",
    ("drivers/sg/order.c", "smqsg_order_holds_back"): "pairs with an exchange of the number",
    ("drivers/sg/order.c", "smqsg_order_mark"): "pairs with prepare_to_wait(): see waitqueue.h",
    ("drivers/sg/order.c", "smqsg_order_number"): "an address; who reads the memory depends on it",
    ("drivers/sg/count.c", "smqsg_inflight_own"): "orders two sums, of which one may be too high",
    ("drivers/sg/straight.c", "smqsg_straight_exit"): "waits for readers, then memory is freed",
    ("drivers/sg/slot.h", "smqsg_slot_try"): "a lock of one byte",
    ("drivers/sg/slot.h", "smqsg_slot_give_back"): "a lock of one byte",
}


def functions(source):
    """Each line of a file, with the name of its function."""
    name, found = "", []
    for line in source.split("\n"):
        begins = (re.match(r"(?:static )?SMQ_END_IO\((\w+)", line) or
                  re.match(r"[a-z#][^;=]*?\b(\w+)\(", line))
        if begins and not line.startswith(("#if", "#e")):
            name = begins[1] if not line.startswith("#define") else line.split()[1].split("(")[0]
        found.append((name, line))
    return found


def barriers():
    """Each barrier in our code: (file, function, operation)."""
    for path in sorted([*(TOP / "drivers").rglob("*.[ch]"), *(TOP / "include").rglob("*.h")]):
        in_comment = False
        for name, line in functions(path.read_text(encoding="utf-8")):
            in_comment = in_comment or "/*" in line
            if not in_comment:
                for found in BARRIER.finditer(NAMES.sub("", line)):
                    yield str(path.relative_to(TOP)), name, found[0]
            in_comment = in_comment and "*/" not in line


@pytest.mark.parametrize("name", TESTS)
def test_litmus_tests_quote_existing_code(name):
    for code in TESTS[name].code:
        assert code.text in litmus.body(code.path, code.function), code


@pytest.mark.parametrize("name", TESTS)
def test_each_weakening_changes_the_litmus_test(name):
    one = TESTS[name]
    for weak in one.weak:
        assert one.weakened(weak) != one.text


def test_each_barrier_has_a_test_or_a_reason():
    named = {(code.path, code.function, code.text) for one in TESTS.values() for code in one.code}
    missing = [f"{path}: {function}(): {operation}" for path, function, operation in barriers()
               if (path, function) not in WITHOUT and not any(
                   (path, function) == (where, what) and operation in text
                   for where, what, text in named)]
    assert not missing, "\n".join(missing)


def test_reasons_name_existing_code():
    there = {(path, function) for path, function, _ in barriers()}
    assert set(WITHOUT) <= there
