/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The choices of the policy "steer". This code does not depend on the kernel: tests/host runs it in
 * user space. Callers serialise the calls by a lock per hardware queue, and count the commands.
 *
 * Leaving a busy hardware queue helps only if the device serves hardware queues separately. The
 * policy finds that out without a clock. A command that was steered while N others were in flight
 * on its own queue would have ended there after these N. If it ends before half of the N have
 * ended, it has won. If a device serves all queues alike, nearly all of the N end first. So the
 * policy steers a few commands as a trial, and continues while commands win. Then the layer
 * compares how many commands end with and without steering (drivers/core/compare.h).
 */
#ifndef SMQ_STEER_CHOICE_H
#define SMQ_STEER_CHOICE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#endif

/* Number of steered commands in a trial, and how many of these must win to begin steering. */
#define SMQ_STEER_WINDOW	8
#define SMQ_STEER_BEGIN		6
/*
 * The same numbers while steering is on. The window is long, because the CPU of another hardware
 * queue may be delayed, and then all commands that were steered there are late at the same time.
 */
#define SMQ_STEER_LONG_WINDOW	64
#define SMQ_STEER_GO_ON		32
/*
 * For each command that a trial may steer, the hardware queue must get this many commands: so
 * trials steer less than 1 %.
 */
#define SMQ_STEER_PRICE		128
/* A trial begins after this many commands; no more than this are counted. */
#define SMQ_STEER_TRIAL		(SMQ_STEER_WINDOW * SMQ_STEER_PRICE)

/**
 * struct smq_steer - state of the choice for a hardware queue
 * @credit: commands that came since the last trial began, up to SMQ_STEER_TRIAL
 * @trying: commands that the trial may still steer
 * @judged: steered commands of the window that have ended
 * @won: how many of these have won: they ended sooner than on their own queue
 * @on: steering helps
 * @pass: no command is steered all the same, because steering is slower or is being compared
 */
struct smq_steer {
	unsigned int credit;
	unsigned int trying;
	unsigned int judged;
	unsigned int won;
	bool on;
	bool pass;
};

/**
 * struct smq_steer_queue - a hardware queue that a command might go to
 * @inflight: its commands in flight
 * @open: it may be used
 * @elsewhere: its last command was completed by another CPU than this submitter
 * @near: these two CPUs share a cache
 */
struct smq_steer_queue {
	unsigned int inflight;
	bool open;
	bool elsewhere;
	bool near;
};

/* The best rank of a hardware queue. A queue with rank 0 is not used. */
#define SMQ_STEER_BEST		3

/* The first trial may begin at once. */
static inline void smq_steer_init(struct smq_steer *s)
{
	*s = (struct smq_steer) { .credit = SMQ_STEER_TRIAL };
}

/* Whether a hardware queue has so many commands in flight that the next one may leave it. */
static inline bool smq_steer_is_busy(unsigned int inflight, unsigned int threshold)
{
	return inflight > threshold;
}

/*
 * Returns the rank of a hardware queue as a target. A hardware queue is idle if it has at most a
 * quarter of the threshold in flight. With a higher limit, commands would be moved in both
 * directions between two queues near the threshold, without any gain.
 */
static inline unsigned int smq_steer_rank(const struct smq_steer_queue *q, unsigned int threshold)
{
	if (!q->open || q->inflight > threshold / 4)
		return 0;
	if (!q->elsewhere)
		return 1;
	return q->near ? SMQ_STEER_BEST : 2;
}

/* Whether a command of a busy hardware queue should go to another one, if one is idle. */
static inline bool smq_steer_wants(struct smq_steer *s)
{
	if (s->pass)
		return 0;
	if (s->on || s->trying)
		return 1;
	if (s->credit < SMQ_STEER_TRIAL) {
		s->credit++;
		return 0;
	}
	return 1;
}

/* Notes that the command leaves its hardware queue. */
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
 * Judges a steered command that has ended. @ahead: how many commands its own queue had in flight
 * when the command left. @ended: how many commands of that queue have ended since. Returns true if
 * this result ends steering.
 */
static inline bool smq_steer_judge(struct smq_steer *s, unsigned int ahead, unsigned int ended)
{
	bool was_on = s->on;

	/* No overflow: both are counts of commands, below 2^31. */
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
 * A look begins, after @commands commands that came while the host ran as "direct". Steering needs
 * a new trial, because the load may have changed.
 */
static inline void smq_steer_look(struct smq_steer *s, unsigned long long commands)
{
	unsigned int room = SMQ_STEER_TRIAL - s->credit;

	s->credit += commands < room ? commands : room;
	s->trying = 0;
	s->on = 0;
	s->pass = 0;
}

#endif /* SMQ_STEER_CHOICE_H */
