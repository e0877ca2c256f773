// SPDX-License-Identifier: GPL-2.0
#include "cost.h"

#include <err.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "empty.skel.h"
#include "watch.h"

#define ROUNDS	20
#define READS	250	/* short, so that some rounds have no tick of the timer */

struct disk {
	int fd;
	void *buffer;
	int block;
};

/* Nanoseconds per READ in the fastest round; negative on an error. */
static double read_ns(const struct disk *d)
{
	unsigned int round, i;
	double best = -1, ns;

	for (round = 0; round < ROUNDS; round++) {
		struct timespec begin, end;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (i = 0; i < READS; i++)
			if (pread(d->fd, d->buffer, d->block, 0) != d->block)
				return -1;
		clock_gettime(CLOCK_MONOTONIC, &end);
		ns = ((end.tv_sec - begin.tv_sec) * 1e9 + end.tv_nsec - begin.tv_nsec) / READS;
		if (best < 0 || ns < best)
			best = ns;
	}
	return best;
}

static double empty_ns(const struct disk *d, char *why, size_t size)
{
	struct empty_bpf *e = empty_bpf__open_and_load();
	double ns = -1;

	if (e && !empty_bpf__attach(e))
		ns = read_ns(d);
	else
		snprintf(why, size, "the kernel does not take the empty BPF programs");
	empty_bpf__destroy(e);
	return ns;
}

static double watched_ns(const struct disk *d, bool counts, unsigned int every, char *why,
			 size_t size)
{
	struct watch *w = watch_open(why, size, counts);
	double ns;

	if (!w)
		return -1;
	watch_sample(w, every);
	ns = read_ns(d);
	watch_close(w);
	return ns;
}

static int print_all(const struct disk *d, const char *name)
{
	char why[256] = "it cannot be read";
	double none, empty, counts = -1, some = -1, all = -1;

	read_ns(d);	/* caches become warm */
	none = read_ns(d);
	/* First, because its messages say what is missing. */
	all = none < 0 ? -1 : watched_ns(d, false, 1, why, sizeof(why));
	empty = all < 0 ? -1 : empty_ns(d, why, sizeof(why));
	if (empty >= 0)
		counts = watched_ns(d, true, 1, why, sizeof(why));
	if (counts >= 0)
		some = watched_ns(d, false, SAMPLE_EVERY, why, sizeof(why));
	if (some < 0) {
		warnx("%s: %s", name, why);
		return -1;
	}
	printf("READ of %d bytes from %s, in ns: %.0f\n", d->block, name, none);
	printf("  two empty programs: %+.0f\n", empty - none);
	printf("  beyond those, --counts: %+.0f\n", counts - empty);
	printf("  beyond those, --sample=%u: %+.0f\n", SAMPLE_EVERY, some - empty);
	printf("  beyond those, --sample=1: %+.0f\n", all - empty);
	return 0;
}

int cost_print(const char *name)
{
	struct disk d = { .fd = open(name, O_RDONLY | O_DIRECT | O_CLOEXEC) };
	int done = -1;

	if (d.fd < 0 || ioctl(d.fd, BLKSSZGET, &d.block) ||
	    posix_memalign(&d.buffer, 4096, d.block))
		warn("%s", name);
	else
		done = print_all(&d, name);
	free(d.buffer);
	if (d.fd >= 0)
		close(d.fd);
	return done;
}
