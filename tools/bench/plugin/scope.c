// SPDX-License-Identifier: GPL-2.0
#include "scope.h"
#include "symbols.h"

static enum account current(const struct scope *scope)
{
	return scope->depth ? scope->frame[scope->depth - 1].account :
			      ACCOUNT_OTHER;
}

static void push(struct scope *scope, uint64_t ret, enum account account)
{
	/* No kernel stack is that deep: the shadow stack is wrong, so begin a new one. */
	if (scope->depth == SCOPE_DEPTH)
		scope->depth = 0;
	scope->frame[scope->depth].ret = ret;
	scope->frame[scope->depth].last = NULL;
	scope->frame[scope->depth].account = account;
	scope->depth++;
}

/* Frames of functions that the interrupt handler calls have account IRQ, too, but no .last. */
static bool is_irq_entry(const struct frame *frame)
{
	return frame->account == ACCOUNT_IRQ && frame->last;
}

static void pop_ret(struct scope *scope, uint64_t va)
{
	unsigned int i = scope->depth;

	while (i && !is_irq_entry(&scope->frame[i - 1])) {
		if (scope->frame[--i].ret == va)
			break;
	}
	/* If no frame has this address, the function was called before the run began. */
	scope->depth = i;
}

static void pop_irq(struct scope *scope)
{
	unsigned int i = scope->depth;

	while (i && !is_irq_entry(&scope->frame[i - 1]))
		i--;
	if (i) {
		scope->last = scope->frame[i - 1].last;
		scope->depth = i - 1;
	} else {
		scope_reset(scope);
	}
}

static void set(struct scope *scope, enum account account)
{
	if (!scope->depth)
		push(scope, 0, account);
	else
		scope->frame[scope->depth - 1].account = account;
}

void scope_reset(struct scope *scope)
{
	scope->depth = 0;
	scope->last = NULL;
}

static bool is_within(const struct block *block, uint64_t va)
{
	return va >= block->va && va < block->end_va;
}

enum account scope_step(struct scope *scope, const struct block *block)
{
	if (block->role & (ROLE_USER | ROLE_RESET)) {
		scope_reset(scope);
		scope->last = block;
		return ACCOUNT_OTHER;
	}
	while (scope->last && scope->last->end == END_IRET) {
		pop_irq(scope);
		/* A fault interrupts a block, which then starts again. */
		if (scope->last && is_within(scope->last, block->va))
			scope->last = NULL;
	}
	if (block->role & ROLE_IRQ) {
		/* .last has already ended; the handler returns to the block that follows it */
		push(scope, 0, ACCOUNT_IRQ);
		scope->frame[scope->depth - 1].last =
			scope->last ? scope->last : block;
		scope->last = block;
		return ACCOUNT_IRQ;
	}
	if (scope->last && scope->last->end == END_CALL)
		push(scope, scope->last->end_va, current(scope));
	else if (scope->last && scope->last->end == END_RET)
		pop_ret(scope, block->va);
	scope->last = block;

	/* A tail call adds no frame: it may change the account of the current one. */
	if ((block->role & ROLE_OWN) && current(scope) != ACCOUNT_OWN)
		set(scope, ACCOUNT_OWN);
	else if ((block->role & ROLE_LEAVE) && current(scope) == ACCOUNT_OWN)
		set(scope, ACCOUNT_AWAY);
	return current(scope);
}

void tally_reset(struct tally *tally)
{
	tally->insns = 0;
	tally->own_insns = 0;
	tally->irq_insns = 0;
	scope_reset(&tally->scope);
}
