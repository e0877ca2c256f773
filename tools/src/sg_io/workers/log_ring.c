// SPDX-License-Identifier: GPL-2.0
#include <sys/eventfd.h>
#include <time.h>

#include "log_ring.h"
#include "util.h"

#define ENTRIES		(1u << 20)	/* of all rings together */
#define ROOM_MAX	(1u << 16)
#define ROOM_MIN	(1u << 8)
#define WAIT_NS		100000

void log_ring_add(struct log_ring *r, const struct log_entry *entry)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	unsigned int added = atomic_load_explicit(&r->added, memory_order_relaxed);
	unsigned int used;

	while ((used = added - atomic_load_explicit(&r->taken, memory_order_acquire)) == r->room) {
		eventfd_write(r->wake_fd, 1);
		nanosleep(&wait, NULL);
	}
	r->entries[added % r->room] = *entry;
	atomic_store_explicit(&r->added, added + 1, memory_order_release);
	if (used + 1 == r->room / 2)
		eventfd_write(r->wake_fd, 1);
}

bool log_ring_take(struct log_ring *r, struct log_entry *entry)
{
	unsigned int taken = atomic_load_explicit(&r->taken, memory_order_relaxed);

	if (taken == atomic_load_explicit(&r->added, memory_order_acquire))
		return false;
	*entry = r->entries[taken % r->room];
	atomic_store_explicit(&r->taken, taken + 1, memory_order_release);
	return true;
}

struct log_ring *log_rings_new(unsigned int nr, int wake_fd)
{
	struct log_ring *rings = shared_alloc(nr * sizeof(*rings));
	unsigned int room = ROOM_MAX, i;
	struct log_entry *entries;

	while (room > ROOM_MIN && room > ENTRIES / nr)
		room /= 2;
	entries = shared_alloc((size_t)nr * room * sizeof(*entries));
	if (!rings || !entries) {
		shared_free(rings, nr * sizeof(*rings));
		shared_free(entries, (size_t)nr * room * sizeof(*entries));
		return NULL;
	}
	for (i = 0; i < nr; i++) {
		rings[i].room = room;
		rings[i].wake_fd = wake_fd;
		rings[i].entries = entries + (size_t)i * room;
	}
	return rings;
}

void log_rings_free(struct log_ring *rings, unsigned int nr)
{
	if (!rings)
		return;
	shared_free(rings[0].entries, (size_t)nr * rings[0].room * sizeof(*rings[0].entries));
	shared_free(rings, nr * sizeof(*rings));
}
