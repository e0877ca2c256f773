// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <scsi/sg_cmds_basic.h>
#include <scsi/sg_lib.h>
#include <scsi/sg_unaligned.h>
#include <string.h>

#include "ask.h"
#include "util.h"

#define TRIES	3	/* one or two unit attentions may come first */

static void copy_text(char *to, const __u8 *from, size_t n)
{
	while (n && (from[n - 1] == ' ' || !from[n - 1]))
		n--;
	memcpy(to, from, n);
	to[n] = '\0';
}

static void ask_capacity(int fd, struct answers *a)
{
	__u8 buf[32] = {};
	int ret = SG_LIB_CAT_UNIT_ATTENTION, i;

	for (i = 0; i < TRIES && ret == SG_LIB_CAT_UNIT_ATTENTION; i++)
		ret = sg_ll_readcap_16(fd, false, 0, buf, sizeof(buf), false, 0);
	if (!ret) {
		a->blocks = sg_get_unaligned_be64(buf) + 1;
		a->block_size = sg_get_unaligned_be32(buf + 8);
		a->physical_size = a->block_size << (buf[13] & 0xf);
		return;
	}
	/* Devices before SBC-3 may have only the 10-byte command. */
	ret = SG_LIB_CAT_UNIT_ATTENTION;
	for (i = 0; i < TRIES && ret == SG_LIB_CAT_UNIT_ATTENTION; i++)
		ret = sg_ll_readcap_10(fd, false, 0, buf, 8, false, 0);
	if (ret)
		return;
	a->blocks = (__u64)sg_get_unaligned_be32(buf) + 1;
	a->block_size = sg_get_unaligned_be32(buf + 4);
	a->physical_size = a->block_size;
}

static bool has_blocks(int type)
{
	return type == PDT_DISK || type == PDT_WO || type == PDT_OPTICAL ||
	       type == PDT_RBC || type == PDT_ZBC;
}

static void ask_node(int fd, struct answers *a)
{
	__u8 buf[96] = {};

	if (sg_ll_inquiry(fd, false, false, 0, buf, sizeof(buf), false, 0))
		return;
	a->inquiry = true;
	a->type = buf[0] & 0x1f;
	copy_text(a->vendor, buf + 8, 8);
	copy_text(a->product, buf + 16, 16);
	copy_text(a->revision, buf + 32, 4);
	if (has_blocks(a->type))
		ask_capacity(fd, a);
}

int ask_device(const struct device *dev, struct answers *a)
{
	/* Try the given node first, then the device's other nodes. */
	enum node_kind order[] = { dev->kind, NODE_SG, NODE_BSG, NODE_BLOCK, NODE_SMQ };
	int fd, error = -ENOENT;
	bool opened = false;
	char state[DEVICE_STATE];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(order) && !a->inquiry; i++) {
		if (!dev->node[order[i]][0])
			continue;
		fd = sg_cmds_open_flags(dev->node[order[i]], O_NONBLOCK |
					(order[i] == NODE_BLOCK ? O_RDONLY : O_RDWR), 0);
		if (fd < 0) {
			error = fd;
			continue;
		}
		opened = true;
		ask_node(fd, a);
		sg_cmds_close_device(fd);
	}
	if (opened)
		return 0;
	warnx("%s: %s%s", dev->given, error == -ENOENT ? "has no node to send commands to" :
	      device_strerror(-error), device_state(dev, state));
	return -1;
}
