// SPDX-License-Identifier: GPL-2.0
/*
 * How late a timed batch sends its entries, and how late a sleep of this program ends. Prints the
 * median, the 99th percentile and the maximum, in nanoseconds, which are instructions under icount.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <scsi/smq_sg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>

#define SLOTS		64
#define COUNT		500
#define WARM_UP		50
#define GAP_NS		100000
#define LEAD_NS		1000000

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const int64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print(const char *what, int64_t *late)
{
	int64_t *kept = late + WARM_UP;
	const int nr = COUNT - WARM_UP;

	qsort(kept, nr, sizeof(*kept), compare);
	printf("%s %lld %lld %lld", what, (long long)kept[nr / 2], (long long)kept[nr * 99 / 100],
	       (long long)kept[nr - 1]);
}

/* Sleeps by the kernel's timer, as the floor: no program can be woken sooner. */
static void sleeps(void)
{
	static int64_t late[COUNT];
	const uint64_t start = now() + LEAD_NS;
	int i;

	/* Otherwise the kernel wakes a program up to 50 us later. */
	prctl(PR_SET_TIMERSLACK, 1);
	for (i = 0; i < COUNT; i++) {
		const uint64_t due = start + (uint64_t)i * GAP_NS;
		const struct timespec ts = { due / 1000000000, due % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		late[i] = now() - due;
	}
	print("timer", late);
	printf(" 0\n");
}

/* Runs a timed batch that spins for @spin ns before an entry. @commands: its entries have some. */
static void timed(int fd, const char *what, unsigned int spin, bool commands)
{
	static struct smq_sg_timed_entry entries[COUNT];
	static struct smq_sg_timed_result results[COUNT];
	static int64_t late[COUNT];
	struct smq_sg_timed head = {
		.entries = (uintptr_t)entries, .results = (uintptr_t)results, .spin = spin,
	};
	struct smq_sg_run_batch run = {
		.batch = { .list = (uintptr_t)&head, .count = COUNT, .flags = SMQ_SG_BATCH_TIMED },
	};
	int i;

	for (i = 0; i < COUNT; i++) {
		entries[i] = (struct smq_sg_timed_entry) { .due = LEAD_NS + (uint64_t)i * GAP_NS };
		if (commands)
			entries[i].run.slot = i % SLOTS;
		else
			entries[i].run.flags = SMQ_SG_TIMED_NOTHING;
	}
	if (ioctl(fd, SMQ_SG_RUN, &run) || run.failed)
		errx(1, "SMQ_SG_RUN: errno %d, field %u of entry %u, %u failed", errno, head.field,
		     head.index, run.failed);
	for (i = 0; i < COUNT; i++)
		late[i] = results[i].issued - entries[i].due;
	print(what, late);
	printf(" %llu\n", 100 * head.spun / (COUNT * (unsigned long long)GAP_NS));
}

int main(int argc, char **argv)
{
	struct smq_sg_slot slots[SLOTS] = {};
	struct smq_sg_setup setup = { .slots = SLOTS };
	struct smq_sg_prepare prepare = { .slots = (uintptr_t)slots, .count = SLOTS };
	int fd, i;

	if (argc != 3)
		errx(2, "usage: late /dev/smqsgN SPIN-NS");
	fd = open(argv[1], O_RDWR);
	if (fd < 0)
		err(1, "%s", argv[1]);
	/* TEST UNIT READY */
	for (i = 0; i < SLOTS; i++)
		slots[i].cdb_len = 6;
	if (ioctl(fd, SMQ_SG_SETUP, &setup) || ioctl(fd, SMQ_SG_PREPARE, &prepare))
		err(1, "%s: 64 slots", argv[1]);
	sleeps();
	timed(fd, "sleep", 0, true);
	timed(fd, "sleep-nothing", 0, false);
	timed(fd, "spin", atoi(argv[2]), true);
	timed(fd, "spin-nothing", atoi(argv[2]), false);
	return 0;
}
