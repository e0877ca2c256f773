// SPDX-License-Identifier: GPL-2.0
/*
 * What differs between the versions of QEMU's plugin API, and the version of which QEMU is told.
 * QEMU loads a plugin only if it supports the plugin's version: up to 8.x these are 0 and 1, from
 * 9.0 to 11.0 version 2 and later ones, in 11.1 only 7.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "qemu-plugin.h"

/* From this version on qemu_plugin_insn_data() copies; before, it returns a pointer. */
#define API_COPIES	3
/* From this version on all callbacks have user data, and none has the plugin's ID. */
#define API_DATA	7

PLUGIN_EXPORT int qemu_plugin_version = 1;

static bool copies, has_data;
static translation_t *translation;
static vcpu_event_t *idle, *resume;

/* Whether this QEMU is 11.1 or newer: no function that it exports says so. */
static bool is_11_1(void)
{
	unsigned int major = 0, minor = 0;
	char command[64];
	FILE *output;

	snprintf(command, sizeof(command), "exec /proc/%d/exe --version", getpid());
	output = popen(command, "r");
	if (!output)
		return false;
	if (fscanf(output, "QEMU emulator version %u.%u", &major, &minor) != 2)
		major = 0;
	pclose(output);
	return major > 11 || (major == 11 && minor >= 1);
}

/* QEMU reads the version after it has loaded the plugin, before it calls anything of it. */
static void __attribute__((constructor)) choose_version(void)
{
	if (qemu_plugin_scoreboard_new)
		qemu_plugin_version = is_11_1() ? API_DATA : 2;
}

void api_init(const qemu_info_t *info)
{
	copies = info->version.cur >= API_COPIES;
	has_data = info->version.cur >= API_DATA;
}

size_t insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes, size_t size)
{
	size_t n = qemu_plugin_insn_size(insn);

	if (n > size)
		n = size;
	if (copies)
		return insn_copy(insn, bytes, n);
	memcpy(bytes, insn_pointer(insn), n);
	return n;
}

static void translated_id(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	translation(tb);
}

static void translated_data(struct qemu_plugin_tb *tb, void *data)
{
	translation(tb);
}

void on_translation(qemu_plugin_id_t id, translation_t *callback)
{
	translation = callback;
	if (has_data)
		register_translation_data(id, translated_data, NULL);
	else
		register_translation_id(id, translated_id);
}

static void idle_id(qemu_plugin_id_t id, unsigned int vcpu)
{
	idle(vcpu);
}

static void idle_data(unsigned int vcpu, void *data)
{
	idle(vcpu);
}

static void resume_id(qemu_plugin_id_t id, unsigned int vcpu)
{
	resume(vcpu);
}

static void resume_data(unsigned int vcpu, void *data)
{
	resume(vcpu);
}

void on_idle_and_resume(qemu_plugin_id_t id, vcpu_event_t *idle_callback,
			vcpu_event_t *resume_callback)
{
	idle = idle_callback;
	resume = resume_callback;
	if (has_data) {
		register_idle_data(id, idle_data, NULL);
		register_resume_data(id, resume_data, NULL);
	} else {
		register_idle_id(id, idle_id);
		register_resume_id(id, resume_id);
	}
}
