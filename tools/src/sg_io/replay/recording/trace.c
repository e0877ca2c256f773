// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kbuffer.h>
#include <tracefs.h>

#include "trace.h"
#include "util.h"

#define SYSTEM		"scsi"
#define INSTANCE "sg_io." /* followed by the process ID */
#define PATH_BYTES	128
#define FILTER_BYTES	100	/* for each device */

static const char * const event_names[] = {
	[TRACE_START] = "scsi_dispatch_cmd_start",
	[TRACE_REFUSED] = "scsi_dispatch_cmd_error",
	[TRACE_DONE] = "scsi_dispatch_cmd_done",
};

#define EVENTS		ARRAY_SIZE(event_names)

static const char * const address_names[] = { "host_no", "channel", "id", "lun" };

/* The layout of an event in this kernel. */
struct layout {
	struct tep_event *event;
	struct tep_format_field *tag;
	struct tep_format_field *data;
	struct tep_format_field *prot;
	struct tep_format_field *result;	/* NULL if the event has none */
	struct tep_format_field *address[4];	/* host, channel, ID and LUN of the device */
};

/* The address of a device, as the events have it: only the lower 32 bits of the LUN. */
struct address {
	__u32 part[4];
};

struct trace {
	struct address devs[TRACE_DEVICES];
	unsigned int nr_devs;
	struct tracefs_instance *instance;
	struct tep_handle *tep;
	struct layout layouts[EVENTS];
	struct tracefs_cpu **cpus;
	unsigned int nr_cpus;
	struct kbuffer *kbuf;
	void *page;
	unsigned int most_pages;	/* to read from a CPU at a time: about its whole buffer */
	__u32 order;
};

/* Removes the instance of a killed sg_io: it costs memory, and time for each command. */
static int remove_stale(const char *name, void *context)
{
	const char *number = name + sizeof(INSTANCE) - 1;
	struct tracefs_instance *old;

	(void)context;
	if (strncmp(name, INSTANCE, sizeof(INSTANCE) - 1) || !*number ||
	    number[strspn(number, "0123456789")] || !kill(atoi(number), 0) || errno != ESRCH)
		return 0;
	old = tracefs_instance_alloc(NULL, name);
	if (!old)
		return 0;
	tracefs_event_disable(old, SYSTEM, NULL);
	tracefs_instance_destroy(old);
	tracefs_instance_free(old);
	return 0;
}

static int find_layouts(struct trace *t)
{
	static const char * const systems[] = { SYSTEM, NULL };
	struct layout *l;
	unsigned int i, k;

	t->tep = tracefs_local_events_system(NULL, systems);
	for (i = 0; i < EVENTS; i++) {
		l = &t->layouts[i];
		l->event = t->tep ? tep_find_event_by_name(t->tep, SYSTEM, event_names[i]) : NULL;
		if (!l->event) {
			warnx("tracing: this kernel has no event " SYSTEM ":%s", event_names[i]);
			return -1;
		}
		l->tag = tep_find_field(l->event, "driver_tag");
		l->data = tep_find_field(l->event, "data_sglen");
		l->prot = tep_find_field(l->event, "prot_sglen");
		l->result = tep_find_field(l->event, "result");
		for (k = 0; k < 4; k++)
			l->address[k] = tep_find_field(l->event, address_names[k]);
		if (!l->address[0] || !l->address[1] || !l->address[2] || !l->address[3] ||
		    !l->tag || !l->data || !l->prot || !tep_find_field(l->event, "cmnd") ||
		    (i == TRACE_DONE && !l->result)) {
			warnx("tracing: " SYSTEM ":%s lacks a field that is needed: host_no, "
			      "channel, id, lun, driver_tag, cmnd, data_sglen, prot_sglen or result",
			      event_names[i]);
			return -1;
		}
	}
	return 0;
}

static int set(const struct trace *t, const char *file, const char *value)
{
	if (tracefs_instance_file_write(t->instance, file, value) >= 0)
		return 0;
	warn("tracing: writing '%s' to %s", value, file);
	return -1;
}

static int add_devices(struct trace *t, const struct device *devs, unsigned int nr)
{
	__u32 *part;
	__u64 lun;

	for (; t->nr_devs < nr; t->nr_devs++) {
		part = t->devs[t->nr_devs].part;
		if (sscanf(devs[t->nr_devs].hctl, "%u:%u:%u:%llu", &part[0], &part[1], &part[2],
			   &lun) != 4) {
			warnx("%s: %s is not H:C:T:L", devs[t->nr_devs].given,
			      devs[t->nr_devs].hctl);
			return -1;
		}
		part[3] = lun;
	}
	return 0;
}

static int enable(const struct trace *t)
{
	char path[PATH_BYTES], filter[TRACE_DEVICES * FILTER_BYTES];
	unsigned int i, len = 0;
	const __u32 *part;

	for (i = 0; i < t->nr_devs; i++) {
		part = t->devs[i].part;
		len += snprintf(filter + len, sizeof(filter) - len,
				"%s(host_no==%u&&channel==%u&&id==%u&&lun==%u)", i ? "||" : "",
				part[0], part[1], part[2], part[3]);
	}
	for (i = 0; i < EVENTS; i++) {
		snprintf(path, sizeof(path), "events/" SYSTEM "/%s/filter", event_names[i]);
		if (set(t, path, filter))
			return -1;
	}
	/* Enable the last event first: each command with a start event then has an end event. */
	for (i = EVENTS; i--;) {
		if (!tracefs_event_enable(t->instance, SYSTEM, event_names[i]))
			continue;
		warn("tracing: enabling " SYSTEM ":%s", event_names[i]);
		return -1;
	}
	return 0;
}

static int open_cpus(struct trace *t, unsigned int buffer_kb)
{
	long nr = sysconf(_SC_NPROCESSORS_CONF), i;
	struct tracefs_cpu *cpu;
	int bytes;

	t->cpus = calloc(nr, sizeof(struct tracefs_cpu *));
	if (!t->cpus) {
		warnx("tracing: no memory");
		return -1;
	}
	for (i = 0; i < nr; i++) {
		cpu = tracefs_cpu_open(t->instance, i, true);
		if (!cpu) {
			warn("tracing: opening the buffer of CPU %ld", i);
			return -1;
		}
		t->cpus[t->nr_cpus++] = cpu;
	}
	bytes = t->nr_cpus ? tracefs_cpu_read_size(t->cpus[0]) : -1;
	if (bytes <= 0) {
		warnx("tracing: the size of the buffers' pages is not known");
		return -1;
	}
	t->page = malloc(bytes);
	/* 16 more, because pages that are read while events are added are not full. */
	t->most_pages = ((__u64)buffer_kb << 10) / bytes + 16;
	t->kbuf = kbuffer_alloc(sizeof(long) == 8 ? KBUFFER_LSIZE_8 : KBUFFER_LSIZE_4,
				tep_is_local_bigendian(t->tep) ? KBUFFER_ENDIAN_BIG :
				KBUFFER_ENDIAN_LITTLE);
	if (t->page && t->kbuf)
		return 0;
	warnx("tracing: no memory");
	return -1;
}

struct trace *trace_start(const struct device *devs, unsigned int nr, unsigned int buffer_kb)
{
	struct trace *t = calloc(1, sizeof(*t));
	char name[32], kb[32];

	if (!t) {
		warnx("no memory");
		return NULL;
	}
	if (!tracefs_tracing_dir()) {
		warnx("tracing: no tracefs on this kernel, or no permission to use it");
		goto fail;
	}
	tracefs_instances_walk(remove_stale, NULL);
	snprintf(name, sizeof(name), INSTANCE "%d", getpid());
	errno = 0;
	t->instance = tracefs_instance_create(name);
	if (!t->instance) {
		warn("tracing%s: creating an instance (%s/instances)",
		     errno == EACCES ? " needs root" : "", tracefs_tracing_dir());
		goto fail;
	}
	snprintf(kb, sizeof(kb), "%u", buffer_kb);
	/* A full buffer drops new events, not old ones, so the lost events are consecutive. */
	if (find_layouts(t) || set(t, "trace_clock", "mono") || set(t, "buffer_size_kb", kb) ||
	    set(t, "options/overwrite", "0") || open_cpus(t, buffer_kb) ||
	    add_devices(t, devs, nr) || enable(t))
		goto fail;
	return t;
fail:
	trace_close(t);
	return NULL;
}

/* The index of the device that an event is of. */
static unsigned int device_of(const struct trace *t, const struct layout *l,
			      const struct tep_record *record)
{
	unsigned long long value;
	struct address a = {};
	unsigned int i;

	if (t->nr_devs == 1)
		return 0;
	for (i = 0; i < 4; i++)
		if (!tep_read_number_field(l->address[i], record->data, &value))
			a.part[i] = value;
	for (i = 0; i + 1 < t->nr_devs; i++)
		if (!memcmp(&a, &t->devs[i], sizeof(a)))
			break;
	return i;
}

static bool decode(struct trace *t, struct tep_record *record, struct trace_event *e)
{
	int id = tep_data_type(t->tep, record), len = 0;
	unsigned long long value;
	struct layout *l;
	const void *cdb;
	unsigned int i;

	for (i = 0; i < EVENTS && t->layouts[i].event->id != id; i++)
		;
	if (i == EVENTS)
		return false;
	l = &t->layouts[i];
	*e = (struct trace_event){
		.ns = record->ts, .order = t->order++, .cpu = record->cpu, .kind = i,
	};
	e->dev = device_of(t, l, record);
	cdb = tep_get_field_raw(NULL, l->event, "cmnd", record, &len, 0);
	if (!cdb || len < 1)
		return false;
	e->cdb_len = len > CDB_MAX ? 0 : len;
	memcpy(e->cdb, cdb, e->cdb_len);
	tep_read_number_field(l->tag, record->data, &value);
	e->tag = value;
	tep_read_number_field(l->data, record->data, &value);
	e->has_data = value;
	tep_read_number_field(l->prot, record->data, &value);
	e->protected = value;
	if (l->result && !tep_read_number_field(l->result, record->data, &value))
		e->result = value;
	return true;
}

static bool read_page(struct trace *t, unsigned int cpu,
		      bool (*take)(const struct trace_event *event, void *arg), void *arg)
{
	struct tep_record record = { .cpu = cpu };
	struct trace_event event;

	kbuffer_load_subbuffer(t->kbuf, t->page);
	while ((record.data = kbuffer_read_event(t->kbuf, &record.ts))) {
		record.size = kbuffer_event_size(t->kbuf);
		if (decode(t, &record, &event) && !take(&event, arg))
			return false;
		kbuffer_next_event(t->kbuf, NULL);
	}
	return true;
}

bool trace_read(struct trace *t, bool (*take)(const struct trace_event *event, void *arg),
		void *arg)
{
	unsigned int i, n;
	int got = 0;

	for (i = 0; i < t->nr_cpus; i++) {
		/* A CPU that fills its buffer as fast as it is read must not block the others. */
		for (n = 0; n < t->most_pages; n++) {
			got = tracefs_cpu_read(t->cpus[i], t->page, true);
			if (got <= 0)
				break;
			if (!read_page(t, i, take, arg))
				return false;
		}
		/* A CPU that was never online has no buffer. */
		if (got < 0 && errno != EAGAIN && errno != EINTR && errno != ENODEV) {
			warn("tracing: reading the buffer of CPU %u", i);
			return false;
		}
	}
	return true;
}

void trace_stop(struct trace *t)
{
	/* Events end one kind after the other: without this, some would lack their start. */
	tracefs_trace_off(t->instance);
	tracefs_event_disable(t->instance, SYSTEM, NULL);
}

/* Adds the number of line @name in a CPU's "stats" to @sum. Returns false without such a line. */
static bool add_stat(const char *stats, const char *name, __u64 *sum)
{
	const char *at = strstr(stats, name);

	/* Search at the start of a line, because "commit overrun" contains "overrun". */
	while (at && at != stats && at[-1] != '\n')
		at = strstr(at + 1, name);
	if (!at)
		return false;
	*sum += strtoull(at + strlen(name), NULL, 10);
	return true;
}

bool trace_lost(const struct trace *t, __u64 *events)
{
	static const char * const names[] = { "overrun: ", "commit overrun: ", "dropped events: " };
	char path[PATH_BYTES], *stats;
	bool known = true;
	unsigned int i, k;

	*events = 0;
	for (i = 0; i < t->nr_cpus; i++) {
		snprintf(path, sizeof(path), "per_cpu/cpu%u/stats", i);
		stats = tracefs_instance_file_read(t->instance, path, NULL);
		for (k = 0; k < ARRAY_SIZE(names); k++)
			known &= stats && add_stat(stats, names[k], events);
		free(stats);
	}
	return known;
}

void trace_close(struct trace *t)
{
	unsigned int i;

	for (i = 0; i < t->nr_cpus; i++)
		tracefs_cpu_close(t->cpus[i]);
	if (t->instance) {
		tracefs_event_disable(t->instance, SYSTEM, NULL);
		tracefs_instance_destroy(t->instance);
		tracefs_instance_free(t->instance);
	}
	if (t->kbuf)
		kbuffer_free(t->kbuf);
	if (t->tep)
		tep_free(t->tep);
	free(t->page);
	free(t->cpus);
	free(t);
}
