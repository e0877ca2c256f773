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

#include "target.h"
#include "watch.skel.h"

struct watch {
	struct watch_bpf *bpf;
	unsigned int nr_cpus;
	struct of_cpu *cpus;
	struct of_host *hosts;
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
	return bpf_map__set_max_entries(w->bpf->maps.cpus, w->nr_cpus) ?:
		bpf_map__set_max_entries(w->bpf->maps.hosts, MAX_HOSTS);
}

static int map_all(struct watch *w)
{
	w->cpus = map_memory(w->bpf->maps.cpus);
	w->hosts = map_memory(w->bpf->maps.hosts);
	return w->cpus && w->hosts ? 0 : -errno;
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

static void set_table(struct watch *w)
{
	unsigned int i;

	for (i = 0; i < 1 << HIST_TABLE; i++)
		w->bpf->bss->hist_table[i] = hist_index((__u64)i << HIST_UNIT);
}

/* @eh: with the programs on functions of error handling, which a kernel may not have. */
static void choose(struct watch *w, bool counts, bool eh)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, w->bpf->obj)
		if (strstr(bpf_program__section_name(prog), "scsi_fn/"))
			bpf_program__set_autoload(prog, eh);
	bpf_program__set_autoload(w->bpf->progs.on_start, !counts);
	bpf_program__set_autoload(w->bpf->progs.on_done, !counts);
	bpf_program__set_autoload(w->bpf->progs.on_count, counts);
}

static int try_load(struct watch *w, bool counts, bool eh)
{
	w->bpf = watch_bpf__open();
	if (!w->bpf)
		return -errno;
	set_table(w);
	choose(w, counts, eh);
	return set_sizes(w) ?: watch_bpf__load(w->bpf);
}

static int try_open(struct watch *w, bool counts, bool eh)
{
	int error = target_begin() ? try_load(w, counts, eh) : -ENOENT;

	target_end();
	return error ?: map_all(w) ?: watch_bpf__attach(w->bpf);
}

static void close_bpf(struct watch *w)
{
	if (w->bpf) {
		unmap(w->bpf->maps.cpus, w->cpus);
		unmap(w->bpf->maps.hosts, w->hosts);
	}
	watch_bpf__destroy(w->bpf);
	w->bpf = NULL;
	w->cpus = NULL;
	w->hosts = NULL;
}

struct watch *watch_open(char *why, size_t size, bool counts)
{
	struct watch *w = calloc(1, sizeof(*w));
	int error = -ENOMEM;

	if (!w) {
		explain(error, why, size);
		return NULL;
	}
	libbpf_set_print(no_messages);
	w->nr_cpus = libbpf_num_possible_cpus();
	error = try_open(w, counts, true);
	if (error && error != -EPERM) {
		close_bpf(w);
		error = try_open(w, counts, false);
	}
	if (!error) {
		watch_slow(w, SLOW_MS * 1000000ULL);
		return w;
	}
	watch_close(w);
	/* A user without rights may not even look for the kernel's types. */
	explain(geteuid() && error != -ENOMEM ? -EPERM : error, why, size);
	return NULL;
}

void watch_close(struct watch *w)
{
	close_bpf(w);
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
	return &w->cpus[cpu].luns[entry];
}

const struct opcode *watch_opcode(const struct watch *w, unsigned int cpu, unsigned int opcode)
{
	return &w->cpus[cpu].opcodes[opcode];
}

const struct of_host *watch_host(const struct watch *w, unsigned int host)
{
	static const struct of_host none;

	return host < MAX_HOSTS ? &w->hosts[host] : &none;
}

void watch_sample(struct watch *w, unsigned int every)
{
	/* As many commands without a time as before a timed one: every - 0.5 on average. */
	w->bpf->bss->sample_mask = every > 1 ? 2 * every - 1 : 0;
}

void watch_slow(struct watch *w, __u64 ns)
{
	w->bpf->bss->slow_ns = ns;
}

unsigned int watch_events(const struct watch *w, struct event *events)
{
	unsigned int nr = 0;
	__u64 number = __atomic_load_n(&w->bpf->bss->nr_events, __ATOMIC_ACQUIRE);

	for (; number && nr < EVENTS; number--) {
		const struct event *e = &w->bpf->bss->events[(number - 1) % EVENTS];

		if (__atomic_load_n(&e->number, __ATOMIC_ACQUIRE) != number)
			continue;
		events[nr] = *e;
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		/* It may have been overwritten meanwhile. */
		if (__atomic_load_n(&e->number, __ATOMIC_RELAXED) == number)
			nr++;
	}
	return nr;
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
		memset(&w->cpus[cpu].luns[entry], 0, sizeof(w->cpus->luns[0]));
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
