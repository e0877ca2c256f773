// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <scsi/smq_sg.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tally.h"

/*
 * Larger than any errno of user space. The kernel's internal errnos, from 512 on, must not reach
 * a program.
 */
#define ERRNOS		134
/* Index in shared->ends: 0 success, an errno, or one of these. */
#define STATUS		ERRNOS		/* the device reported a status */
#define ODD		(ERRNOS + 1)	/* a number that is not an errno */
#define ENDS		(ERRNOS + 2)
#define MOST_LISTS	2
#define LINE		160

#define ERRNO_LIST(...)	((const unsigned char[]){ __VA_ARGS__, 0 })

/*
 * The errnos that a run may end with: those of struct smq_sg_run in <scsi/smq_sg.h>. In addition
 * EBADF: the descriptor is closed; EFAULT: the SQE names a registered buffer that the ring does not
 * have.
 */
static const unsigned char run_errnos[] = {
	EAGAIN, EBUSY, ECANCELED, EINVAL, EMSGSIZE, ENODATA, ENODEV, ENOENT, ENOMEM, EOPNOTSUPP,
	EPERM, ERANGE, ETIMEDOUT, EIO, EBADF, EFAULT, 0
};

/*
 * The errnos of a batch as a whole. The results of its commands are in the status of their slots.
 * EINTR: a timed batch whose worker was interrupted.
 */
static const unsigned char batch_errnos[] = {
	EAGAIN, ECANCELED, EINVAL, EFAULT, ENODEV, ENOMEM, EOPNOTSUPP, EPERM, ETIMEDOUT, EBADF,
	ENODATA, ERANGE, EINTR, 0
};

static const unsigned char sg_errnos[] = {
	EPERM, EINVAL, EFAULT, ENOMEM, EMSGSIZE, ENODEV, ENXIO, EAGAIN, EDOM, ETIMEDOUT, EINTR,
	EOPNOTSUPP, ENOSYS, EBUSY, ECANCELED, EIO, EBADF, 0
};

static const unsigned char open_errnos[] = {
	ENXIO, ENODEV, ENOENT, EBUSY, EACCES, EPERM, ENOMEM, EINTR, 0
};

/* The name of each operation, and the errnos that the interface documents for it. */
static const struct {
	const char *name;
	const unsigned char *allowed[MOST_LISTS];
} ops[OPS] = {
	[OP_TASK] = { "task" },
	[OP_OPEN] = { "open", { open_errnos } },
	[OP_EXCL] = { "open O_EXCL", { open_errnos } },
	[OP_INFO] = { "INFO", { ERRNO_LIST(ENODEV, EFAULT) } },
	[OP_SETUP] = { "SETUP", { ERRNO_LIST(EINVAL, EBUSY, ENOMEM, ENODEV, EFAULT) } },
	[OP_MMAP] = { "mmap", { ERRNO_LIST(ENXIO, EINVAL, EACCES, EPERM, ENOMEM, EAGAIN,
					   ENODEV) } },
	[OP_LEND] = { "BUFFER lend", { ERRNO_LIST(EPERM, EEXIST, ENOMEM, EFAULT, EOPNOTSUPP,
						  EINVAL, ENODEV, EINTR) } },
	[OP_TAKE_BACK] = { "BUFFER back", { ERRNO_LIST(EPERM, ENOENT, EBUSY, EINVAL, ENODEV) } },
	[OP_PREPARE] = { "PREPARE", { ERRNO_LIST(EBUSY, EPERM, ERANGE, ENOENT, EINVAL, EMSGSIZE,
						 EFAULT, ENODEV, ENOMEM, EINTR) } },
	/* ENOTTY: the module does not have SMQ_SG_FEATURE_CANCEL. */
	[OP_CANCEL] = { "CANCEL", { ERRNO_LIST(EALREADY, ENOENT, EPERM, EINVAL, ENODEV, ENOTTY) } },
	[OP_RUN] = { "SQE run", { run_errnos } },
	[OP_BATCH] = { "SQE batch", { batch_errnos } },
	[OP_RUN_IOCTL] = { "RUN", { batch_errnos, ERRNO_LIST(ENOENT) } },
	[OP_ADHOC] = { "SQE ad hoc", { run_errnos } },
	[OP_SG_IO3] = { "SG_IO v3", { sg_errnos } },
	[OP_SG_IO4] = { "SG_IO v4", { sg_errnos } },
	[OP_WRITE] = { "write", { sg_errnos } },
	[OP_READ] = { "read", { sg_errnos, ERRNO_LIST(ENODATA) } },
	[OP_POLL] = { "poll", { ERRNO_LIST(EINTR) } },
	[OP_QUERY] = { "sg query", { ERRNO_LIST(EIO, EINVAL, EFAULT, ENOMEM, ENODEV, ENXIO) } },
	[OP_RING] = { "ring", { ERRNO_LIST(EINVAL, ENOMEM, EPERM, EAGAIN, EINTR) } },
	[OP_REGISTER] = { "register", { ERRNO_LIST(ENOMEM, EBADF, EFAULT, EOPNOTSUPP, EINTR,
						   EBUSY, EINVAL) } },
	[OP_ENTER] = { "submit", { ERRNO_LIST(EBUSY, EAGAIN, EINTR, ENOMEM, EBADR,
					      EOWNERDEAD) } },
	[OP_PASS] = { "pass fd", { ERRNO_LIST(EBADF, EMFILE, ETOOMANYREFS, EINTR) } },
	[OP_CLOSE_RACE] = { "close race", { ERRNO_LIST(EBADF) } },
	[OP_FORK] = { "fork", { ERRNO_LIST(EAGAIN, ENOMEM) } },
	[OP_EXEC] = { "exec", { ERRNO_LIST(EAGAIN, ENOMEM) } },
	[OP_OWN_WRITE] = { "own write", { run_errnos, sg_errnos } },
	[OP_OWN_READ] = { "own read", { run_errnos, sg_errnos } },
	[OP_SIGNAL] = { "signal", { ERRNO_LIST(ESRCH) } },
};

static struct shared {
	atomic_ulong failures;
	atomic_ulong ends[OPS][ENDS];
} *shared;

static struct {
	unsigned int worker;
	unsigned long task;
	uint64_t seed;
	bool known;
} self;

void tally_begin(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		err(2, "memory for counts");
}

void report_as(unsigned int worker, unsigned long task, uint64_t seed)
{
	self = (typeof(self)){ worker, task, seed, true };
}

void report(const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	atomic_fetch_add(&shared->failures, 1);
	if (self.known)
		fprintf(stderr, "fuzz: FAILURE: worker %u task %lu seed %#llx: %s\n", self.worker,
			self.task, (unsigned long long)self.seed, line);
	else
		fprintf(stderr, "fuzz: FAILURE: %s\n", line);
}

void report_more(const char *format, ...)
{
	char line[LINE];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "fuzz:   worker %u task %lu: %s\n", self.worker, self.task, line);
}

unsigned long failures(void)
{
	return atomic_load(&shared->failures);
}

void tally_field(enum op op, int result, uint32_t field)
{
	tally(op, result);
	if (field > SMQ_SG_FIELD_FILE || (field && result >= 0))
		report("a call that ended with %d names field %u", result, field);
}

int result_of(long ret)
{
	return ret < 0 ? -errno : 0;
}

static bool is_allowed(enum op op, int error)
{
	const unsigned char *allowed;
	unsigned int i;

	for (i = 0; i < MOST_LISTS && ops[op].allowed[i]; i++)
		for (allowed = ops[op].allowed[i]; *allowed; allowed++)
			if (*allowed == error)
				return true;
	return false;
}

void tally(enum op op, int result)
{
	int end = result > 0 ? STATUS : -result;

	if (result < 0 && !is_allowed(op, -result)) {
		report("%s ended with %d (%s)", ops[op].name, result, strerror(-result));
		end = -result < ERRNOS ? -result : ODD;
	}
	atomic_fetch_add_explicit(&shared->ends[op][end], 1, memory_order_relaxed);
}

static unsigned long sum(enum op op)
{
	unsigned long total = 0;
	unsigned int end;

	for (end = 0; end < ENDS; end++)
		total += atomic_load(&shared->ends[op][end]);
	return total;
}

void tally_progress(unsigned int seconds, unsigned int running)
{
	unsigned int op;

	printf("%u s: %u processes", seconds, running);
	for (op = 0; op < OPS; op++)
		if (sum(op))
			printf(", %s %lu", ops[op].name, sum(op));
	printf("\n");
	fflush(stdout);
}

static void print_ends(enum op op)
{
	unsigned int end;

	for (end = 0; end < ENDS; end++) {
		unsigned long count = atomic_load(&shared->ends[op][end]);
		const char *name = end ? strerrorname_np(end) : "ok";

		if (end == STATUS)
			name = "status";
		if (end == ODD)
			name = "no errno";
		if (count)
			printf("  %s %lu", name ? name : "unknown", count);
	}
}

void tally_summary(void)
{
	unsigned int op;

	for (op = 0; op < OPS; op++) {
		if (!sum(op))
			continue;
		printf("%-12s %9lu:", ops[op].name, sum(op));
		print_ends(op);
		printf("\n");
	}
	fflush(stdout);
}
