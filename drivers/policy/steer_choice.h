/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choices of the policy "steer", free of the kernel: tests/host drives them in user
 * space. Callers serialise (a lock per hardware queue) and bring the figures.
 *
 * Leaving a busy hardware queue pays only where hardware queues are served apart. Whether
 * that is so is judged without a clock: a command that was steered while N others were in
 * flight on its own queue would have ended there after these. If it ends before half of them
 * have, it has won. Where a device serves all queues alike nearly all of them end first.
 * So a few commands are steered as a trial; the queue is steered for good while they win.
 */
#ifndef SMQ_STEER_CHOICE_H
#define SMQ_STEER_CHOICE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* Steered commands that are a trial, and how many of these have to win. */
#define SMQ_STEER_WINDOW	8
#define SMQ_STEER_BEGIN		6
/*
 * The same later on: many, for the CPU of another hardware queue may be held up, and then
 * all that went there is late at once.
 */
#define SMQ_STEER_LONG_WINDOW	64
#define SMQ_STEER_GO_ON		32
/* Commands of the hardware queue for each one on trial: below 1 % are steered. */
#define SMQ_STEER_PRICE		128
/* A trial costs that many; more are not saved up. */
#define SMQ_STEER_TRIAL		(SMQ_STEER_WINDOW * SMQ_STEER_PRICE)

/**
 * struct smq_steer - what the choice remembers of a hardware queue
 * @credit: commands that went by since the last trial, up to SMQ_STEER_TRIAL
 * @trying: commands that the trial still may steer
 * @judged: steered commands that have ended, of the window
 * @won: of these, those that steering helped
 * @on: commands are steered
 */
struct smq_steer {
	unsigned int credit;
	unsigned int trying;
	unsigned int judged;
	unsigned int won;
	bool on;
};

/**
 * struct smq_steer_queue - a hardware queue that a command might go to
 * @inflight: its commands
 * @open: it may be used
 * @elsewhere: its last command was completed by another CPU than the submitter's
 * @near: these two CPUs share a cache
 */
struct smq_steer_queue {
	unsigned int inflight;
	bool open;
	bool elsewhere;
	bool near;
};

/* How good a hardware queue is; 0: not to be used. */
#define SMQ_STEER_BEST		3

/* The first trial may begin at once. */
static inline void smq_steer_init(struct smq_steer *s)
{
	*s = (struct smq_steer) { .credit = SMQ_STEER_TRIAL };
}

/* Whether a hardware queue has so many commands that the next one may leave. */
static inline bool smq_steer_is_busy(unsigned int inflight, unsigned int threshold)
{
	return inflight > threshold;
}

/*
 * What a hardware queue is worth as a target. One is idle that has a quarter of the
 * threshold at most: between two queues near the threshold commands go to and fro for
 * nothing.
 */
static inline unsigned int smq_steer_rank(const struct smq_steer_queue *q, unsigned int threshold)
{
	if (!q->open || q->inflight > threshold / 4)
		return 0;
	if (!q->elsewhere)
		return 1;
	return q->near ? SMQ_STEER_BEST : 2;
}

/* A command of a busy hardware queue comes: whether it is to leave if another one is idle. */
static inline bool smq_steer_wants(struct smq_steer *s)
{
	if (s->on || s->trying)
		return 1;
	if (s->credit < SMQ_STEER_TRIAL) {
		s->credit++;
		return 0;
	}
	return 1;
}

/* It leaves. */
static inline void smq_steer_leaves(struct smq_steer *s)
{
	if (s->on)
		return;
	if (!s->trying) {
		s->credit = 0;
		s->trying = SMQ_STEER_WINDOW;
		s->judged = 0;
		s->won = 0;
	}
	s->trying--;
}

/*
 * A steered command has ended. @ahead: how many its own queue had in flight when it left;
 * @ended: how many commands of that queue have ended since. Returns whether steering
 * has been given up with this one.
 */
static inline bool smq_steer_judge(struct smq_steer *s, unsigned int ahead, unsigned int ended)
{
	bool was_on = s->on;

	/* Without an overflow: both are counts of commands, below 2^31. */
	s->won += 2 * ended < ahead;
	if (++s->judged < (was_on ? SMQ_STEER_LONG_WINDOW : SMQ_STEER_WINDOW))
		return 0;
	s->on = s->won >= (was_on ? SMQ_STEER_GO_ON : SMQ_STEER_BEGIN);
	s->judged = 0;
	s->won = 0;
	if (!s->on) {
		s->trying = 0;
		s->credit = was_on ? 0 : s->credit;
	}
	return was_on && !s->on;
}

/*
 * The host ran as "direct", in which @commands went by: whether it helps is found out
 * anew, for the load may be another one.
 */
static inline void smq_steer_look(struct smq_steer *s, unsigned long long commands)
{
	unsigned int room = SMQ_STEER_TRIAL - s->credit;

	s->credit += commands < room ? commands : room;
	s->trying = 0;
	s->on = 0;
}

#endif /* SMQ_STEER_CHOICE_H */
