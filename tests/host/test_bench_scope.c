// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the bench's shadow call stack for each way in which the kernel enters and leaves our
 * modules. Built and run by test_bench_scope.py.
 */
#include <stdio.h>

#include "../../tools/bench/plugin/scope.h"
#include "../../tools/bench/plugin/symbols.h"

static struct scope scope;
static unsigned int failures;

/* An address stands for a function. A block ends 0x10 after its start. */
#define BLOCK(addr, how, what)						\
	(&(struct block) { .va = (addr), .end_va = (addr) + 0x10,	\
			   .end = (how), .role = (what) })

#define MID_LAYER	0x1000
#define MID_LAYER_2	0x1010	/* where its call returns */
#define WRAPPER		0x1800
#define OWN		0x2000
#define OWN_2		0x2010
#define OWN_3		0x2020
#define OWN_HELPER	0x2800
#define OWN_HELPER_2	0x2810
#define LIBRARY		0x3000
#define DONE		0x4000
#define DONE_2		0x4010
#define IRQ		0x5000
#define HANDLER		0x5800
#define USER		0x10

static void expect_at(int line, const struct block *block, enum account want)
{
	enum account is = scope_step(&scope, block);

	if (is == want)
		return;
	failures++;
	printf("line %d: block %#lx on account %d, expected %d\n", line,
	       (unsigned long)block->va, is, want);
}

#define expect(want, addr, how, what)					\
	expect_at(__LINE__, BLOCK(addr, how, what), ACCOUNT_ ## want)

static void calls_and_returns(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(OWN, LIBRARY, END_RET, 0);
	expect(OWN, OWN_2, END_CALL, ROLE_OWN);
	expect(AWAY, DONE, END_RET, ROLE_LEAVE);
	expect(OWN, OWN_3, END_RET, ROLE_OWN);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

static void completion_by_tail_call(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_OTHER, ROLE_OWN);
	expect(AWAY, DONE, END_CALL, ROLE_LEAVE);
	expect(AWAY, LIBRARY, END_RET, 0);
	expect(AWAY, DONE_2, END_RET, 0);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

static void helper_completes_by_tail_call(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(OWN, OWN_HELPER, END_OTHER, ROLE_OWN);
	expect(AWAY, DONE, END_RET, ROLE_LEAVE);
	expect(OWN, OWN_2, END_RET, ROLE_OWN);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

static void entered_by_tail_call(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OTHER, WRAPPER, END_OTHER, 0);
	expect(OWN, OWN, END_RET, ROLE_OWN);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

/* The completion runs the queue, which calls our module with the next command. */
static void nested(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(AWAY, DONE, END_CALL, ROLE_LEAVE);
	expect(OWN, OWN, END_OTHER, ROLE_OWN);
	expect(OWN, OWN_3, END_RET, ROLE_OWN);
	expect(AWAY, DONE_2, END_RET, 0);
	expect(OWN, OWN_2, END_RET, ROLE_OWN);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

static void interrupted(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	/* between our call and its callee */
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(IRQ, IRQ, END_CALL, ROLE_IRQ);
	expect(IRQ, HANDLER, END_RET, 0);
	expect(IRQ, IRQ + 0x10, END_IRET, 0);
	expect(OWN, LIBRARY, END_RET, 0);
	/* between our return and its caller */
	expect(OWN, OWN_2, END_RET, ROLE_OWN);
	expect(IRQ, IRQ, END_CALL, ROLE_IRQ);
	/* in the interrupt our handler completes another command */
	expect(OWN, OWN_HELPER, END_CALL, ROLE_OWN);
	expect(AWAY, DONE, END_RET, ROLE_LEAVE);
	expect(OWN, OWN_HELPER_2, END_RET, ROLE_OWN);
	expect(IRQ, IRQ + 0x10, END_IRET, 0);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

/* A fault occurs in the middle of a block, so the end of the block does not run. */
static void faulted(void)
{
	scope_reset(&scope);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(OWN, LIBRARY, END_RET, 0);
	expect(IRQ, IRQ, END_IRET, ROLE_IRQ);
	expect(OWN, LIBRARY + 8, END_RET, 0);
	expect(OWN, OWN_2, END_RET, ROLE_OWN);
	expect(OTHER, MID_LAYER_2, END_OTHER, 0);
}

static void user_space_and_switches_empty_the_stack(void)
{
	scope_reset(&scope);
	expect(OWN, OWN, END_OTHER, ROLE_OWN);
	expect(OTHER, USER, END_CALL, ROLE_USER);
	expect(OTHER, MID_LAYER, END_CALL, 0);
	expect(OWN, OWN, END_CALL, ROLE_OWN);
	expect(OTHER, LIBRARY, END_OTHER, ROLE_RESET);
	expect(OTHER, MID_LAYER, END_OTHER, 0);
}

static void endless_calls(void)
{
	const struct block *block = BLOCK(MID_LAYER, END_CALL, 0);
	unsigned int i;

	scope_reset(&scope);
	for (i = 0; i < 10 * SCOPE_DEPTH; i++)
		scope_step(&scope, block);
	if (scope.depth > SCOPE_DEPTH) {
		failures++;
		printf("%u frames on a stack of %d\n", scope.depth,
		       SCOPE_DEPTH);
	}
}

int main(void)
{
	calls_and_returns();
	completion_by_tail_call();
	helper_completes_by_tail_call();
	entered_by_tail_call();
	nested();
	interrupted();
	faulted();
	user_space_and_switches_empty_the_stack();
	endless_calls();
	return failures ? 1 : 0;
}
