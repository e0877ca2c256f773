// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"

static unsigned long random_state;

int disk_open(const char *device, bool write, unsigned int bs,
	      unsigned long *blocks)
{
	int fd = open(device, (write ? O_RDWR : O_RDONLY) | O_DIRECT);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	if (size < (off_t)bs) {
		fprintf(stderr, "%s: %s\n", device, size < 0 ?
			strerror(errno) : "smaller than one I/O");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	*blocks = size / bs;
	return fd;
}

void disk_seed(unsigned int n)
{
	random_state = 88172645463325252UL * (2 * n + 1);
}

unsigned long disk_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/*
 * Each read compares the node's access time with the node's other times. If the access time is in
 * the same second as another one, each read takes 8 instructions more, and runs would differ. So
 * the first read, which sets the access time, must be in a later second than the last write (or
 * touch) of the node.
 */
void disk_next_second(void)
{
	const struct timespec wait = { .tv_sec = 1, .tv_nsec = 100000000 };

	nanosleep(&wait, NULL);
}
