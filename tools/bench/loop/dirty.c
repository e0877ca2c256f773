// SPDX-License-Identifier: GPL-2.0
/*
 * Does async and sync writes at the same time. Async writers write blocks to the page cache and
 * start their writeback; sync writers write a block and fsync() it. Async and sync writers use
 * different nodes, two partitions of a disk, so that fsync() waits only for pages of sync writers.
 * At the end the program reads back and compares all data.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "devices.h"
#include "option.h"

#define STACK		(64 << 10)
#define MAX_WRITERS	8192
#define MAX_SYNCERS	256
#define MAX_SYNCS	100000
#define SYNC_BS		4096
#define GRACE		2	/* s */
/*
 * How many blocks a writer has. Each burst writes every second block, so that no two blocks of a
 * burst are adjacent.
 */
#define PLACES		(2 * opt.burst)

static struct {
	unsigned int bs, burst, writers, syncers, after_ms, every_us, syncs, seconds, rounds, first;
	bool direct;
	struct devices devices;
} opt = { .bs = SYNC_BS, .burst = 1, .writers = 64, .syncers = 1, .after_ms = 1000, .syncs = 100 };

struct writer {
	unsigned int n;
	unsigned long ops;	/* blocks that are on the disk */
	unsigned int *wrote;	/* for each place: the round that wrote its block last, or 0 */
};

struct syncer {
	unsigned int n;
	unsigned int done;
	double *ms;		/* how long each write took */
	unsigned int wrote;	/* the round that wrote the block last, or 0 */
};

static struct writer writers[MAX_WRITERS];
static struct syncer syncers[MAX_SYNCERS];
static int async_fd, sync_fd;
static struct timespec began;
/* Any thread may set and read these, by __atomic_ functions. */
static bool stop, failed;

static double since_ms(const struct timespec *then)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - then->tv_sec) * 1e3 + (now.tv_nsec - then->tv_nsec) / 1e6;
}

static void wait_until_ms(double ms)
{
	double left = ms - since_ms(&began);

	if (left > 0)
		usleep(left * 1000);
}

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	__atomic_store_n(&failed, true, __ATOMIC_RELAXED);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
}

static bool is_over(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void fill(void *block, unsigned int bs, unsigned long where, unsigned int round)
{
	unsigned long *words = block;
	unsigned int i;

	for (i = 0; i < bs / sizeof(*words); i++)
		words[i] = where << 32 ^ (unsigned long)round << 8 ^ i;
}

static off_t place_of(const struct writer *w, unsigned int place)
{
	return ((off_t)w->n * PLACES + place) * opt.bs;
}

/*
 * Starts a burst of async writes, and waits until all of them have ended: so a writer never has
 * more than one burst in flight.
 */
static bool write_burst(struct writer *w, unsigned int round, void *block)
{
	unsigned int i, place;

	for (i = 0; i < opt.burst; i++) {
		place = 2 * i + round % 2;
		fill(block, opt.bs, place_of(w, place), round);
		if (pwrite(async_fd, block, opt.bs, place_of(w, place)) != (ssize_t)opt.bs)
			return false;
		w->wrote[place] = round;
		/*
		 * Only SYNC_FILE_RANGE_WRITE: with all three flags of sync_file_range() the kernel
		 * would do sync writes.
		 */
		if (sync_file_range(async_fd, place_of(w, place), opt.bs, SYNC_FILE_RANGE_WRITE))
			return false;
	}
	for (i = 0; i < opt.burst; i++) {
		if (sync_file_range(async_fd, place_of(w, 2 * i + round % 2), opt.bs,
				    SYNC_FILE_RANGE_WAIT_AFTER))
			return false;
		w->ops++;
	}
	return true;
}

static void *write_async(void *arg)
{
	struct writer *w = arg;
	void *block = malloc(opt.bs);
	unsigned int round;

	for (round = 1; block && !is_over() && (!opt.rounds || round <= opt.rounds); round++)
		if (!write_burst(w, round, block))
			fail("an async write");
	free(block);
	return NULL;
}

static void *write_sync(void *arg)
{
	struct syncer *s = arg;
	char block[SYNC_BS] __attribute__((aligned(SYNC_BS)));
	struct timespec then;

	wait_until_ms(opt.after_ms);
	while (!is_over() && s->done < opt.syncs &&
	       (!opt.seconds || since_ms(&began) < opt.after_ms + opt.seconds * 1e3)) {
		fill(block, sizeof(block), s->n, ++s->wrote);
		clock_gettime(CLOCK_MONOTONIC, &then);
		if (pwrite(sync_fd, block, sizeof(block), (off_t)s->n * SYNC_BS) != SYNC_BS ||
		    (!opt.direct && fsync(sync_fd))) {
			fail("a sync write");
			break;
		}
		s->ms[s->done++] = since_ms(&then);
		if (opt.every_us)
			usleep(opt.every_us);
	}
	return NULL;
}

/* Returns whether @bs bytes of @node, from byte @at on, hold the data that round @round wrote. */
static bool is_there(const char *node, off_t at, unsigned int bs, unsigned long where,
		     unsigned int round)
{
	static void *is, *should;
	int fd = open(node, O_RDONLY | O_DIRECT);
	bool good;

	if (!is && (posix_memalign(&is, 4096, 8 << 20) || posix_memalign(&should, 4096, 8 << 20)))
		return false;
	fill(should, bs, where, round);
	good = fd >= 0 && pread(fd, is, bs, at) == (ssize_t)bs && !memcmp(is, should, bs);
	if (fd >= 0)
		close(fd);
	if (!good)
		fprintf(stderr, "%s: the data at %ld is not what was written\n", node, (long)at);
	return good;
}

static bool verify(void)
{
	unsigned int n, place;

	if (fsync(async_fd) || fsync(sync_fd))
		return false;
	for (n = 0; n < opt.writers; n++)
		for (place = 0; place < PLACES; place++) {
			struct writer *w = &writers[n];

			if (w->wrote[place] &&
			    !is_there(opt.devices.names[0], place_of(w, place), opt.bs,
				      place_of(w, place), w->wrote[place]))
				return false;
		}
	for (n = 0; n < opt.syncers; n++)
		if (syncers[n].wrote && !is_there(opt.devices.names[1], (off_t)n * SYNC_BS, SYNC_BS,
						  n, syncers[n].wrote))
			return false;
	return true;
}

/* Returns how many async writes have ended so far. */
static unsigned long async_ops(void)
{
	unsigned long sum = 0;
	unsigned int n;

	for (n = 0; n < opt.writers; n++)
		sum += __atomic_load_n(&writers[n].ops, __ATOMIC_RELAXED);
	return sum;
}

static void report(double ms, unsigned long ops, double window_ms, bool good)
{
	const char *comma = "";
	unsigned int n, i;

	printf("{\"ms\": %.3f, \"window_ms\": %.3f, \"async_ops\": %lu, \"bs\": %u, ", ms,
	       window_ms, ops, opt.bs);
	printf("\"verified\": %s, \"sync_ms\": [", good ? "true" : "false");
	for (n = 0; n < opt.syncers; n++)
		for (i = 0; i < syncers[n].done; i++, comma = ", ")
			printf("%s%.3f", comma, syncers[n].ms[i]);
	printf("]}\n");
}

/*
 * Writes opt.first bytes before the measurement. This uses up the bytes that a policy with a rate
 * limit lets through at once after the disk was idle.
 */
static bool write_first(void)
{
	int fd = open(opt.devices.names[0], O_WRONLY | O_DIRECT);
	void *block;
	bool good;

	if (fd < 0 || posix_memalign(&block, SYNC_BS, opt.first))
		return false;
	memset(block, 0, opt.first);
	good = pwrite(fd, block, opt.first, 0) == (ssize_t)opt.first;
	free(block);
	close(fd);
	return good;
}

/*
 * Waits until the syncers have ended; with --seconds at most until GRACE seconds after that time.
 * The async writers of one CPU can take every place at the device as soon as it is free: then a
 * sync write that the block layer has queued ends only after all async writes. Returns how many
 * syncers have ended.
 */
static unsigned int join_syncers(const pthread_t *threads)
{
	struct timespec end = began;
	unsigned int n;

	end.tv_sec += opt.after_ms / 1000 + opt.seconds + GRACE;
	for (n = 0; n < opt.syncers; n++) {
		if (!opt.seconds)
			pthread_join(threads[n], NULL);
		else if (pthread_clockjoin_np(threads[n], NULL, CLOCK_MONOTONIC, &end))
			break;
	}
	return n;
}

static bool run(void)
{
	pthread_t *threads = calloc(opt.writers + opt.syncers, sizeof(*threads));
	unsigned long before;
	struct timespec then;
	pthread_attr_t attr;
	double window, ms;
	unsigned int n, joined;
	bool good;

	if (opt.first && !write_first())
		fail("the first write");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (n = 0; n < opt.writers + opt.syncers; n++) {
		bool async = n < opt.writers;

		errno = pthread_create(&threads[n], &attr, async ? write_async : write_sync,
				       async ? (void *)&writers[n] :
				       (void *)&syncers[n - opt.writers]);
		if (errno) {
			fail("a thread");
			return false;
		}
	}
	wait_until_ms(opt.after_ms);
	clock_gettime(CLOCK_MONOTONIC, &then);
	before = async_ops();
	joined = join_syncers(threads + opt.writers);
	window = since_ms(&then);
	before = async_ops() - before;
	__atomic_store_n(&stop, !opt.rounds, __ATOMIC_RELAXED);
	for (n = joined; n < opt.syncers; n++)
		pthread_join(threads[opt.writers + n], NULL);
	for (n = 0; n < opt.writers; n++)
		pthread_join(threads[n], NULL);
	ms = since_ms(&began);
	good = !failed && verify();
	report(ms, opt.rounds ? async_ops() : before, window, good);
	return good;
}

static const char help[] =
"usage: dirty [options] ASYNC SYNC\n"
"Some threads write blocks to ASYNC through the page cache. Other threads write 4096 bytes to\n"
"SYNC and fsync() them.\n"
"  --writers N      threads that do async writes (64)\n"
"  --bs BYTES       size of an async write (4096)\n"
"  --burst N        async writes that each writer has in flight (1)\n"
"  --rounds N       bursts of each writer (0: until the sync writes have ended)\n"
"  --first BYTES    before all else, write so many bytes to ASYNC by O_DIRECT (0)\n"
"  --syncers N      threads that do sync writes (1)\n"
"  --direct         do sync writes by O_DIRECT without fsync(), which waits for all syncers\n"
"  --after MS       sync writes begin MS milliseconds after async ones (1000)\n"
"  --every US       pause between two writes of a syncer (0)\n"
"  --syncs N        each syncer ends after N writes (100)\n"
"  --seconds S      the syncers end after S seconds (0: no limit)\n"
"Reads back and compares all data. Prints a line of JSON.\n";

static const struct option_spec options[] = {
	OPTION_NUMBER("writers", opt.writers, 0, MAX_WRITERS),
	OPTION_NUMBER("syncers", opt.syncers, 1, MAX_SYNCERS),
	OPTION_NUMBER("burst", opt.burst, 1, 1024),
	OPTION_BYTES("bs", opt.bs, SYNC_BS, 8 << 20),
	OPTION_BYTES("first", opt.first, SYNC_BS, 8 << 20),
	OPTION_NUMBER("rounds", opt.rounds, 0, 1000000),
	OPTION_FLAG("direct", opt.direct),
	OPTION_NUMBER("after", opt.after_ms, 0, 600000),
	OPTION_NUMBER("every", opt.every_us, 0, 10000000),
	OPTION_NUMBER("syncs", opt.syncs, 1, MAX_SYNCS),
	OPTION_NUMBER("seconds", opt.seconds, 0, 3600),
	{ }
};

static bool set_up(void)
{
	unsigned int n;

	async_fd = open(opt.devices.names[0], O_RDWR);
	sync_fd = open(opt.devices.names[1], O_RDWR | (opt.direct ? O_DIRECT : 0));
	if (async_fd < 0 || sync_fd < 0) {
		perror("open");
		return false;
	}
	for (n = 0; n < opt.writers; n++) {
		writers[n].n = n;
		writers[n].wrote = calloc(PLACES, sizeof(*writers[n].wrote));
		if (!writers[n].wrote)
			return false;
	}
	for (n = 0; n < opt.syncers; n++) {
		syncers[n].n = n;
		syncers[n].ms = calloc(opt.syncs, sizeof(*syncers[n].ms));
		if (!syncers[n].ms)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	option_parse(argc, argv, options, help);
	opt.devices = devices_parse(argc, argv);
	if (opt.devices.nr != 2) {
		fprintf(stderr, "ASYNC SYNC: give two devices\n");
		return 2;
	}
	return set_up() && run() ? 0 : 1;
}
