/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks of unused structs, one for each CPU: a struct that was just used is in that CPU's cache.
 */
#ifndef SMQSG_STACK_H
#define SMQSG_STACK_H

#include <linux/percpu.h>
#include <linux/smp.h>

/**
 * struct smqsg_stack - unused structs of one kind on one CPU
 * @first: the first one. Each begins with the pointer to the next
 * @count: how many there are
 *
 * Used with preemption off, and never from interrupts.
 */
struct smqsg_stack {
	void *first;
	unsigned int count;
};

/* Takes a struct from this CPU's stack; NULL: there is none. Process context. */
static __always_inline void *smqsg_stack_pop(struct smqsg_stack __percpu *stacks)
{
	struct smqsg_stack *stack = get_cpu_ptr(stacks);
	void **item = stack->first;

	if (likely(item)) {
		stack->first = *item;
		stack->count--;
	}
	put_cpu_ptr(stacks);
	return item;
}

/* Puts a struct on this CPU's stack, unless that has @most already. Process context. */
static __always_inline bool smqsg_stack_push(struct smqsg_stack __percpu *stacks, void *item,
					     unsigned int most)
{
	struct smqsg_stack *stack = get_cpu_ptr(stacks);
	bool room = stack->count < most;

	if (likely(room)) {
		*(void **)item = stack->first;
		stack->first = item;
		stack->count++;
	}
	put_cpu_ptr(stacks);
	return room;
}

/* Takes a struct from any CPU's stack, when no one else uses the stacks; NULL: all are empty. */
static inline void *smqsg_stack_pop_any(struct smqsg_stack __percpu *stacks)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct smqsg_stack *stack = per_cpu_ptr(stacks, cpu);
		void **item = stack->first;

		if (!item)
			continue;
		stack->first = *item;
		return item;
	}
	return NULL;
}

#endif /* SMQSG_STACK_H */
