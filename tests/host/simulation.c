// SPDX-License-Identifier: GPL-2.0
/*
 * Simulates how the layer learns a LUN's depth: a device of the model below, and a queue of
 * commands that is never empty, or that is filled now and then. The layer's own header makes the
 * decisions. Run by test_depth_sim.py.
 *
 * depth_sim many SEED NR	NR random devices; prints the worst ones and how many are bad
 * depth_sim one NAME=VALUE...	one device: a field of struct device or struct load
 *
 * The model: a link transfers the commands' bytes one after the other, and then each command takes
 * a time of its own in one of the lanes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../drivers/core/depth_choice.h"

#define MOST	128		/* commands that the device takes */
#define QUEUED	256		/* commands that are queued */
#define LANES	256
#define SECOND	1e9
#define SECTOR	512
#define SAVES_KEPT	100000

typedef unsigned long long u64;

/*
 * @lanes: commands that are served at once
 * @lane_ns: time of a command in a lane; it varies by @jitter, a fraction
 * @byte_ns: time of a byte on the link
 * @least, @most: size of a command, in sectors
 * @turn_ns: from a completion until the next command reaches the device
 * @depth: commands that the device takes
 * @swing_s: the speed halves and doubles every so many seconds; 0: never
 * @change_s: after so many seconds @lane_ns and @byte_ns become the next two; 0: never
 */
struct device {
	double lanes, lane_ns, jitter, byte_ns, least, most, turn_ns, depth, swing_s;
	double change_s, then_lane_ns, then_byte_ns;
};

/*
 * @queued: how many commands are queued at a time
 * @pause: if it is not 0: when all have ended, as many are queued again after this time, in s;
 *	otherwise each command is replaced as soon as it has ended
 * @think: the mean time until it is replaced, in s
 * @group: so many are replaced together
 * @more_s, @more: after so many seconds so many more are queued; 0: never
 * @chain: a file is saved, again and again, by so many groups of @wide commands of a page, 0.2 ms
 *	after each other, which go before the others; 10 ms later the next time
 * @seconds, @judged: end of the simulation; what comes before @judged does not count
 */
struct load {
	double queued, pause, think, group, more_s, more, chain, wide, seconds, judged;
};

/*
 * @cmds, @bytes: a second, from @judged on; @all_cmds: from the begin on
 * @low, @high: the learned depth, from @judged on
 * @limit_low, @limit_high: the same with the tries
 * @wait: the longest time from queueing to completion, in s
 * @depth: the mean of the learned depth, over time
 * @save: the median time to save a file, in ms
 * @late: when the learned depth was last above 3, in s
 */
struct result {
	double cmds, bytes, all_cmds, low, high, limit_low, limit_high, wait, steps, depth, save,
	       late;
};

/* A command ends, or another one comes. */
struct event {
	double at, came;
	unsigned int sectors;
	enum { ENDS, SAVED, COMES, SAVES } what;
};

static struct event heap[2 * QUEUED + 2];
static unsigned int nr_events;
static u64 state;

static unsigned int number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 32;
}

static double fraction(void)
{
	return number() / 4294967296.0;
}

/* A random number whose logarithm is evenly distributed. */
static double between(double low, double high)
{
	return low * pow(high / low, fraction());
}

static void seed(u64 one, u64 two)
{
	int i;

	state = (one * 1000003 + two + 1) * 0x9e3779b97f4a7c15ULL | 1;
	for (i = 0; i < 10; i++)
		number();
}

static void add_event(struct event new)
{
	unsigned int i = nr_events++;

	for (; i && heap[(i - 1) / 2].at > new.at; i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = new;
}

static struct event next_event(void)
{
	struct event first = heap[0], last = heap[--nr_events];
	unsigned int i = 0, child;

	while ((child = 2 * i + 1) < nr_events) {
		if (child + 1 < nr_events && heap[child + 1].at < heap[child].at)
			child++;
		if (heap[child].at >= last.at)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return first;
}

/* What the device is busy with. */
static double link_free, lane_free[LANES];	/* LANES lanes are as good as any number */

/* Gives a command to the device. @saves: of a page, which saves a file. */
static void issue(const struct device *d, double now, double came, bool saves)
{
	bool halved = d->swing_s && (u64)(now / (d->swing_s * SECOND)) & 1;
	bool changed = d->change_s && now >= d->change_s * SECOND;
	double lane_ns = changed ? d->then_lane_ns : d->lane_ns;
	double byte_ns = changed ? d->then_byte_ns : d->byte_ns;
	double speed = halved ? 0.5 : 1, at = now ? now + d->turn_ns : 0;
	struct event new = { .came = came, .what = saves ? SAVED : ENDS };
	unsigned int lane = 0, i;

	new.sectors = saves ? 8 :
		      d->least + number() % (unsigned int)(d->most - d->least + 1);
	if (byte_ns) {
		link_free = fmax(link_free, at) + new.sectors * SECTOR * byte_ns / speed;
		at = link_free;
		speed = 1;
	}
	new.at = at + lane_ns * (1 + d->jitter * (2 * fraction() - 1)) / speed;
	if (d->lanes < LANES) {
		for (i = 1; i < d->lanes; i++) {
			if (lane_free[i] < lane_free[lane])
				lane = i;
		}
		new.at += fmax(lane_free[lane] - at, 0);
		lane_free[lane] = new.at;
	}
	add_event(new);
}

static int compare(const void *one, const void *two)
{
	double by = *(const double *)one - *(const double *)two;

	return (by > 0) - (by < 0);
}

/* The commands that wait, in the order in which they came. */
struct queue {
	double came[QUEUED];
	unsigned int first, nr;
};

static void enqueue(struct queue *q, double now)
{
	q->came[(q->first + q->nr++) % QUEUED] = now;
}

static double dequeue(struct queue *q)
{
	double came = q->came[q->first];

	q->first = (q->first + 1) % QUEUED;
	q->nr--;
	return came;
}

/* Replaces a command of @load that has ended. */
static void replace(const struct load *load, struct queue *q, unsigned int *gone, double now)
{
	unsigned int i;

	if (++*gone < load->group)
		return;
	for (i = *gone; i; i--) {
		if (load->think)
			add_event((struct event){ .what = COMES, .at = now - load->think * SECOND *
						  log(1 - fraction()) });
		else
			enqueue(q, now);
	}
	*gone = 0;
}

/* Runs a load. @learn: with a learned depth; otherwise the device gets all that it takes. */
static struct result run(const struct device *d, const struct load *load, bool learn)
{
	const struct smq_learn_bounds bounds = { .least = 1, .most = d->depth };
	struct result r = { .low = MOST, .limit_low = MOST };
	unsigned int inflight = 0, gone = 0, links = 0, nr_saves = 0, i;
	double now = 0, from = 0, save_from = 0, was;
	static double saves[SAVES_KEPT];
	struct queue waiting = { 0 };
	unsigned int saving = 0, saved = 0;
	bool more = load->more_s;
	struct smq_learn l;
	u64 done = 0;

	smq_learn_init(&l, &bounds, 0);
	nr_events = 0;
	link_free = 0;
	memset(lane_free, 0, sizeof(lane_free));
	for (i = 0; i < load->queued; i++)
		enqueue(&waiting, 0);
	if (load->chain)
		add_event((struct event){ .what = SAVES });
	while (now < load->seconds * SECOND) {
		unsigned int limit = learn ? l.limit : bounds.most;
		struct event ended;

		if (!limit)
			exit(3);
		for (; saving && inflight < limit; saving--, inflight++)
			issue(d, now, now, true);
		for (; waiting.nr && inflight < limit; inflight++)
			issue(d, now, dequeue(&waiting), false);
		l.lacked |= waiting.nr || saving;
		ended = next_event();
		was = now;
		now = ended.at;
		if (from)
			r.depth += l.depth * (now - was);
		if (more && now >= load->more_s * SECOND) {
			more = false;
			for (i = 0; i < load->more; i++)
				enqueue(&waiting, now);
		}
		if (ended.what == COMES) {
			enqueue(&waiting, now);
			continue;
		}
		if (ended.what == SAVES) {
			if (!links)
				save_from = now;
			saving = load->wide;
			continue;
		}
		inflight--;
		if (ended.what == ENDS)
			r.wait = fmax(r.wait, (now - ended.came) / SECOND);
		if (!waiting.nr && !saving)
			smq_learn_left(&l, inflight);
		done += SMQ_LEARN_ONE + ended.sectors;
		if (learn && smq_learn_is_due(done, l.due)) {
			smq_learn_step(&l, &bounds, done, inflight + 1, now);
			r.steps++;
		}
		if (ended.what == SAVED) {
			if (++saved < load->wide)
				continue;
			saved = 0;
			if (++links < load->chain) {
				add_event((struct event){ .what = SAVES, .at = now + 2e5 });
				continue;
			}
			links = 0;
			if (from && nr_saves < SAVES_KEPT)
				saves[nr_saves++] = (now - save_from) / 1e6;
			add_event((struct event){ .what = SAVES, .at = now + 1e7 });
			continue;
		}
		r.all_cmds++;
		if (!load->pause) {
			replace(load, &waiting, &gone, now);
		} else if (!waiting.nr && !inflight) {
			now += load->pause * SECOND;
			for (i = 0; i < load->queued; i++)
				enqueue(&waiting, now);
		}
		if (now < load->judged * SECOND)
			continue;
		if (!from) {
			from = now;
			continue;
		}
		r.cmds++;
		r.bytes += ended.sectors * SECTOR;
		r.low = fmin(r.low, l.depth);
		r.high = fmax(r.high, l.depth);
		r.limit_low = fmin(r.limit_low, l.limit);
		r.limit_high = fmax(r.limit_high, l.limit);
		if (l.depth > 3)
			r.late = now / SECOND;
	}
	r.all_cmds *= SECOND / now;
	r.cmds *= SECOND / (now - from);
	r.bytes *= SECOND / (now - from);
	r.depth /= now - from;
	qsort(saves, nr_saves, sizeof(saves[0]), compare);
	r.save = nr_saves ? saves[nr_saves / 2] : 0;
	return r;
}

/* Bandwidth times latency, in commands. */
static double needed(const struct device *d, double *a_second)
{
	double transfer = (d->least + d->most) / 2 * SECTOR * d->byte_ns;
	double every = fmax(transfer, d->lane_ns / d->lanes);

	*a_second = SECOND / every;
	return fmin((transfer + d->lane_ns + d->turn_ns) / every, d->depth);
}

/* A random device of up to 20000 commands a second. */
static void invent(struct device *d)
{
	double kib[] = { 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
	double mean, slower;

	*d = (struct device){ .depth = MOST, .lanes = LANES, .turn_ns = between(2e3, 5e4) };
	d->least = kib[number() % 9] * 2;
	d->most = d->least;
	if (number() % 3 == 0) {
		d->least = 8;
		d->most = 1024 + number() % 1025;
	}
	d->jitter = number() % 2 ? 0 : 0.3 * fraction();
	mean = (d->least + d->most) / 2 * SECTOR;
	switch (number() % 3) {
	case 0:
		d->lanes = floor(between(1, 100));
		d->lane_ns = between(1e5, d->lanes > 20 ? 2e7 : 5e7);
		break;
	case 1:
		d->lanes = 1;
		d->lane_ns = between(2e5, 5e7);
		break;
	default:
		d->byte_ns = between(2e5, 5e7) / mean;
		d->lane_ns = fmin(d->byte_ns * mean * between(1, 60), 5e7);
		break;
	}
	needed(d, &slower);
	slower = fmax(slower / 20000, 1);
	d->lane_ns *= slower;
	d->byte_ns *= slower;
}

static void print(const char *name, const struct device *d, double need, const struct result *r,
		  double ratio)
{
	printf("%s{\"lanes\": %g, \"lane_ms\": %.3f, \"jitter\": %.2f, \"transfer_ms\": %.3f, "
	       "\"sectors\": [%g, %g], \"turn_us\": %.0f, \"need\": %.2f, \"low\": %g, "
	       "\"high\": %g, \"limit_low\": %g, \"limit_high\": %g, \"ratio\": %.4f, "
	       "\"cmds\": %.1f, \"wait\": %.3f, \"steps\": %g, \"depth\": %.2f, \"save\": %.1f, "
	       "\"late\": %.2f}", name, d->lanes, d->lane_ns / 1e6,
	       d->jitter, (d->least + d->most) / 2 * SECTOR * d->byte_ns / 1e6, d->least, d->most,
	       d->turn_ns / 1e3, need, r->low, r->high, r->limit_low, r->limit_high, ratio, r->cmds,
	       r->wait, r->steps, r->depth, r->save, r->late);
}

/*
 * Whether the device needs a larger depth than bandwidth times latency, because its commands vary:
 * with @high less a quarter it is slower by more than 2 %.
 */
static bool needs_more(const struct device *d, const struct load *load, double high, double bytes)
{
	struct device less = *d;

	less.depth = fmax(ceil((high - 2) / 1.25) - 1, 2);
	return run(&less, load, false).bytes < 0.98 * bytes;
}

static int many(u64 first, unsigned int nr)
{
	unsigned int i, mixed = 0, starved = 0;
	const char *comma = "";
	double all = 0;

	printf("{\"bad\": [");
	for (i = 0; i < nr; i++) {
		struct load load = { .queued = QUEUED };
		struct result learned, free;
		double need, rate, ratio;
		struct device d;
		u64 kept;

		seed(first, i);
		invent(&d);
		need = needed(&d, &rate);
		/* 200 commands are 2 s at 100 commands a second. */
		load.judged = fmax(2, 200 / rate);
		load.seconds = 3 * load.judged;
		kept = state;
		learned = run(&d, &load, true);
		state = kept;
		free = run(&d, &load, false);
		ratio = fmin(learned.bytes / free.bytes, learned.cmds / free.cmds);
		all += learned.all_cmds / free.all_cmds;
		mixed += d.least != d.most;
		if (ratio >= 0.97 && learned.low >= need * 0.75 - 1 &&
		    learned.wait < 2 * free.wait + 1 &&
		    (learned.high <= need * 1.25 + 2 ||
		     needs_more(&d, &load, learned.high, free.bytes)))
			continue;
		starved += learned.wait >= 2 * free.wait + 1;
		print(comma, &d, need, &learned, ratio);
		comma = ",\n";
	}
	printf("], \"mixed\": %u, \"starved\": %u, \"all\": %.4f}\n", mixed, starved, all / nr);
	return 0;
}

static int one(int argc, char **argv)
{
	struct device d = { .lanes = LANES, .least = 8, .most = 8, .turn_ns = 2e4, .depth = MOST };
	struct load load = { .queued = QUEUED, .wide = 1, .seconds = 6, .judged = 2 };
	const struct { const char *name; double *to; } words[] = {
		{ "lanes", &d.lanes }, { "lane_ns", &d.lane_ns }, { "jitter", &d.jitter },
		{ "byte_ns", &d.byte_ns }, { "least", &d.least }, { "most", &d.most },
		{ "turn_ns", &d.turn_ns }, { "depth", &d.depth }, { "swing_s", &d.swing_s },
		{ "change_s", &d.change_s }, { "then_lane_ns", &d.then_lane_ns },
		{ "then_byte_ns", &d.then_byte_ns }, { "queued", &load.queued },
		{ "pause", &load.pause }, { "think", &load.think }, { "group", &load.group },
		{ "more_s", &load.more_s }, { "more", &load.more }, { "chain", &load.chain },
		{ "wide", &load.wide },
		{ "seconds", &load.seconds }, { "judged", &load.judged },
	};
	struct result learned, free;
	unsigned int k;
	double rate;
	int i;

	for (i = 0; i < argc; i++) {
		const char *is = strchr(argv[i], '=');

		for (k = 0; is && k < sizeof(words) / sizeof(words[0]); k++) {
			if (strlen(words[k].name) == (size_t)(is - argv[i]) &&
			    !strncmp(words[k].name, argv[i], is - argv[i]))
				break;
		}
		if (!is || k == sizeof(words) / sizeof(words[0]))
			return 2;
		*words[k].to = atof(is + 1);
	}
	seed(1, 1);
	learned = run(&d, &load, true);
	seed(1, 1);
	free = run(&d, &load, false);
	print("", &d, needed(&d, &rate), &learned,
	      fmin(learned.bytes / free.bytes, learned.cmds / free.cmds));
	printf("\n");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "many"))
		return many(atoll(argv[2]), atoi(argv[3]));
	if (argc > 2 && !strcmp(argv[1], "one"))
		return one(argc - 2, argv + 2);
	return 2;
}
