// SPDX-License-Identifier: GPL-2.0
#include "watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watch.skel.h"

struct watch {
	struct watch_bpf *bpf;
	unsigned int nr_cpus;
	struct counters *counters;
	struct opcode *opcodes;
	__u64 *wakeups;
};

static size_t map_bytes(struct bpf_map *map)
{
	size_t page = sysconf(_SC_PAGESIZE);
	size_t bytes = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);

	return (bytes + page - 1) / page * page;
}

static void *map_memory(struct bpf_map *map)
{
	void *memory = mmap(NULL, map_bytes(map), PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(map), 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(struct bpf_map *map, void *memory)
{
	if (memory)
		munmap(memory, map_bytes(map));
}

static int set_sizes(struct watch *w)
{
	return bpf_map__set_max_entries(w->bpf->maps.slots, MAX_LUNS * MAX_TOKENS) ?:
		bpf_map__set_max_entries(w->bpf->maps.counters, w->nr_cpus << LUN_BITS) ?:
		bpf_map__set_max_entries(w->bpf->maps.opcodes, w->nr_cpus << 8) ?:
		bpf_map__set_max_entries(w->bpf->maps.wakeups, MAX_HOSTS);
}

static int map_all(struct watch *w)
{
	w->counters = map_memory(w->bpf->maps.counters);
	w->opcodes = map_memory(w->bpf->maps.opcodes);
	w->wakeups = map_memory(w->bpf->maps.wakeups);
	return w->counters && w->opcodes && w->wakeups ? 0 : -errno;
}

static int no_messages(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static void explain(int error, char *why, size_t size)
{
	if (error == -EPERM)
		snprintf(why, size, "no permission to load BPF programs: they need root's rights");
	else if (access("/sys/kernel/btf/vmlinux", R_OK))
		snprintf(why, size, "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
	else
		snprintf(why, size, "the kernel does not take the BPF programs: %s",
			 strerror(-error));
}

struct watch *watch_open(char *why, size_t size)
{
	struct watch *w = calloc(1, sizeof(*w));
	int error = -ENOMEM;

	if (!w) {
		explain(error, why, size);
		return NULL;
	}
	libbpf_set_print(no_messages);
	w->nr_cpus = libbpf_num_possible_cpus();
	w->bpf = watch_bpf__open();
	if (w->bpf)
		error = set_sizes(w) ?: watch_bpf__load(w->bpf) ?: map_all(w) ?:
			watch_bpf__attach(w->bpf);
	if (!error)
		return w;
	watch_close(w);
	/* A user without rights may not even look for the kernel's types. */
	explain(geteuid() && error != -ENOMEM ? -EPERM : error, why, size);
	return NULL;
}

void watch_close(struct watch *w)
{
	if (w->bpf) {
		unmap(w->bpf->maps.counters, w->counters);
		unmap(w->bpf->maps.opcodes, w->opcodes);
		unmap(w->bpf->maps.wakeups, w->wakeups);
	}
	watch_bpf__destroy(w->bpf);
	free(w);
}

unsigned int watch_cpus(const struct watch *w)
{
	return w->nr_cpus;
}

const struct lun *watch_lun(const struct watch *w, unsigned int entry)
{
	const struct lun *lun = &w->bpf->bss->luns[entry];

	return __atomic_load_n(&lun->known, __ATOMIC_ACQUIRE) ? lun : NULL;
}

const struct counters *watch_counters(const struct watch *w, unsigned int cpu, unsigned int entry)
{
	return &w->counters[cpu << LUN_BITS | entry];
}

const struct opcode *watch_opcode(const struct watch *w, unsigned int cpu, unsigned int opcode)
{
	return &w->opcodes[cpu << 8 | opcode];
}

__u64 watch_wakeups(const struct watch *w, unsigned int host)
{
	return host < MAX_HOSTS ? w->wakeups[host] : 0;
}

const struct lost *watch_lost(const struct watch *w)
{
	return &w->bpf->bss->lost;
}

void watch_forget(struct watch *w, unsigned int entry)
{
	struct lun *lun = &w->bpf->bss->luns[entry];
	unsigned int cpu;

	lun->known = 0;
	for (cpu = 0; cpu < w->nr_cpus; cpu++)
		memset(&w->counters[cpu << LUN_BITS | entry], 0, sizeof(*w->counters));
	__atomic_store_n(&lun->sdev, 0, __ATOMIC_RELEASE);
}

bool watch_failure(const struct watch *w, const struct failure *key, struct failure *next,
		   __u64 *count)
{
	static const struct failure none;
	int fd = bpf_map__fd(w->bpf->maps.failures);
	bool first = !memcmp(key, &none, sizeof(none));

	if (bpf_map_get_next_key(fd, first ? NULL : key, next))
		return false;
	return !bpf_map_lookup_elem(fd, next, count);
}

__u64 watch_missed(const struct watch *w)
{
	struct bpf_program *prog;
	__u64 missed = 0;

	bpf_object__for_each_program(prog, w->bpf->obj) {
		struct bpf_prog_info info = {};
		__u32 size = sizeof(info);

		if (!bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &size))
			missed += info.recursion_misses;
	}
	return missed;
}
