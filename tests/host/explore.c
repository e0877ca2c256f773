// SPDX-License-Identifier: GPL-2.0
/*
 * Implements explore.h by a depth-first search. Threads are contexts that the scheduler switches by
 * _setjmp() and _longjmp(). Where several threads can take the next step, the explorer copies
 * memory, stacks and registers. It restores them before it tries the next of these threads.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "explore.h"

#define STACK		65536
/* A paused thread uses at most this much of its stack. */
#define STACK_USED	2048
#define MOST_STEPS	1000

/**
 * struct worker - the state of a thread
 * @stack: its stack
 * @start: registers of its first frame
 * @next: registers with which it continues
 * @low: the lowest address of its stack that is in use while it is paused
 * @hash: hash of its stack and registers; 0: to be computed, because they have changed
 * @step: name of the step that it takes next
 * @ready: called with @arg, returns whether it can take that step; NULL if it always can
 * @joins: its next step is part of the present one
 * @begun: it has entered the function that it runs
 * @done: that function has returned
 */
struct worker {
	char *stack;
	jmp_buf start;
	jmp_buf next;
	char *low;
	unsigned long long hash;
	const char *step;
	bool (*ready)(long arg);
	long arg;
	bool joins;
	bool begun;
	bool done;
};

static struct worker workers[EXPLORE_THREADS];

/**
 * struct node - a step on the path that is being tried
 * @thread: the thread that took the step
 * @others: threads that could take a step instead and have not been tried, a bit each
 * @step: name of the step
 * @shared: copy of the shared memory. It, @workers and @stacks are filled in only if another thread
 *	could have taken a step instead
 * @workers: copy of the threads' state
 * @stacks: copy of their stacks, as far as they are in use
 */
static struct node {
	int thread;
	unsigned int others;
	const char *step;
	char *shared;
	struct worker workers[EXPLORE_THREADS];
	char stacks[EXPLORE_THREADS][STACK_USED];
} path[MOST_STEPS];

/* The present exploration. */
static struct explore *it;
static jmp_buf scheduler;
static int self = -1;
static int depth;
/* A copy of the shared memory, for hashing. */
static char *copy;

/* Hash table of the states that were reached: open addressing, 0 is a free place. */
static unsigned long long *known;
static size_t known_size, known_nr;

static void *allocate(size_t size)
{
	void *area = calloc(1, size);

	if (!area) {
		fprintf(stderr, "no memory for %zu bytes\n", size);
		exit(2);
	}
	return area;
}

static unsigned long long mix(unsigned long long hash, unsigned long long value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static unsigned long long hash_bytes(unsigned long long hash, const char *bytes, size_t size)
{
	unsigned long long word;
	size_t i;

	for (i = 0; i + sizeof(word) <= size; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = mix(hash, word);
	}
	word = size;
	memcpy(&word, bytes + i, size - i);
	return mix(mix(hash, word), size);
}

static unsigned long long *known_place(unsigned long long hash)
{
	size_t i = hash & (known_size - 1);

	while (known[i] && known[i] != hash)
		i = (i + 1) & (known_size - 1);
	return &known[i];
}

static void known_grow(void)
{
	unsigned long long *old = known;
	size_t size = known_size, i;

	known_size = size ? 2 * size : 1 << 16;
	known = allocate(known_size * sizeof(*known));
	for (i = 0; i < size; i++) {
		if (old[i])
			*known_place(old[i]) = old[i];
	}
	free(old);
}

/*
 * Returns the hash of a paused thread's state: its stack, with the variables of all functions that
 * it is in, the callee-saved registers, and what it waits for. These may include values that are no
 * longer used: then one state counts as two.
 */
static unsigned long long hash_thread(const struct worker *w)
{
	unsigned long long hash = hash_bytes(1, w->low, w->stack + STACK - w->low);

	hash = hash_bytes(hash, (const char *)w->next->__jmpbuf, sizeof(w->next->__jmpbuf));
	hash = hash_bytes(hash, (const char *)&w->ready, sizeof(w->ready));
	return hash_bytes(hash, (const char *)&w->arg, sizeof(w->arg)) | 1;
}

/* Returns whether the present state is new, and notes it as known. */
static bool state_is_new(void)
{
	unsigned long long hash, *place;
	int i;

	memcpy(copy, it->shared, it->size);
	if (it->forget)
		it->forget(copy);
	hash = hash_bytes(1, copy, it->size);
	for (i = 0; i < it->nr; i++) {
		struct worker *w = &workers[i];

		if (!w->done && !w->hash)
			w->hash = hash_thread(w);
		hash = mix(hash, w->done ? 0 : w->hash);
	}
	hash += !hash;

	if (2 * known_nr >= known_size)
		known_grow();
	place = known_place(hash);
	if (*place)
		return false;
	*place = hash;
	known_nr++;
	return true;
}

int explore_self(void)
{
	return self;
}

void explore_fail(const char *what)
{
	int i;

	printf("%s, after these steps:\n", what);
	for (i = 0; i < depth; i++)
		printf("  thread %d  %s\n", path[i].thread, path[i].step);
	exit(1);
}

/* Returns to the scheduler, which chooses the thread that takes the next step. */
static __attribute__((noinline)) void pause_for(const char *what)
{
	struct worker *w = &workers[self];
	unsigned long long low[2] __attribute__((aligned(16))) = { 0 };

	w->step = what;
	/* The registers that this function has saved lie above its variables. */
	w->low = (char *)low;
	w->hash = 0;
	if (w->stack + STACK - w->low > STACK_USED)
		explore_fail("a thread uses more stack than is copied");
	if (!_setjmp(w->next))
		_longjmp(scheduler, 1);
}

void explore_step(const char *what)
{
	bool joins = workers[self].joins;

	workers[self].joins = false;
	workers[self].ready = NULL;
	if (!joins)
		pause_for(what);
}

void explore_join(void)
{
	workers[self].joins = true;
}

void explore_unjoin(void)
{
	workers[self].joins = false;
}

void explore_wait(bool (*ready)(long arg), long arg, const char *what)
{
	workers[self].joins = false;
	workers[self].ready = ready;
	workers[self].arg = arg;
	pause_for(what);
}

/* The first frame of a thread. It stays on the stack, so the thread can begin again from here. */
static void thread_main(void)
{
	if (!_setjmp(workers[self].start))
		_longjmp(scheduler, 1);
	it->threads[self].run(it->threads[self].arg);
	workers[self].done = true;
	_longjmp(scheduler, 1);
}

static void thread_create(int i)
{
	static ucontext_t context;

	workers[i].stack = allocate(STACK);
	workers[i].low = workers[i].stack + STACK;
	getcontext(&context);
	context.uc_stack.ss_sp = workers[i].stack;
	context.uc_stack.ss_size = STACK;
	makecontext(&context, thread_main, 0);
	self = i;
	if (!_setjmp(scheduler))
		setcontext(&context);
}

/* Runs a thread until it pauses before its next step, or ends. */
static void thread_run(int i)
{
	struct worker *w = &workers[i];

	self = i;
	if (_setjmp(scheduler))
		return;
	if (w->begun)
		_longjmp(w->next, 1);
	w->begun = true;
	_longjmp(w->start, 1);
}

static unsigned int threads_that_can(void)
{
	unsigned int mask = 0;
	int i;

	for (i = 0; i < it->nr; i++) {
		const struct worker *w = &workers[i];

		if (!w->done && (!w->ready || w->ready(w->arg)))
			mask |= 1U << i;
	}
	return mask;
}

static void save(struct node *node)
{
	int i;

	if (!node->shared)
		node->shared = allocate(it->size);
	memcpy(node->shared, it->shared, it->size);
	memcpy(node->workers, workers, sizeof(workers));
	for (i = 0; i < it->nr; i++)
		memcpy(node->stacks[i], workers[i].low, workers[i].stack + STACK - workers[i].low);
}

static void restore(const struct node *node)
{
	int i;

	memcpy(it->shared, node->shared, it->size);
	memcpy(workers, node->workers, sizeof(workers));
	for (i = 0; i < it->nr; i++)
		memcpy(workers[i].low, node->stacks[i], workers[i].stack + STACK - workers[i].low);
}

/* Runs each thread up to its first step. Before that a thread does not access shared memory. */
static void begin(void)
{
	int i;

	memset(it->shared, 0, it->size);
	if (it->begin)
		it->begin();
	for (i = 0; i < it->nr; i++) {
		if (!workers[i].stack)
			thread_create(i);
		workers[i].joins = false;
		workers[i].begun = false;
		workers[i].done = false;
		thread_run(i);
	}
}

/* Lets one of the threads in @can take the next step. The others are tried after this path. */
static void take_step(unsigned int can)
{
	struct node *node = &path[depth++];

	node->thread = __builtin_ctz(can);
	node->others = can & (can - 1);
	node->step = workers[node->thread].step;
	it->steps++;
	thread_run(node->thread);
}

static void check_end(void)
{
	int i;

	for (i = 0; i < it->nr; i++) {
		if (!workers[i].done && !it->threads[i].idle)
			explore_fail("a thread waits for ever");
	}
	if (it->end)
		it->end();
}

/* Takes steps until no thread can take one, or a known state is reached. */
static void follow_path(void)
{
	unsigned int can;

	while (state_is_new()) {
		can = threads_that_can();
		if (!can) {
			check_end();
			return;
		}
		if (depth == MOST_STEPS)
			explore_fail("the path has too many steps");
		if (can & (can - 1))
			save(&path[depth]);
		take_step(can);
	}
}

/* Runs on a separate stack, because the thread's stack may have overflowed. */
static void fault(int number)
{
	explore_fail(number == SIGFPE ? "division by zero" : "access to unmapped memory");
}

static void catch_faults(void)
{
	struct sigaction action = { .sa_handler = fault, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = allocate(STACK), .ss_size = STACK };

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
}

void explore(struct explore *what)
{
	int i;

	it = what;
	catch_faults();
	it->steps = 0;
	copy = allocate(it->size);
	known_nr = 0;
	known_size = 0;
	known_grow();
	for (i = 0; i < MOST_STEPS; i++) {
		free(path[i].shared);
		path[i].shared = NULL;
	}
	depth = 0;
	begin();
	follow_path();
	while (depth) {
		const struct node *node = &path[--depth];

		if (!node->others)
			continue;
		restore(node);
		take_step(node->others);
		follow_path();
	}
	it->states = known_nr;
	free(copy);
	free(known);
	known = NULL;
}
