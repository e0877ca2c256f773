// SPDX-License-Identifier: GPL-2.0
/* sg_io info: a device, its host and its limits. */
#include <argp.h>
#include <json-c/json.h>
#include <limits.h>
#include <scsi/sg_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "commands.h"
#include "inuse.h"
#include "util.h"

struct show {
	struct json_object *json;	/* NULL: text */
};

/* An unknown value becomes null, which json-c writes for a NULL pointer. */
static void show_number(struct show *s, const char *key, const char *label, __s64 n,
			const char *unit)
{
	if (s->json)
		json_object_object_add(s->json, key, n < 0 ? NULL : json_object_new_int64(n));
	else if (n >= 0)
		printf("%-22s %lld%s\n", label, n, unit);
	else
		printf("%-22s not known\n", label);
}

static void show_text(struct show *s, const char *key, const char *label, const char *text)
{
	if (s->json)
		json_object_object_add(s->json, key, *text ? json_object_new_string(text) : NULL);
	else
		printf("%-22s %s\n", label, *text ? text : "none");
}

/*
 * Shows what uses the disk: sg_io run then refuses writes without --force. And shows which
 * processes have it open: either makes smq_conv refuse to claim it.
 */
static void show_use(struct show *s, const struct device *dev)
{
	char why[INUSE_REASON] = "", names[INUSE_OPENERS];

	inuse_try(dev, why, NULL);
	show_text(s, "in_use", "in use", why);
	inuse_openers(dev, names);
	show_text(s, "open_in", "open in", names);
}

/*
 * For a device that smq_conv has claimed: shows how many commands have bypassed smq_conv since the
 * claim. Programs sent them to the device's own nodes, or the lower mid-layer sent them itself.
 */
static void show_bypassed(struct show *s, const struct device *dev)
{
	FILE *claims = fopen("/sys/bus/scsi/drivers/smq_conv/claims", "re");
	char lower[DEV_NAME];
	unsigned int count;
	__s64 bypassed = -1;

	_Static_assert(DEV_NAME > 31, "the width in fscanf()");
	while (claims && fscanf(claims, "%31s %*s %u", lower, &count) == 2)
		if (!strcmp(lower, dev->hctl))
			bypassed = count;
	if (claims)
		fclose(claims);
	if (s->json || bypassed >= 0)
		show_number(s, "bypassed", "commands past smq_conv", bypassed, "");
}

static void show_nodes(struct show *s, const struct device *dev)
{
	struct show nodes = { .json = s->json ? json_object_new_object() : NULL };

	show_text(&nodes, "block", "block node", dev->node[NODE_BLOCK]);
	show_text(&nodes, "sg", "sg node", dev->node[NODE_SG]);
	show_text(&nodes, "bsg", "bsg node", dev->node[NODE_BSG]);
	show_text(&nodes, "smq", "smqsg node", dev->node[NODE_SMQ]);
	if (s->json)
		json_object_object_add(s->json, "nodes", nodes.json);
}

static void show_device(struct show *s, const struct device *dev, const struct answers *a)
{
	char type[64] = "", state[24] = "";

	show_text(s, "device", "device", dev->given);
	show_text(s, "hctl", "H:C:T:L", dev->hctl);
	show_text(s, "vendor", "vendor", a->vendor);
	show_text(s, "model", "model", a->product);
	show_text(s, "rev", "revision", a->revision);
	if (a->inquiry)
		sg_get_pdt_str(a->type, sizeof(type), type);
	show_text(s, "type", "type", type);
	show_number(s, "blocks", "blocks", a->blocks ? (__s64)a->blocks : -1, "");
	show_number(s, "block_size", "block size", a->block_size ? (__s64)a->block_size : -1,
		    " bytes");
	show_number(s, "physical_block_size", "physical block size",
		    a->physical_size ? (__s64)a->physical_size : -1, " bytes");
	show_number(s, "capacity_bytes", "capacity",
		    a->blocks ? (__s64)(a->blocks * a->block_size) : -1, " bytes");
	sysfs_read(dev->sysfs, "state", state, sizeof(state));
	show_text(s, "state", "state", state);
	show_number(s, "queue_depth", "queue depth", sysfs_number(dev->sysfs, "queue_depth"), "");
}

static __s64 kib_to_sectors(__s64 kib)
{
	return kib < 0 ? kib : kib * 2;
}

static void show_limits(struct show *s, const struct device *dev)
{
	__s64 max = -1, hw = -1;

	if (dev->queue[0]) {
		max = sysfs_number(dev->queue, "max_sectors_kb");
		hw = sysfs_number(dev->queue, "max_hw_sectors_kb");
	}
	show_number(s, "max_sectors", "max sectors (block)", kib_to_sectors(max), " of 512 bytes");
	show_number(s, "max_hw_sectors", "max sectors (hardware)", kib_to_sectors(hw),
		    " of 512 bytes");
}

/* Whether smq_sg takes the short ways through the block layer; an older smq_sg does not say. */
static void show_checked(struct show *s)
{
	char text[8] = "";

	sysfs_read("/sys/module/smq_sg/parameters", "checked_kernel", text, sizeof(text));
	if (s->json)
		json_object_object_add(s->json, "checked_kernel",
				       *text ? json_object_new_boolean(*text == 'Y') : NULL);
	else if (*text)
		printf("%-22s %s\n", "smqsg checked kernel", *text == 'Y' ? "yes" :
		       "no: commands take the long way, see docs/fast-path.md, Kernels");
}

/* The limits and counters of the smqsg node, from sysfs. */
static void show_smq(struct show *s, const struct device *dev)
{
	static const struct {
		const char *name, *label, *unit;
	} attributes[] = {
		{ "depth", "smqsg depth", "" },
		{ "inflight", "smqsg in flight", "" },
		{ "share", "smqsg share of a file", "" },
		{ "waiting", "smqsg waiting", "" },
		{ "max_waiting", "smqsg max waiting", " per file" },
		{ "refused", "smqsg refused", "" },
		{ "pool_share", "smqsg pool share", " percent" },
		{ "pool", "smqsg idle requests", "" },
		{ "own_queue_exists", "smqsg own queue", "" },
		{ "max_transfer", "smqsg max transfer", " bytes" },
		{ "max_segments", "smqsg max segments", "" },
	};
	struct show smq = {};
	unsigned int i;

	if (!dev->smq[0]) {
		if (s->json)
			json_object_object_add(s->json, "smq", NULL);
		return;
	}
	smq.json = s->json ? json_object_new_object() : NULL;
	for (i = 0; i < ARRAY_SIZE(attributes); i++)
		show_number(&smq, attributes[i].name, attributes[i].label,
			    sysfs_number(dev->smq, attributes[i].name), attributes[i].unit);
	show_checked(&smq);
	if (s->json)
		json_object_object_add(s->json, "smq", smq.json);
}

static void show_host(struct show *s, const struct device *dev)
{
	struct show host = { .json = s->json ? json_object_new_object() : NULL };
	int number = atoi(dev->hctl);
	char dir[64], name[64] = "";

	snprintf(dir, sizeof(dir), "/sys/class/scsi_host/host%d", number);
	sysfs_read(dir, "proc_name", name, sizeof(name));
	show_number(&host, "number", "host", number, "");
	show_text(&host, "proc_name", "host driver", name);
	show_number(&host, "can_queue", "can_queue", sysfs_number(dir, "can_queue"), "");
	show_number(&host, "cmd_per_lun", "cmd_per_lun", sysfs_number(dir, "cmd_per_lun"), "");
	show_number(&host, "nr_hw_queues", "nr_hw_queues", sysfs_number(dir, "nr_hw_queues"), "");
	show_number(&host, "sg_tablesize", "sg_tablesize", sysfs_number(dir, "sg_tablesize"), "");
	if (s->json)
		json_object_object_add(s->json, "host", host.json);
}

struct info_options {
	const char *dev;
	bool json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct info_options *o = state->input;

	switch (key) {
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->dev)
			argp_error(state, "'%s': one device at a time", arg);
		o->dev = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->dev)
			argp_error(state, "DEV is missing");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int cmd_info(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "One JSON object; unknown values are null", 0 },
		{ 0 }
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "DEV",
		.doc =
		"Show a device, its host, its limits and what uses it, from sysfs, /proc and\n"
		"the device itself.\v"
		"Example:\n"
		"  sg_io info /dev/sg0\n",
	};
	struct info_options o = {};
	struct answers a = {};
	struct show s = {};
	struct device dev;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (device_find(o.dev, &dev) || ask_device(&dev, &a))
		return EXIT_DEVICE;
	if (o.json)
		s.json = json_object_new_object();
	show_device(&s, &dev, &a);
	show_limits(&s, &dev);
	show_host(&s, &dev);
	show_nodes(&s, &dev);
	show_use(&s, &dev);
	show_bypassed(&s, &dev);
	show_smq(&s, &dev);
	if (s.json) {
		puts(json_object_to_json_string_ext(s.json, JSON_C_TO_STRING_PRETTY |
						    JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(s.json);
	}
	return finish_output(EXIT_GOOD);
}
