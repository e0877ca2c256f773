// SPDX-License-Identifier: GPL-2.0
#include <stdlib.h>
#include <string.h>

#include "fidelity.h"

/* A command with what makes it equal to another. */
struct key {
	const struct command *cmd;
	__u8 dev;	/* as in the replay */
	__u32 nth;	/* index in its file */
};

static int by_command(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int diff;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	if (x->cmd->cdb_len != y->cmd->cdb_len)
		return x->cmd->cdb_len < y->cmd->cdb_len ? -1 : 1;
	diff = memcmp(cdb_of(x->cmd), cdb_of(y->cmd), x->cmd->cdb_len);
	return diff;
}

/* Equal commands by their order in time. */
static int by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;
	int diff = by_command(a, b);

	if (diff)
		return diff;
	if (x->cmd->at_us != y->cmd->at_us)
		return x->cmd->at_us < y->cmd->at_us ? -1 : 1;
	return x->nth < y->nth ? -1 : 1;
}

static struct key *sorted(const struct cmdfile *file, const int *devs, size_t *nr)
{
	struct key *keys = calloc(file->nr + 1, sizeof(*keys));
	size_t i;

	*nr = 0;
	for (i = 0; keys && i < file->nr; i++) {
		if (devs && devs[file->cmds[i].dev] < 0)
			continue;
		keys[(*nr)++] = (struct key){
			.cmd = &file->cmds[i], .nth = i,
			.dev = devs ? devs[file->cmds[i].dev] : file->cmds[i].dev,
		};
	}
	if (keys)
		qsort(keys, *nr, sizeof(*keys), by_key);
	return keys;
}

static __u64 first_us(const struct cmdfile *file)
{
	__u64 first = ~0ULL;
	size_t i;

	for (i = 0; i < file->nr; i++)
		first = file->cmds[i].at_us < first ? file->cmds[i].at_us : first;
	return first;
}

static struct pair pair_of(const struct cmdfile *a, const struct cmdfile *b, const struct key *x,
			   const struct key *y, double speed, __u64 first)
{
	bool cpus = x->cmd->cpu != CPU_ANY && y->cmd->cpu != CPU_ANY;

	return (struct pair){
		.due = (x->cmd->at_us - first) * 1000 / speed,
		.late = y->cmd->at_us * 1000,
		.took = cmdfile_took(a, x->nth),
		.retook = cmdfile_took(b, y->nth),
		.dev = y->dev,
		.same_cpu = cpus && x->cmd->cpu == y->cmd->cpu,
		.other_cpu = cpus && x->cmd->cpu != y->cmd->cpu,
	};
}

static int by_due(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->due != y->due)
		return x->due < y->due ? -1 : 1;
	return (x->late > y->late) - (x->late < y->late);
}

/*
 * The clocks of the two recordings have nothing in common. So the command that was the least late
 * is taken as punctual.
 */
static void set_lateness(struct fidelity *f)
{
	__s64 least = INT64_MAX;
	size_t i;

	for (i = 0; i < f->nr; i++) {
		f->pairs[i].late -= f->pairs[i].due;
		least = f->pairs[i].late < least ? f->pairs[i].late : least;
	}
	for (i = 0; i < f->nr; i++)
		f->pairs[i].late -= least;
}

/* How many keys from @at on are of equal commands. */
static size_t count_equal(const struct key *keys, size_t at, size_t nr)
{
	size_t n;

	for (n = 1; at + n < nr && !by_command(&keys[at], &keys[at + n]); n++)
		;
	return n;
}

bool fidelity_match(const struct cmdfile *original, const struct cmdfile *replayed, double speed,
		    const int *devs, struct fidelity *f)
{
	size_t nr_a, nr_b, a = 0, b = 0, more_a, more_b, i, k;
	struct key *x = sorted(original, devs, &nr_a), *y = sorted(replayed, NULL, &nr_b);
	__u64 first = first_us(original);
	int diff;

	f->pairs = calloc(original->nr + 1, sizeof(*f->pairs));
	if (!x || !y || !f->pairs) {
		free(x);
		free(y);
		return false;
	}
	while (a < nr_a && b < nr_b) {
		diff = by_command(&x[a], &y[b]);
		if (diff) {
			a += diff < 0;
			b += diff > 0;
			continue;
		}
		more_a = count_equal(x, a, nr_a);
		more_b = count_equal(y, b, nr_b);
		/* What only the replay has came first: it looks for a file system. */
		i = more_b > more_a ? more_b - more_a : 0;
		for (k = 0; k < more_a && i + k < more_b; k++)
			f->pairs[f->nr++] = pair_of(original, replayed, &x[a + k], &y[b + i + k],
						    speed, first);
		a += more_a;
		b += more_b;
	}
	f->missing = original->nr - f->nr;
	f->extra = replayed->nr - f->nr;
	free(x);
	free(y);
	set_lateness(f);
	qsort(f->pairs, f->nr, sizeof(*f->pairs), by_due);
	return true;
}
