/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stand-ins for the kernel functions that the explored functions call and explore.h does not have.
 * cut.py takes the explored functions out of their files, unchanged. Each access by READ_ONCE() or
 * WRITE_ONCE() is a step. A thread waits for a spinlock that another thread has. A grace period
 * ends when all read-side sections that began before it have ended.
 *
 * An operation is not a step of its own if other threads cannot observe the difference: taking a
 * lock and entering a read-side section are one step with the code that follows, releasing and
 * leaving are one step with the code before. An access to memory for which explore_needs_no_step()
 * returns true is not a step either.
 *
 * An interrupt is a thread of its own, so disabling interrupts has no effect.
 */
#ifndef EXPLORE_KERNEL_H
#define EXPLORE_KERNEL_H

#include <limits.h>
#include <stddef.h>

#include "explore.h"

typedef unsigned char u8;
typedef unsigned long long u64;

#undef __always_inline
#define __always_inline	inline
#define noinline
#define likely(cond)	(cond)
#define unlikely(cond)	(cond)
#define BIT(nr)		(1U << (nr))
#define min(a, b)	((a) < (b) ? (a) : (b))
#define max(a, b)	((a) > (b) ? (a) : (b))
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))

#define container_of(ptr, type, member) \
	((type *)((char *)(ptr) - offsetof(type, member)))

/* The includer defines this: true if no other thread writes the memory, or no other reads it. */
static bool explore_needs_no_step(const void *at);

static inline void explore_access(const void *at, const char *what)
{
	if (!explore_needs_no_step(at))
		explore_step(what);
}

#define READ_ONCE(x)	(explore_access((const void *)&(x), "READ_ONCE " #x), (x))
#define WRITE_ONCE(x, value)					\
	do {							\
		__typeof__(x) __new = (value);			\
								\
		explore_access((const void *)&(x), "WRITE_ONCE " #x);	\
		(x) = __new;					\
	} while (0)

/* A read that may race with a write. It is a step like any other read. */
#define data_race(x)	READ_ONCE(x)

static inline bool explore_test_and_set_bit(unsigned int nr, unsigned long *word)
{
	bool was = *word >> nr & 1;

	*word |= 1UL << nr;
	return was;
}

static inline bool explore_test_and_clear_bit(unsigned int nr, unsigned long *word)
{
	bool was = *word >> nr & 1;

	*word &= ~(1UL << nr);
	return was;
}

#define test_and_set_bit(nr, word)						\
	(explore_access(word, "test_and_set_bit"), explore_test_and_set_bit(nr, word))
#define test_and_clear_bit(nr, word)						\
	(explore_access(word, "test_and_clear_bit"), explore_test_and_clear_bit(nr, word))
#define clear_bit(nr, word)							\
	(explore_access(word, "clear_bit"), (void)(*(word) &= ~(1UL << (nr))))

/* Barriers have no effect here; the access itself is the step. */
#define atomic_read_acquire(v)		atomic_read(v)
#define atomic_set_release(v, value)	atomic_set(v, value)
#define atomic_dec_return_release(v)	atomic_dec_return(v)
/* A step, like a plain read. */
#define smp_load_acquire(at)		READ_ONCE(*(at))
/* These barriers are not steps: all accesses are in order here. */
#define smp_mb__before_atomic()		((void)0)
/* likewise */
#define smp_mb__after_atomic()		((void)0)
#define smp_acquire__after_ctrl_dep()	((void)0)
#define cpu_relax()			((void)0)

/* Time stands still: the program's options decide whether a time limit has passed. */
#define jiffies				100UL
#define time_before(a, b)		((long)((a) - (b)) < 0)
#define time_after(a, b)		time_before(b, a)
#define time_after_eq(a, b)		(!time_before(a, b))

/* Statistics are not explored: no code depends on them. */
#define this_cpu_inc(counter)		((void)0)
#define this_cpu_dec(counter)		((void)0)
#define this_cpu_add(counter, n)	((void)(n))

/* Lists, as the kernel has them. */
struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

#define LIST_HEAD(name)	struct list_head name = { &name, &name }

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *list)
{
	return list->next == list;
}

#define list_empty_careful(list)	list_empty(list)

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	entry->next = head->next;
	entry->prev = head;
	head->next->prev = entry;
	head->next = entry;
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head->prev);
}

static inline void list_del(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
	entry->next = NULL;
	entry->prev = NULL;
}

/* The entry must be in a list. */
static inline void list_del_init(struct list_head *entry)
{
	EXPLORE_EXPECT(!list_empty(entry));
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del(entry);
	list_add_tail(entry, head);
}

#define list_is_first(entry, head)	((entry)->prev == (head))
#define list_entry(ptr, type, member)	container_of(ptr, type, member)
#define list_first_entry(head, type, member)	list_entry((head)->next, type, member)
#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))
#define list_for_each_entry(pos, head, member)					\
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member);	\
	     &(pos)->member != (head);						\
	     (pos) = list_entry((pos)->member.next, __typeof__(*(pos)), member))
#define list_for_each_entry_safe(pos, n, head, member)				\
	for ((pos) = list_entry((head)->next, __typeof__(*(pos)), member),	\
	     (n) = list_entry((pos)->member.next, __typeof__(*(pos)), member);	\
	     &(pos)->member != (head);						\
	     (pos) = (n),							\
	     (n) = list_entry((pos)->member.next, __typeof__(*(pos)), member))
#define list_for_each_entry_safe_reverse(pos, n, head, member)			\
	for ((pos) = list_entry((head)->prev, __typeof__(*(pos)), member),	\
	     (n) = list_entry((pos)->member.prev, __typeof__(*(pos)), member);	\
	     &(pos)->member != (head);						\
	     (pos) = (n),							\
	     (n) = list_entry((pos)->member.prev, __typeof__(*(pos)), member))

/* Spinlocks and mutexes. */
typedef struct {
	int owner;		/* 1 + the thread that has the lock; 0: none */
} spinlock_t;

struct mutex {
	spinlock_t lock;	/* a mutex works in the same way */
};

static inline bool explore_is_free(long lock)
{
	return !((spinlock_t *)lock)->owner;
}

static inline void spin_lock(spinlock_t *lock)
{
	explore_wait(explore_is_free, (long)lock, "spin_lock");
	lock->owner = explore_self() + 1;
	explore_join();
}

static inline void spin_unlock(spinlock_t *lock)
{
	EXPLORE_EXPECT(lock->owner == explore_self() + 1);
	lock->owner = 0;
	explore_unjoin();
}

#define spin_lock_irqsave(lock, flags)		((void)((flags) = 0), spin_lock(lock))
#define spin_unlock_irqrestore(lock, flags)	((void)(flags), spin_unlock(lock))
#define spin_lock_irq(lock)			spin_lock(lock)
#define spin_unlock_irq(lock)			spin_unlock(lock)
#define mutex_lock(mutex)			spin_lock(&(mutex)->lock)
#define mutex_unlock(mutex)			spin_unlock(&(mutex)->lock)
#define lockdep_is_held(lock)			((lock)->owner == explore_self() + 1)
#define lockdep_assert_held(lock)		EXPLORE_EXPECT(lockdep_is_held(lock))

/**
 * struct explore_rcu - read-side sections; part of the memory that threads share
 * @nested: how many nested read-side sections each thread is in
 * @waits: for each thread that is in a grace period: the threads for which it waits, a bit each
 */
struct explore_rcu {
	unsigned char nested[EXPLORE_THREADS];
	unsigned short waits[EXPLORE_THREADS];
};

/* The includer defines this. */
static struct explore_rcu *explore_rcu(void);

static inline void rcu_read_lock(void)
{
	explore_step("rcu_read_lock");
	explore_rcu()->nested[explore_self()]++;
	explore_join();
}

static inline void rcu_read_unlock(void)
{
	struct explore_rcu *rcu = explore_rcu();
	int i;

	EXPLORE_EXPECT(rcu->nested[explore_self()]);
	explore_unjoin();
	if (--rcu->nested[explore_self()])
		return;
	for (i = 0; i < EXPLORE_THREADS; i++)
		rcu->waits[i] &= ~(1 << explore_self());
}

static inline bool explore_rcu_is_over(long thread)
{
	return !explore_rcu()->waits[thread];
}

static inline void synchronize_rcu(void)
{
	struct explore_rcu *rcu = explore_rcu();
	int i;

	explore_step("grace period begins");
	EXPLORE_EXPECT(!rcu->nested[explore_self()]);
	for (i = 0; i < EXPLORE_THREADS; i++) {
		if (rcu->nested[i])
			rcu->waits[explore_self()] |= 1 << i;
	}
	explore_wait(explore_rcu_is_over, explore_self(), "grace period ends");
}

#define rcu_dereference(p)			READ_ONCE(p)
#define rcu_access_pointer(p)			READ_ONCE(p)
#define rcu_dereference_protected(p, cond)	(EXPLORE_EXPECT(cond), (p))
#define rcu_assign_pointer(p, value)		WRITE_ONCE(p, value)

#endif /* EXPLORE_KERNEL_H */
