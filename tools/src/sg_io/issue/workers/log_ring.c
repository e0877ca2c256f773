// SPDX-License-Identifier: GPL-2.0
#include <sys/eventfd.h>
#include <time.h>

#include "log_ring.h"

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

unsigned int log_ring_room(unsigned int nr)
{
	unsigned int room = ROOM_MAX;

	while (room > ROOM_MIN && room > ENTRIES / nr)
		room /= 2;
	return room;
}
