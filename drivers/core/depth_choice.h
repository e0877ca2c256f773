/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How many commands a device needs at once. This code does not depend on the kernel: tests/host
 * runs it in user space. Callers serialise the calls by the lock of struct smq_depth, and pass
 * times and numbers of completed commands.
 *
 * A device with N lanes completes more commands per second with each command that it has, up to N,
 * and not beyond: N is its bandwidth times its least latency. So if its rate is R(low) with a small
 * number of commands and R(high) with a larger one, then N = low * R(high) / R(low), unless N is
 * above the larger number. No latency is measured, because a latency depends on the size of the
 * command; rates of the same mixture of commands are comparable.
 *
 * While commands wait for room, windows of completions give rates: with the learned depth, then
 * with another depth, then with the learned one again. A try of another depth costs throughput if
 * that depth is too small, so such tries are rare. The learned depth is a little more than N, so
 * that the device has work while a completed command makes room for the next one.
 *
 * That takes too long if N falls, and it finds nothing out while the device has fewer commands than
 * the depth. By Little's law, the time for which a command is in the device is the number of
 * commands in it divided by the rate. If that is long, and much longer than what a lone command
 * takes, then commands wait for each other in the device, and so would an urgent one: the depth is
 * searched again, from one command on.
 */
#ifndef SMQ_CORE_DEPTH_CHOICE_H
#define SMQ_CORE_DEPTH_CHOICE_H

#ifdef __KERNEL__
#include <linux/compiler_attributes.h>
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#define div64_u64(dividend, divisor)	((dividend) / (divisor))
#define fallthrough			__attribute__((__fallthrough__))
#endif

/* Completed commands are counted in the upper 32 bits of a number, their sectors in the lower. */
#define SMQ_LEARN_ONE		0x100000000ULL

/* The first depth; it is doubled as long as that makes the rate larger. */
#define SMQ_LEARN_FIRST		2U
/* The shortest window, in commands and in ns; the same while the depth is doubled. */
#define SMQ_LEARN_WINDOW	8U
#define SMQ_LEARN_WINDOW_NS	10000000ULL
#define SMQ_LEARN_DOUBLING	4U
#define SMQ_LEARN_DOUBLING_NS	2000000ULL
/* Windows are up to 2^SHIFT times as long if rates vary, unless they take longer than LONG_NS. */
#define SMQ_LEARN_SHIFT		6U
#define SMQ_LEARN_LONG_NS	400000000ULL
#define SMQ_LEARN_MOST_CMDS	0x100000U
#define SMQ_LEARN_MOST_SECTORS	0x40000000U
/* Begin and end of a window are means over this many commands at most. */
#define SMQ_LEARN_MARKS		8U

/* Ratios of rates are in units of 1/UNIT. */
#define SMQ_LEARN_UNIT		1024U
#define SMQ_LEARN_MOST_RATIO	(64U * SMQ_LEARN_UNIT)
/* A larger depth is better if the rate grows by this much, and certainly by this much. */
#define SMQ_LEARN_MORE		25U
#define SMQ_LEARN_MUCH_MORE	256U
/* A smaller depth is as good if the rate falls by no more than this. */
#define SMQ_LEARN_LESS		12U
/* Windows get longer if rates of the same depth differ by more than this; the first guess. */
#define SMQ_LEARN_VARIES	10U
#define SMQ_LEARN_VARY_FIRST	40U
/* Sectors count, rather than commands, if their rate does not differ by this much more. */
#define SMQ_LEARN_ALIKE		4U
/* The learned depth is 19/16 of bandwidth times latency. */
#define SMQ_LEARN_PARTS		16U
#define SMQ_LEARN_PARTS_TAKEN	19U

/*
 * A device is slow if a command is in it for longer than this, and for longer than a lone command
 * by this factor. The search begins again if a slow device completes fewer commands by a factor.
 */
#define SMQ_LEARN_SLOW_NS	100000000ULL
#define SMQ_LEARN_QUEUES	2U
#define SMQ_LEARN_FELL		3U
/* How often a slow device may have too few commands until the search begins again, at most. */
#define SMQ_LEARN_SEARCH_MOST	64U

/* Windows until a larger depth is tried, at first, and at most if a lone command takes long. */
#define SMQ_LEARN_UP		4U
#define SMQ_LEARN_UP_MOST	32U
/* Windows until a smaller one is tried, at first, and at most. */
#define SMQ_LEARN_DOWN		32U
#define SMQ_LEARN_DOWN_MOST	128U
/* The same, at first, if the device is slow. */
#define SMQ_LEARN_DOWN_SLOW	3U
/*
 * Below this depth there is nothing to win unless the device is slow, from this one on it is halved
 * rather than reduced.
 */
#define SMQ_LEARN_SMALL		2U
#define SMQ_LEARN_LARGE		8U
/* After this many windows for which there were not enough commands, the depth grows. */
#define SMQ_LEARN_CUT_SHORT	3U

/* Whether the device had too few commands, or none. */
enum smq_learn_spare {
	SMQ_LEARN_FULL,
	SMQ_LEARN_SPARE,
	SMQ_LEARN_EMPTY,
};

/* Which depth the present window measures. */
enum smq_learn_stage {
	SMQ_LEARN_BEFORE,	/* the learned one */
	SMQ_LEARN_TRY,		/* another one */
	SMQ_LEARN_AFTER,	/* the learned one again, to compare */
};

/* The parts of a window. */
enum smq_learn_part {
	SMQ_LEARN_SETTLE,	/* until all commands were issued within the present limit */
	SMQ_LEARN_BEGIN,	/* marks of the begin */
	SMQ_LEARN_BODY,
	SMQ_LEARN_END,		/* marks of the end */
};

/**
 * struct smq_learn_marks - the begin or the end of a window
 * @ns: sum of the times
 * @cmds: sum of the numbers of commands completed so far
 * @sectors: sum of the numbers of sectors so far
 * @nr: number of marks that are taken, of @of
 * @of: how many marks there are
 */
struct smq_learn_marks {
	unsigned long long ns;
	unsigned long long cmds;
	unsigned long long sectors;
	unsigned int nr;
	unsigned int of;
};

/* A rate, in units that do not matter; no commands: the rate is not known. */
struct smq_learn_rate {
	unsigned long long cmds;
	unsigned long long sectors;
};

/* The smallest and the largest depth that may be learned, at least 1. */
struct smq_learn_bounds {
	unsigned int least;
	unsigned int most;
};

/**
 * struct smq_learn - what is known about a device
 * @limit: how many commands the device may have now
 * @depth: the learned depth; @limit differs while another one is tried
 * @due: when smq_learn_step() is to be called, as a number of completed commands
 * @spare: whether the device had too few commands since the last call, enum smq_learn_spare;
 *	written without a lock
 * @lacked: a command had to wait since the last call; written without a lock
 * @try: the depth that is tried
 * @need: the depth that followed from the last try that was better
 * @stage: which depth the present window measures
 * @part: the present part of the window
 * @doubling: the depth is still being doubled
 * @halving: the last smaller depth was as good
 * @slow: commands wait in the device, and for long
 * @lengthy: the last window took so long that windows must not get longer
 * @fell: the rate of the last window was much lower than that of the one before
 * @alone: how long a command takes if the device has no other, in ns; 0: not known
 * @had: how many commands the device had when a window was cut short
 * @searched: the depth before it was searched again
 * @search_in: windows with spare room until a slow device's depth is searched again
 * @search_pause: the same, after the next search that is in vain
 * @cut_short: windows for which there were too few commands since a larger depth was tried
 * @votes: tries of a larger depth that were better, but not by much
 * @up_in: windows until a larger depth is tried
 * @up_pause: windows after the next such try
 * @down_in: windows until a smaller depth is tried
 * @down_pause: windows after the next such try that is in vain
 * @shift: windows are 2^@shift times as long as the shortest
 * @vary_cmds: by how much commands per second differ at the same depth
 * @vary_sectors: by how much sectors per second differ
 * @nr: number of commands in the body of the window
 * @from: completed commands and sectors at the first mark
 * @epoch: time of the first mark, in ns
 * @began: when the body began, in ns
 * @begin: the begin of the window
 * @marks: the marks that are being taken
 * @rate: rate at @depth
 * @tried: rate at @try
 */
struct smq_learn {
	unsigned int limit;
	unsigned int depth;
	unsigned int due;
	unsigned char spare;
	bool lacked;
	unsigned int try;
	unsigned int need;
	enum smq_learn_stage stage;
	enum smq_learn_part part;
	bool doubling;
	bool halving;
	bool slow;
	bool lengthy;
	bool fell;
	unsigned long long alone;
	unsigned int had;
	unsigned int searched;
	unsigned int search_in;
	unsigned int search_pause;
	unsigned int cut_short;
	unsigned int votes;
	unsigned int up_in;
	unsigned int up_pause;
	unsigned int down_in;
	unsigned int down_pause;
	unsigned int shift;
	unsigned int vary_cmds;
	unsigned int vary_sectors;
	unsigned int nr;
	unsigned long long from;
	unsigned long long epoch;
	unsigned long long began;
	struct smq_learn_marks begin;
	struct smq_learn_marks marks;
	struct smq_learn_rate rate;
	struct smq_learn_rate tried;
};

static inline unsigned int smq_learn_cmds(unsigned long long done)
{
	return done >> 32;
}

/*
 * Notes that a command has completed while none waited. @inflight: what the device still has. The
 * window counts only if the device always had as many commands as the depth that is compared.
 */
static inline void smq_learn_left(struct smq_learn *l, unsigned int inflight)
{
	if (inflight < l->limit && inflight < l->depth && l->spare != SMQ_LEARN_EMPTY)
		l->spare = inflight ? SMQ_LEARN_SPARE : SMQ_LEARN_EMPTY;
}

/* Whether smq_learn_step() is to be called. @done: commands and sectors completed so far. */
static inline bool smq_learn_is_due(unsigned long long done, unsigned int due)
{
	return (int)(smq_learn_cmds(done) - due) >= 0;
}

static inline unsigned int smq_learn_within(const struct smq_learn_bounds *bounds,
					    unsigned int depth)
{
	if (depth > bounds->most)
		depth = bounds->most;
	return depth < bounds->least ? bounds->least : depth;
}

/* Forgets all that is known. @done: as for smq_learn_step(). */
static inline void smq_learn_init(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				  unsigned long long done)
{
	*l = (struct smq_learn){
		.doubling = true,
		.search_in = 1,
		.search_pause = 1,
		.up_in = 1,
		.up_pause = SMQ_LEARN_UP,
		.down_in = SMQ_LEARN_DOWN,
		.down_pause = SMQ_LEARN_DOWN,
		.vary_cmds = SMQ_LEARN_VARY_FIRST,
		.vary_sectors = SMQ_LEARN_VARY_FIRST,
		.due = smq_learn_cmds(done) + 1,
	};
	l->depth = smq_learn_within(bounds, SMQ_LEARN_FIRST);
	l->limit = l->depth;
}

static inline unsigned int smq_learn_ratio(unsigned long long high, unsigned long long low)
{
	unsigned long long ratio = div64_u64(high * SMQ_LEARN_UNIT, low ? low : 1);

	return ratio < SMQ_LEARN_MOST_RATIO ? ratio : SMQ_LEARN_MOST_RATIO;
}

/* The ratio of two rates, of commands or of sectors: of what varies less. */
static inline unsigned int smq_learn_gain(const struct smq_learn *l,
					  const struct smq_learn_rate *high,
					  const struct smq_learn_rate *low)
{
	unsigned int cmds = smq_learn_ratio(high->cmds, low->cmds);
	unsigned int sectors = smq_learn_ratio(high->sectors, low->sectors);

	if (l->doubling)
		return cmds > sectors ? cmds : sectors;
	return l->vary_sectors <= l->vary_cmds + SMQ_LEARN_ALIKE ? sectors : cmds;
}

static inline unsigned int smq_learn_varies(const struct smq_learn *l)
{
	return l->vary_sectors < l->vary_cmds ? l->vary_sectors : l->vary_cmds;
}

static inline void smq_learn_vary(unsigned int *vary, unsigned int ratio)
{
	int off = (int)ratio - (int)SMQ_LEARN_UNIT;

	*vary += ((off < 0 ? -off : off) - (int)*vary) / 4;
}

/* Notes the rate at the learned depth. */
static inline void smq_learn_note(struct smq_learn *l, const struct smq_learn_rate *rate)
{
	if (l->rate.cmds && !l->doubling) {
		smq_learn_vary(&l->vary_cmds, smq_learn_ratio(rate->cmds, l->rate.cmds));
		smq_learn_vary(&l->vary_sectors, smq_learn_ratio(rate->sectors, l->rate.sectors));
		if (smq_learn_varies(l) > SMQ_LEARN_VARIES) {
			if (!l->lengthy && l->shift < SMQ_LEARN_SHIFT)
				l->shift++;
		} else if (smq_learn_varies(l) < SMQ_LEARN_VARIES / 2 && l->shift) {
			l->shift--;
		}
	}
	l->rate = *rate;
}

/* The depth that a device needs whose rate grows by @gain above the depth @low. */
static inline unsigned int smq_learn_need(unsigned int low, unsigned int gain, bool round_up)
{
	const unsigned int one = SMQ_LEARN_UNIT * SMQ_LEARN_PARTS;

	return ((unsigned long long)low * gain * SMQ_LEARN_PARTS_TAKEN +
		(round_up ? one - 1 : one / 2)) / one;
}

/* The depth has changed: the pauses are short again. */
static inline void smq_learn_changed(struct smq_learn *l)
{
	l->up_pause = SMQ_LEARN_UP;
	l->down_pause = SMQ_LEARN_DOWN;
	l->down_in = l->down_pause;
}

/* A larger depth is not better: the search, if this was one, has ended. */
static inline void smq_learn_enough(struct smq_learn *l)
{
	if (!l->doubling)
		return;
	l->doubling = false;
	smq_learn_changed(l);
	if (l->depth < l->searched - l->searched / 4)
		l->search_pause = 1;
	else if (l->search_pause < SMQ_LEARN_SEARCH_MOST)
		l->search_pause *= 2;
	l->search_in = l->search_pause;
}

/* A larger depth was tried: the rate was larger by @gain. */
static inline void smq_learn_judge_up(struct smq_learn *l, unsigned int gain)
{
	unsigned int need = smq_learn_need(l->depth, gain, true);

	l->cut_short = 0;
	if (gain < SMQ_LEARN_UNIT + SMQ_LEARN_MORE + 2 * smq_learn_varies(l)) {
		/* The last step of doubling found a need that may be larger than its depth. */
		if (l->doubling && l->depth < l->need)
			l->depth = l->need;
		smq_learn_enough(l);
		l->votes = 0;
		if (l->alone > SMQ_LEARN_SLOW_NS && gain < SMQ_LEARN_UNIT + SMQ_LEARN_MORE &&
		    l->up_pause < SMQ_LEARN_UP_MOST)
			l->up_pause *= 2;
		l->up_in = l->up_pause;
		return;
	}
	/* The next window tries again. */
	l->up_in = 1;
	if (!l->doubling && gain < SMQ_LEARN_UNIT + SMQ_LEARN_MUCH_MORE && !l->votes++)
		return;
	l->votes = 0;
	smq_learn_changed(l);
	l->need = need;
	l->depth = need < l->try ? need : l->try;
	if (need < l->try)
		smq_learn_enough(l);
	else
		/* The rate grew as much as the depth: the device may need many more commands. */
		l->doubling = true;
}

/* A smaller depth was tried: the rate of the learned one is larger by @gain. */
static inline void smq_learn_judge_down(struct smq_learn *l, unsigned int gain)
{
	unsigned int need = smq_learn_need(l->try, gain, false);

	l->halving = gain <= SMQ_LEARN_UNIT + SMQ_LEARN_LESS;
	if (l->halving || need < l->try)
		need = l->try;
	if (need < l->depth) {
		l->depth = need;
		smq_learn_changed(l);
		if (l->halving)
			l->down_in = 1;
		l->up_in = l->up_pause;
		return;
	}
	l->down_in = l->down_pause;
	if (l->down_pause < SMQ_LEARN_DOWN_MOST)
		l->down_pause *= 2;
}

/*
 * Compares the rate of a try with those at the learned depth before and after it. If the device
 * became faster or slower meanwhile, the one that speaks for the learned depth counts.
 */
static inline void smq_learn_judge(struct smq_learn *l, const struct smq_learn_rate *before,
				   const struct smq_learn_rate *after)
{
	unsigned int one, two;

	if (l->try > l->depth) {
		one = smq_learn_gain(l, &l->tried, before);
		two = smq_learn_gain(l, &l->tried, after);
		smq_learn_judge_up(l, one < two ? one : two);
	} else {
		one = smq_learn_gain(l, before, &l->tried);
		two = smq_learn_gain(l, after, &l->tried);
		smq_learn_judge_down(l, one > two ? one : two);
	}
	l->stage = SMQ_LEARN_BEFORE;
	/* The rate at a new depth is not known yet. */
	if (l->depth != l->limit)
		l->rate.cmds = 0;
}

static inline unsigned int smq_learn_larger(const struct smq_learn *l)
{
	return l->doubling ? 2 * l->depth : l->depth + (l->depth + 1) / 2;
}

static inline unsigned int smq_learn_smaller(const struct smq_learn *l)
{
	if (l->depth <= SMQ_LEARN_SMALL)
		return l->slow ? 1 : l->depth;
	if (l->halving && l->depth > SMQ_LEARN_LARGE)
		return l->depth / 2;
	return l->depth - (l->depth + 3) / 4;
}

/* Begins to try another depth, if it is time for that. */
static inline void smq_learn_next(struct smq_learn *l, const struct smq_learn_bounds *bounds)
{
	unsigned int to = l->depth;

	if (l->up_in)
		l->up_in--;
	if (l->slow && l->down_in > SMQ_LEARN_DOWN_SLOW && l->down_pause == SMQ_LEARN_DOWN)
		l->down_in = SMQ_LEARN_DOWN_SLOW;
	if (l->down_in)
		l->down_in--;
	if (!l->up_in) {
		to = smq_learn_within(bounds, smq_learn_larger(l));
		l->up_in = l->up_pause;
		if (to == l->depth)
			smq_learn_enough(l);
	} else if (!l->down_in) {
		to = smq_learn_within(bounds, smq_learn_smaller(l));
		l->down_in = l->down_pause;
	}
	if (to == l->depth)
		return;
	l->try = to;
	l->stage = SMQ_LEARN_TRY;
}

/* Handles the rate of a window that is over. */
static inline void smq_learn_window(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				    const struct smq_learn_rate *now)
{
	struct smq_learn_rate before = l->rate;

	switch (l->stage) {
	case SMQ_LEARN_TRY:
		l->tried = *now;
		l->stage = SMQ_LEARN_AFTER;
		if (!l->doubling)
			return;
		/* While doubling helps, there is no need to go back to compare. */
		smq_learn_judge(l, &before, &before);
		if (l->depth == l->limit)
			l->rate = *now;
		break;
	case SMQ_LEARN_AFTER:
		smq_learn_note(l, now);
		smq_learn_judge(l, &before, now);
		break;
	case SMQ_LEARN_BEFORE:
		smq_learn_note(l, now);
		break;
	}
	if (l->rate.cmds)
		smq_learn_next(l, bounds);
}

/*
 * How many marks the begin and the end of a window have. They are means over as many commands as
 * the limit, because a device may complete its commands in groups.
 */
static inline unsigned int smq_learn_nr_marks(const struct smq_learn *l)
{
	if (l->limit >= SMQ_LEARN_MARKS)
		return SMQ_LEARN_MARKS;
	return l->doubling ? 1 : l->limit;
}

static inline unsigned int smq_learn_between_marks(const struct smq_learn *l)
{
	return (l->limit + SMQ_LEARN_MARKS - 1) / SMQ_LEARN_MARKS;
}

/* Takes a mark. Returns whether it was the last one. */
static inline bool smq_learn_mark(struct smq_learn *l, unsigned long long done,
				  unsigned long long now)
{
	l->marks.ns += now - l->epoch;
	l->marks.cmds += smq_learn_cmds(done - l->from);
	l->marks.sectors += (unsigned int)(done - l->from);
	l->due = smq_learn_cmds(done) + smq_learn_between_marks(l);
	return ++l->marks.nr == l->marks.of;
}

/* Begins the body. A window has a multiple of the limit, because of the groups. */
static inline void smq_learn_body(struct smq_learn *l, unsigned long long done,
				  unsigned long long now)
{
	unsigned int least = l->doubling ? SMQ_LEARN_DOUBLING : SMQ_LEARN_WINDOW << l->shift;

	l->part = SMQ_LEARN_BODY;
	l->nr = l->limit * ((least + l->limit - 1) / l->limit);
	l->began = now;
	l->begin = l->marks;
	l->due = smq_learn_cmds(done) + l->nr - (l->marks.of - 1) * smq_learn_between_marks(l);
}

/* Changes the limit, and waits until the commands that were issued before have ended. */
static inline void smq_learn_settle(struct smq_learn *l, unsigned int limit,
				    unsigned long long done, unsigned long long now)
{
	l->part = SMQ_LEARN_SETTLE;
	l->from = done;
	l->epoch = now;
	l->due = smq_learn_cmds(done) + (l->limit > limit ? l->limit : limit);
	l->limit = limit;
}

/*
 * Begins to search the depth again, because the one that was learned before is too large now, or
 * may be.
 */
static inline void smq_learn_search(struct smq_learn *l, const struct smq_learn_bounds *bounds)
{
	l->searched = l->depth;
	l->depth = smq_learn_within(bounds, 1);
	l->need = 0;
	l->doubling = true;
	l->halving = false;
	l->stage = SMQ_LEARN_BEFORE;
	l->rate.cmds = 0;
	l->up_in = 1;
}

/* Whether commands wait for each other in a device that has @had in the mean. */
static inline bool smq_learn_queues(const struct smq_learn *l, unsigned int had,
				    unsigned long long cmds, unsigned long long ns)
{
	return ns * had > SMQ_LEARN_QUEUES * cmds * l->alone;
}

/* Whether they also are in it for long. */
static inline bool smq_learn_is_slow(const struct smq_learn *l, unsigned int had,
				     unsigned long long cmds, unsigned long long ns)
{
	return ns * had > cmds * SMQ_LEARN_SLOW_NS && smq_learn_queues(l, had, cmds, ns);
}

/*
 * The device had fewer commands than the depth, but some all the time. If it is slow nevertheless,
 * the depth may be too large, and nothing else would find that out.
 */
static inline void smq_learn_spared(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				    unsigned int had, unsigned int cmds, unsigned long long ns)
{
	l->slow = smq_learn_is_slow(l, had, cmds, ns);
	if (!l->slow)
		return;
	smq_learn_enough(l);
	if (l->depth > bounds->least && !--l->search_in)
		smq_learn_search(l, bounds);
}

/*
 * The device had too few commands: the window's rate is worth nothing. If commands often wait, but
 * never for long enough to try a larger depth, the depth grows, because nothing else would find out
 * that it is too small; but not if they wait in the device too.
 */
static inline void smq_learn_cut(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				 unsigned long long done, unsigned int inflight,
				 unsigned long long now)
{
	unsigned int had = inflight < l->had ? inflight : l->had;
	unsigned int cmds = smq_learn_cmds(done - l->from);
	unsigned long long ns = now - l->epoch;

	if (l->spare == SMQ_LEARN_SPARE)
		smq_learn_spared(l, bounds, had, cmds, ns);
	if (l->alone ? smq_learn_queues(l, had, cmds, ns) : l->slow) {
		l->cut_short = 0;
	} else if (l->lacked && ++l->cut_short == SMQ_LEARN_CUT_SHORT) {
		l->cut_short = 0;
		l->depth = smq_learn_larger(l);
		l->down_in = 1;
	}
	l->spare = SMQ_LEARN_FULL;
	l->lacked = false;
	l->stage = SMQ_LEARN_BEFORE;
	l->rate.cmds = 0;
	l->up_pause = SMQ_LEARN_UP;
	if (l->up_in > l->up_pause)
		l->up_in = l->up_pause;
	l->had = inflight;
	l->depth = smq_learn_within(bounds, l->depth);
	smq_learn_settle(l, l->depth, done, now);
}

/* Whether a slow device has become much slower, or its commands much larger. */
static inline bool smq_learn_has_fallen(const struct smq_learn *l,
					const struct smq_learn_rate *now)
{
	return l->slow && !l->doubling && l->stage != SMQ_LEARN_TRY &&
	       now->cmds * SMQ_LEARN_FELL < l->rate.cmds;
}

/* Whether it is not known if one command is enough for a slow device. */
static inline bool smq_learn_is_unknown(const struct smq_learn *l)
{
	return l->slow && !l->doubling && l->stage != SMQ_LEARN_TRY && !l->searched &&
	       l->depth <= SMQ_LEARN_LARGE;
}

static inline void smq_learn_over(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				  unsigned long long done, unsigned long long now)
{
	unsigned long long ns = l->marks.ns - l->begin.ns, us = div64_u64(ns, 1000);
	unsigned long long cmds = l->marks.cmds - l->begin.cmds;
	struct smq_learn_rate rate;
	unsigned int limit;
	bool fell;

	l->lengthy = now - l->began > SMQ_LEARN_LONG_NS;
	rate.cmds = div64_u64(cmds << 30, us ? us : 1);
	rate.sectors = div64_u64((l->marks.sectors - l->begin.sectors) << 26, us ? us : 1);
	if (l->limit == 1)
		l->alone = div64_u64(ns, cmds);
	l->slow = smq_learn_is_slow(l, l->limit, cmds, ns);
	fell = smq_learn_has_fallen(l, &rate);
	if (smq_learn_is_unknown(l) || (fell && l->fell))
		smq_learn_search(l, bounds);
	else if (fell)
		/* Perhaps only for a moment, because the machine is busy. */
		l->stage = SMQ_LEARN_BEFORE;
	else
		smq_learn_window(l, bounds, &rate);
	l->fell = fell;
	l->lacked = false;
	l->depth = smq_learn_within(bounds, l->depth);
	limit = smq_learn_within(bounds, l->stage == SMQ_LEARN_TRY ? l->try : l->depth);
	/* Settle now and then in any case, so that no sum overflows. */
	if (limit != l->limit || l->marks.of != smq_learn_nr_marks(l) ||
	    (unsigned int)(done - l->from) >= SMQ_LEARN_MOST_SECTORS)
		smq_learn_settle(l, limit, done, now);
	else
		/* The end of this window is the begin of the next one. */
		smq_learn_body(l, done, now);
}

/*
 * Called when smq_learn_is_due(). @done: commands and sectors completed so far; @inflight: commands
 * that the device has, with the one that has just completed; @now: in ns. May change @limit.
 */
static inline void smq_learn_step(struct smq_learn *l, const struct smq_learn_bounds *bounds,
				  unsigned long long done, unsigned int inflight,
				  unsigned long long now)
{
	if (l->spare) {
		smq_learn_cut(l, bounds, done, inflight, now);
		return;
	}
	switch (l->part) {
	case SMQ_LEARN_SETTLE:
		l->part = SMQ_LEARN_BEGIN;
		l->from = done;
		l->epoch = now;
		l->marks = (struct smq_learn_marks){ .of = smq_learn_nr_marks(l) };
		fallthrough;
	case SMQ_LEARN_BEGIN:
		if (smq_learn_mark(l, done, now))
			smq_learn_body(l, done, now);
		break;
	case SMQ_LEARN_BODY:
		if (now - l->began < (l->doubling ? SMQ_LEARN_DOUBLING_NS : SMQ_LEARN_WINDOW_NS) &&
		    l->nr < SMQ_LEARN_MOST_CMDS) {
			l->due = smq_learn_cmds(done) + l->nr;
			l->nr *= 2;
			break;
		}
		l->part = SMQ_LEARN_END;
		l->marks = (struct smq_learn_marks){ .of = l->begin.of };
		fallthrough;
	case SMQ_LEARN_END:
		if (smq_learn_mark(l, done, now))
			smq_learn_over(l, bounds, done, now);
		break;
	}
}

#endif /* SMQ_CORE_DEPTH_CHOICE_H */
