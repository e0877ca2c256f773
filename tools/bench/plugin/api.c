// SPDX-License-Identifier: GPL-2.0
/*
 * The one function in which the versions of QEMU's plugin API differ, and the version of which QEMU
 * is told. QEMU loads a plugin only if it supports the plugin's version: up to 8.x these are 0 and
 * 1, from 9.0 to 11.0 version 2 and later ones.
 */
#include <string.h>

#include "qemu-plugin.h"

/* From this version on qemu_plugin_insn_data() copies; before, it returns a pointer. */
#define API_COPIES	3

PLUGIN_EXPORT int qemu_plugin_version = 1;

static bool copies;

/* QEMU reads the version after it has loaded the plugin, before it calls anything of it. */
static void __attribute__((constructor)) choose_version(void)
{
	if (qemu_plugin_scoreboard_new)
		qemu_plugin_version = 2;
}

void api_init(const qemu_info_t *info)
{
	copies = info->version.cur >= API_COPIES;
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
