/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Runs a few threads of plain C through every interleaving of their steps. A step is an atomic
 * operation, or code that the program marks as a step. The explorer is for the state machines of
 * drivers/policy and drivers/core. A program includes their headers after this one, because this
 * file defines functions with the names of the kernel's atomic operations.
 *
 * A thread runs alone until it begins its next step. The explorer tries all orders of
 * steps. If two orders lead to the same state, it continues only one of them. A state is the memory
 * that the threads share, and the stack and registers of each thread. States are compared by a hash
 * of 64 bits.
 *
 * All threads see the steps in the same order (sequential consistency), so the explorer does not
 * find missing barriers.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>

#define EXPLORE_THREADS	10

/**
 * struct explore_thread - one thread
 * @run: its function. It accesses shared memory only in steps, and begins with a step. It uses no
 *	static variables, and only pointers to memory that stays in place
 * @arg: argument of @run
 * @idle: it need not end: an order of steps may end while it is in explore_wait()
 */
struct explore_thread {
	void (*run)(int arg);
	int arg;
	bool idle;
};

/**
 * struct explore - an exploration
 * @shared: all memory that the threads share. Its padding must be zero. It stays in place, and may
 *	point into itself and into the threads' stacks
 * @size: its size in bytes
 * @begin: initialises the shared memory, which is zeroed; optional
 * @forget: clears, in a copy of the shared memory, fields on which later steps do not depend.
 *	States that differ only in these fields count as one; optional
 * @end: checks the shared memory when all threads have ended or wait for ever; optional
 * @threads: the threads
 * @nr: how many threads there are
 * @states: how many states were found; set by explore()
 * @steps: how many steps were taken; set by explore()
 */
struct explore {
	void *shared;
	size_t size;
	void (*begin)(void);
	void (*forget)(void *copy);
	void (*end)(void);
	struct explore_thread threads[EXPLORE_THREADS];
	int nr;
	unsigned long states;
	unsigned long steps;
};

/* Explores. If a promise is broken, prints the steps that led there, and exits. */
void explore(struct explore *what);

/* In a thread: the next step begins. @what: the step's name, which explore_fail() prints. */
void explore_step(const char *what);
/* In a thread: the next step begins, once @ready(@arg) returns true. */
void explore_wait(bool (*ready)(long arg), long arg, const char *what);
/* In a thread: the next call of explore_step() begins no new step. */
void explore_join(void);
/* In a thread: undoes explore_join(). */
void explore_unjoin(void);
/* The number of the thread that runs. */
int explore_self(void);
/* A promise was broken: prints the steps that led there, and exits. */
void explore_fail(const char *what) __attribute__((noreturn));

#define EXPLORE_EXPECT(cond)	((cond) ? (void)0 : explore_fail(#cond))

typedef struct {
	int counter;
} atomic_t;

/* The kernel's atomic operations: each is one step. */
static inline int atomic_read(const atomic_t *v)
{
	explore_step("atomic_read");
	return v->counter;
}

static inline int atomic_xchg(atomic_t *v, int new)
{
	int old;

	explore_step("atomic_xchg");
	old = v->counter;
	v->counter = new;
	return old;
}

static inline int atomic_cmpxchg(atomic_t *v, int cur, int new)
{
	int old;

	explore_step("atomic_cmpxchg");
	old = v->counter;
	if (old == cur)
		v->counter = new;
	return old;
}

static inline int atomic_fetch_or(int bits, atomic_t *v)
{
	int old;

	explore_step("atomic_fetch_or");
	old = v->counter;
	v->counter |= bits;
	return old;
}

static inline int atomic_fetch_andnot(int bits, atomic_t *v)
{
	int old;

	explore_step("atomic_fetch_andnot");
	old = v->counter;
	v->counter &= ~bits;
	return old;
}

static inline int atomic_fetch_add(int add, atomic_t *v)
{
	int old;

	explore_step("atomic_fetch_add");
	old = v->counter;
	v->counter += add;
	return old;
}

static inline void atomic_or(int bits, atomic_t *v)
{
	explore_step("atomic_or");
	v->counter |= bits;
}

static inline int atomic_add_return(int add, atomic_t *v)
{
	return atomic_fetch_add(add, v) + add;
}

static inline void atomic_add(int add, atomic_t *v)
{
	explore_step("atomic_add");
	v->counter += add;
}

static inline void atomic_sub(int sub, atomic_t *v)
{
	explore_step("atomic_sub");
	v->counter -= sub;
}

static inline void atomic_set(atomic_t *v, int value)
{
	explore_step("atomic_set");
	v->counter = value;
}

static inline void atomic_inc(atomic_t *v)
{
	explore_step("atomic_inc");
	v->counter++;
}

static inline void atomic_dec(atomic_t *v)
{
	explore_step("atomic_dec");
	v->counter--;
}

static inline int atomic_inc_return(atomic_t *v)
{
	return atomic_fetch_add(1, v) + 1;
}

static inline int atomic_dec_return(atomic_t *v)
{
	return atomic_fetch_add(-1, v) - 1;
}

static inline bool atomic_try_cmpxchg(atomic_t *v, int *cur, int new)
{
	int old = atomic_cmpxchg(v, *cur, new);
	bool done = old == *cur;

	*cur = old;
	return done;
}

/* Has no effect: all threads see the steps in the same order. */
static inline void smp_mb(void)
{
}

#endif /* EXPLORE_H */
