// SPDX-License-Identifier: GPL-2.0
/* Which command comes next, how large it is, and where. */
#include <math.h>
#include <stdlib.h>

#include "gen.h"
#include "util.h"

/* Ranks from 1 to @nr, of which rank k has a probability proportional to k to the power -@s. */
struct zipf {
	double s;
	double nr;
	double low;	/* integral() where the area of rank 1 begins */
	double high;	/* integral() where the area of rank @nr ends */
};

struct choice {
	const struct load *load;
	__u64 state;		/* of the random numbers */
	__u64 grid;		/* distance of the places, in blocks */
	__u64 places;		/* that have room for each size; 0: 2^64 */
	struct zipf zipf;
	__u64 scatter;		/* rank times this is the place, so that hot places are apart */
	__u64 part;		/* load_part() */
	unsigned int turn;	/* the stream of the next command */
	__u64 next[];		/* by stream: where it goes on */
};

static unsigned int draw(const struct mix *m, __u64 *state)
{
	unsigned int i = 0;
	__u64 n;

	if (m->nr == 1)
		return 0;
	for (n = prng_below(state, m->sum); n >= m->share[i]; i++)
		n -= m->share[i];
	return i;
}

static __u64 least_of(const struct load *l)
{
	__u64 least = l->blocks[0];
	unsigned int i;

	for (i = 1; i < l->size_mix.nr; i++)
		if (l->blocks[i] < least)
			least = l->blocks[i];
	return least;
}

__u64 load_most(const struct load *l)
{
	__u64 most = l->blocks[0];
	unsigned int i;

	for (i = 1; i < l->size_mix.nr; i++)
		if (l->blocks[i] > most)
			most = l->blocks[i];
	return most;
}

__u64 load_part(const struct load *l)
{
	/* One less than the blocks of the range, which always fits into 64 bits. */
	__u64 span = l->last - l->first, part;

	part = span / l->streams + (l->streams > 1 && span % l->streams == l->streams - 1);
	return part - part % least_of(l);
}

/*
 * Rejection-inversion (W. Hoermann, G. Derflinger, 1996): a rank is drawn from the area below the
 * curve x^-s, whose integral has an inverse, and is kept with the probability that the curve is
 * above. Neither time nor memory depends on the number of ranks.
 */
static double integral(const struct zipf *z, double x)
{
	double l = log(x), t = (1 - z->s) * l;

	/* (x^(1-s) - 1) / (1-s), which is log(x) for s = 1 */
	return fabs(t) > 0.00000001 ? expm1(t) / t * l : l * (1 + t / 2);
}

static double inverse(const struct zipf *z, double y)
{
	double t = y * (1 - z->s);

	if (t < -1)
		t = -1;
	return exp(fabs(t) > 0.00000001 ? log1p(t) / t * y : y * (1 - t / 2));
}

static void zipf_init(struct zipf *z, double s, __u64 nr)
{
	*z = (struct zipf){ .s = s, .nr = nr };
	z->low = integral(z, 1.5) - 1;
	z->high = integral(z, nr + 0.5);
}

static __u64 zipf_draw(const struct zipf *z, __u64 *state)
{
	double u, k;

	do {
		u = (prng_next(state) >> 11) / (double)(1ULL << 53);
		u = z->high + u * (z->low - z->high);
		k = floor(inverse(z, u) + 0.5);
		if (k < 1)
			k = 1;
		if (k > z->nr)
			k = z->nr;
	} while (u < integral(z, k + 0.5) - pow(k, -z->s));
	return k;
}

static __u64 common_divisor(__u64 a, __u64 b)
{
	__u64 rest;

	while (b) {
		rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

struct choice *choice_new(const struct load *l)
{
	struct choice *c = calloc(1, sizeof(*c) + l->streams * sizeof(c->next[0]));
	unsigned int i;

	if (!c)
		return NULL;
	c->load = l;
	c->state = l->seed;
	c->grid = least_of(l);
	c->places = (l->last - l->first - (load_most(l) - 1)) / c->grid + 1;
	if (l->zipf) {
		c->places = c->places ?: ~0ULL;
		zipf_init(&c->zipf, l->zipf, c->places);
		/* The golden ratio spreads them most evenly. */
		c->scatter = c->places * 0.618033988749895;
		while (common_divisor(c->scatter, c->places) != 1)
			c->scatter++;
	}
	c->part = load_part(l);
	for (i = 0; i < l->streams; i++)
		c->next[i] = l->first + i * c->part;
	return c;
}

static __u64 random_lba(struct choice *c)
{
	const struct load *l = c->load;
	__u64 place;

	if (l->zipf)
		place = (__uint128_t)zipf_draw(&c->zipf, &c->state) * c->scatter % c->places;
	else
		place = c->places ? prng_below(&c->state, c->places) : prng_next(&c->state);
	return l->first + place * c->grid;
}

/* Each stream goes on where it ended, and begins again at the end of its part of the range. */
static __u64 stream_lba(struct choice *c, __u64 blocks)
{
	const struct load *l = c->load;
	__u64 *next = &c->next[c->turn], lba;
	__u64 first = l->first + c->turn * c->part;
	__u64 last = c->turn + 1 < l->streams ? first + c->part - 1 : l->last;

	c->turn = (c->turn + 1) % l->streams;
	lba = *next < first || *next > last || last - *next < blocks - 1 ? first : *next;
	*next = lba + blocks;
	return lba;
}

void choice_next(struct choice *c, struct load_command *cmd)
{
	const struct load *l = c->load;

	*cmd = (struct load_command){ .op = l->ops[draw(&l->op_mix, &c->state)] };
	if (!cmd->op->lba_len)
		return;
	cmd->blocks = l->blocks[draw(&l->size_mix, &c->state)];
	cmd->lba = l->random ? random_lba(c) : stream_lba(c, cmd->blocks);
}
