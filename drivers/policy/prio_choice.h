/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choices of the policy "prio". This code does not depend on the kernel: tests/host runs it in
 * user space. Callers serialise the calls by the lock of struct prio_lun, and pass times and sizes.
 *
 * Commands wait for room in classes, and keep their order within a class. Reads, sync writes and
 * async writes share the device by stride scheduling: for each command that is issued, its class
 * pays the reciprocal of the class's weight, and the class that has paid least is next. Real-time
 * commands go before these, idle ones after. The chosen class stays chosen until its command is
 * issued, so that small commands do not use the bytes that are saved up for a large one. If the
 * first command of a class has waited too long while commands of other classes went before it, this
 * class is next.
 */
#ifndef SMQ_PRIO_CHOICE_H
#define SMQ_PRIO_CHOICE_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#define div64_u64(dividend, divisor)	((dividend) / (divisor))
#endif

enum smq_prio_class {
	SMQ_PRIO_RT,
	SMQ_PRIO_READ,
	SMQ_PRIO_SYNC,
	SMQ_PRIO_ASYNC,
	SMQ_PRIO_IDLE,
	SMQ_PRIO_CLASSES,
	SMQ_PRIO_NONE = SMQ_PRIO_CLASSES,
};

/* What a class of weight 1 pays for a command. The largest weight is SMQ_PRIO_MOST_RATIO + 1. */
#define SMQ_PRIO_STRIDE		65536
#define SMQ_PRIO_MOST_RATIO	64
/* The number of classes that share the device: reads, sync writes and async writes. */
#define SMQ_PRIO_SHARES		3
/*
 * In addition to the bytes of the next command, the bytes of this many ms may be saved up. So no
 * bytes are lost if a timer is late by less than that.
 */
#define SMQ_PRIO_BURST_MS	10
#define SMQ_PRIO_SECOND		1000000000ULL	/* in ns */
/* The longest time for which one call of smq_prio_delay() saves up bytes, in ns. */
#define SMQ_PRIO_LONGEST	(4 * SMQ_PRIO_SECOND)

/**
 * struct smq_prio - state of the choice for a LUN
 * @paid: what each class has paid; a class is next if no other class has paid less
 * @clock: the most that any class had paid when one of its commands was issued, not counting the
 *	price of that command
 * @waiting: classes that have commands, a bit for each class; the bit stays set if error handling
 *	takes the commands
 * @chosen: the class whose first command goes next, even if others come meanwhile; or SMQ_PRIO_NONE
 * @head_since: when the present first command of each class became the first, in ns
 * @credit: bytes that may be transferred, as of @credit_at
 * @credit_at: when @credit was computed, in ns
 */
struct smq_prio {
	unsigned long long paid[SMQ_PRIO_CLASSES];
	unsigned long long clock;
	unsigned int waiting;
	enum smq_prio_class chosen;
	unsigned long long head_since[SMQ_PRIO_CLASSES];
	unsigned long long credit;
	unsigned long long credit_at;
};

/**
 * struct smq_prio_limits - a host's settings
 * @ratio: sync writes for one async write, while both wait
 * @max_ns: for how many ns the first command of a class may wait while other classes are served
 * @rate: bytes per second of a LUN, below 2^32; 0: no limit
 */
struct smq_prio_limits {
	unsigned int ratio;
	unsigned long long max_ns;
	unsigned long long rate;
};

static inline void smq_prio_init(struct smq_prio *p)
{
	p->chosen = SMQ_PRIO_NONE;
}

/* What a class pays for a command. Reads have as much weight as all writes together. */
static inline unsigned long long smq_prio_cost(enum smq_prio_class class, unsigned int ratio)
{
	switch (class) {
	case SMQ_PRIO_READ:
		return SMQ_PRIO_STRIDE / (ratio + 1);
	case SMQ_PRIO_SYNC:
		return SMQ_PRIO_STRIDE / ratio;
	case SMQ_PRIO_ASYNC:
		return SMQ_PRIO_STRIDE;
	default:
		return 0;
	}
}

/*
 * Notes that a class has a command. The class loses the share that it did not use while it had
 * none.
 */
static inline void smq_prio_begin(struct smq_prio *p, enum smq_prio_class class,
				  unsigned long long now)
{
	if (p->waiting & 1U << class)
		return;
	p->waiting |= 1U << class;
	p->head_since[class] = now;
	if (p->paid[class] < p->clock)
		p->paid[class] = p->clock;
}

/* Notes that a class has no command that may go. */
static inline void smq_prio_end(struct smq_prio *p, enum smq_prio_class class)
{
	p->waiting &= ~(1U << class);
	if (p->chosen == class)
		p->chosen = SMQ_PRIO_NONE;
}

/* Returns the class that has waited longest, if it has waited too long; else SMQ_PRIO_NONE. */
static inline enum smq_prio_class smq_prio_overdue(const struct smq_prio *p,
						   const struct smq_prio_limits *limits,
						   unsigned long long now)
{
	enum smq_prio_class class, oldest = SMQ_PRIO_NONE;

	for (class = SMQ_PRIO_RT; class < SMQ_PRIO_CLASSES; class++) {
		if (!(p->waiting & 1U << class) || now - p->head_since[class] < limits->max_ns)
			continue;
		if (oldest == SMQ_PRIO_NONE || p->head_since[class] < p->head_since[oldest])
			oldest = class;
	}
	return oldest;
}

static inline enum smq_prio_class smq_prio_cheapest(const struct smq_prio *p)
{
	/* If two classes have paid the same, the first in this list goes first. */
	static const enum smq_prio_class shares[SMQ_PRIO_SHARES] = {
		SMQ_PRIO_SYNC, SMQ_PRIO_READ, SMQ_PRIO_ASYNC
	};
	enum smq_prio_class least = SMQ_PRIO_NONE;
	unsigned int i;

	for (i = 0; i < SMQ_PRIO_SHARES; i++) {
		if (!(p->waiting & 1U << shares[i]))
			continue;
		if (least == SMQ_PRIO_NONE || p->paid[shares[i]] < p->paid[least])
			least = shares[i];
	}
	return least;
}

/*
 * Returns the class whose first command is next; SMQ_PRIO_NONE if no command waits. The class stays
 * chosen until its command is issued.
 */
static inline enum smq_prio_class smq_prio_choose(struct smq_prio *p,
						  const struct smq_prio_limits *limits,
						  unsigned long long now)
{
	if (p->chosen != SMQ_PRIO_NONE)
		return p->chosen;
	p->chosen = smq_prio_overdue(p, limits, now);
	if (p->chosen == SMQ_PRIO_NONE && p->waiting & 1U << SMQ_PRIO_RT)
		p->chosen = SMQ_PRIO_RT;
	if (p->chosen == SMQ_PRIO_NONE)
		p->chosen = smq_prio_cheapest(p);
	if (p->chosen == SMQ_PRIO_NONE && p->waiting & 1U << SMQ_PRIO_IDLE)
		p->chosen = SMQ_PRIO_IDLE;
	return p->chosen;
}

/*
 * Returns 0 if the chosen command, of @bytes bytes, may go now; else the time until it may go, in
 * ns. Saves up bytes until there are enough for the command, however large it is.
 */
static inline unsigned long long smq_prio_delay(struct smq_prio *p,
						const struct smq_prio_limits *limits,
						unsigned int bytes, unsigned long long now)
{
	unsigned long long most = bytes + div64_u64(limits->rate * SMQ_PRIO_BURST_MS, 1000);
	unsigned long long ns = now - p->credit_at, gained;

	if (!limits->rate)
		return 0;
	/* The product of rate and time must fit into 64 bits. */
	if (ns > SMQ_PRIO_LONGEST)
		ns = SMQ_PRIO_LONGEST;
	gained = div64_u64(limits->rate * ns, SMQ_PRIO_SECOND);
	/* Time that is left over, too short for one more byte, counts in the next call. */
	p->credit_at = now - (ns - div64_u64(gained * SMQ_PRIO_SECOND, limits->rate));
	if (p->credit < most)
		p->credit = p->credit + gained < most ? p->credit + gained : most;
	if (p->credit >= bytes)
		return 0;
	return div64_u64((bytes - p->credit) * SMQ_PRIO_SECOND, limits->rate) + 1;
}

/* Notes that the chosen command is issued. @more: its class has another command that may go. */
static inline void smq_prio_issued(struct smq_prio *p, const struct smq_prio_limits *limits,
				   unsigned int bytes, bool more, unsigned long long now)
{
	enum smq_prio_class class = p->chosen;

	p->chosen = SMQ_PRIO_NONE;
	if (smq_prio_cost(class, limits->ratio)) {
		if (p->clock < p->paid[class])
			p->clock = p->paid[class];
		p->paid[class] += smq_prio_cost(class, limits->ratio);
	}
	p->head_since[class] = now;
	p->credit -= p->credit < bytes ? p->credit : bytes;
	if (!more)
		smq_prio_end(p, class);
}

#endif /* SMQ_PRIO_CHOICE_H */
