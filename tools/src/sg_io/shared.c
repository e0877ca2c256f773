// SPDX-License-Identifier: GPL-2.0
#include <sys/mman.h>

#include "shared.h"

void *shared_alloc(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

void shared_free(void *mem, size_t bytes)
{
	if (mem)
		munmap(mem, bytes);
}
