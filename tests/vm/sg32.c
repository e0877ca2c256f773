// SPDX-License-Identifier: GPL-2.0
/*
 * Prints what a program gets from an sg node. The output has no addresses, so a 32-bit
 * and a 64-bit build print the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bsg.h>
#include <poll.h>
#include <scsi/sg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned char inquiry[6] = { 0x12, 0, 0, 0, 96, 0 };
static unsigned char far_read[10] = { 0x28, 0, 0x40, 0, 0, 0, 0, 0, 1, 0 };
static unsigned char data[4096] __attribute__((aligned(4096)));
static unsigned char sense[64];

static void clear(void)
{
	memset(data, 0xa5, sizeof(data));
	memset(sense, 0xa5, sizeof(sense));
}

/*
 * Prints data and sense data. After a failed command sg copies whatever its own buffer holds to the
 * caller, so data is printed only if the command was good.
 */
static void print_memory(int good)
{
	int i;

	printf(" data");
	for (i = 0; good && i < 100; i++)
		printf(" %02x", data[i]);
	printf(" sense");
	for (i = 0; i < 20; i++)
		printf(" %02x", sense[i]);
	printf("\n");
}

static void print_v3(const char *name, int ret, const struct sg_io_hdr *h)
{
	printf("%s: %d errno %d: %d %d %u %u %u %u %u %x %d %d", name, ret, ret < 0 ? errno : 0,
	       h->interface_id, h->dxfer_direction, h->cmd_len, h->mx_sb_len, h->iovec_count,
	       h->dxfer_len, h->timeout, h->flags, h->pack_id, h->usr_ptr == (void *)0x1234);
	printf(" | %u %u %u %u %u %u %d %x", h->status, h->masked_status, h->msg_status,
	       h->sb_len_wr, h->host_status, h->driver_status, h->resid, h->info);
	print_memory(ret == 0 && !h->status);
}

static struct sg_io_hdr v3(unsigned char *cdb, unsigned int cdb_len, unsigned int len)
{
	struct sg_io_hdr h = {
		.interface_id = 'S', .dxfer_direction = SG_DXFER_FROM_DEV, .cmd_len = cdb_len,
		.mx_sb_len = sizeof(sense), .dxfer_len = len, .dxferp = data, .cmdp = cdb,
		.sbp = sense, .timeout = 60000, .pack_id = 77, .usr_ptr = (void *)0x1234,
	};

	clear();
	return h;
}

static void sync_v3(int fd)
{
	struct sg_iovec pieces[2] = { { data + 1, 10 }, { data + 20, 86 } };
	struct sg_io_hdr h = v3(inquiry, sizeof(inquiry), 96);

	print_v3("v3", ioctl(fd, SG_IO, &h), &h);
	h = v3(far_read, sizeof(far_read), 512);
	print_v3("v3 refused", ioctl(fd, SG_IO, &h), &h);
	h = v3(inquiry, sizeof(inquiry), 96);
	h.dxferp = pieces;
	h.iovec_count = 2;
	print_v3("v3 iovec", ioctl(fd, SG_IO, &h), &h);
	h = v3(inquiry, sizeof(inquiry), 96);
	h.dxferp = (void *)16;
	print_v3("v3 bad data", ioctl(fd, SG_IO, &h), &h);
	h = v3(inquiry, 5, 96);
	print_v3("v3 bad length", ioctl(fd, SG_IO, &h), &h);
}

static void sync_v4(int fd)
{
	struct iovec pieces[2] = { { data + 1, 10 }, { data + 20, 86 } };
	struct sg_io_v4 h = {
		.guard = 'Q', .request_len = sizeof(inquiry), .request = (uintptr_t)inquiry,
		.max_response_len = sizeof(sense), .response = (uintptr_t)sense,
		.din_xfer_len = 96, .din_xferp = (uintptr_t)data,
	};
	int ret;

	clear();
	ret = ioctl(fd, SG_IO, &h);
	printf("v4: %d %u %u %u %u %d", ret, h.device_status, h.transport_status, h.info,
	       h.response_len, h.din_resid);
	print_memory(ret == 0 && !h.device_status);
	clear();
	h.din_xferp = (uintptr_t)pieces;
	h.din_iovec_count = 2;
	ret = ioctl(fd, SG_IO, &h);
	printf("v4 iovec: %d %d", ret, h.din_resid);
	print_memory(ret == 0 && !h.device_status);
	clear();
	h.din_iovec_count = 0;
	h.din_xferp = (uintptr_t)data;
	h.request = (uintptr_t)far_read;
	h.request_len = sizeof(far_read);
	ret = ioctl(fd, SG_IO, &h);
	printf("v4 refused: %d %u %u %u %u", ret, h.device_status, h.driver_status, h.info,
	       h.response_len);
	print_memory(ret == 0 && !h.device_status);
}

static void async_v3(int fd)
{
	struct pollfd poller = { .fd = fd, .events = POLLIN };
	struct sg_req_info table[16];
	struct sg_io_hdr h;
	int on = 1, id, ret;

	for (id = 1; id <= 2; id++) {
		h = v3(inquiry, sizeof(inquiry), 96);
		h.pack_id = id;
		ret = write(fd, &h, sizeof(h));
		printf("write: %d of a header\n", ret == sizeof(h) ? 1 : ret < 0 ? -errno : ret);
		poll(&poller, 1, 5000);
	}
	while (ioctl(fd, SG_GET_NUM_WAITING, &ret) == 0 && ret < 2)
		usleep(1000);
	memset(table, 0xff, sizeof(table));
	printf("table: %d", ioctl(fd, SG_GET_REQUEST_TABLE, table));
	for (id = 0; id < 3; id++)
		printf(" | %d %d %d %d %d %d %d", table[id].req_state, table[id].orphan,
		       table[id].sg_io_owned, table[id].problem, table[id].pack_id,
		       table[id].usr_ptr == (void *)0x1234, table[id].unused);
	printf("\nforce: %d\n", ioctl(fd, SG_SET_FORCE_PACK_ID, &on));
	for (id = 2; id >= 1; id--) {
		memset(&h, 0, sizeof(h));
		h.interface_id = 'S';
		h.dxfer_direction = SG_DXFER_NONE;
		h.pack_id = id;
		ret = read(fd, &h, sizeof(h));
		print_v3("read", ret == sizeof(h) ? 0 : ret, &h);
	}
	h = v3(inquiry, sizeof(inquiry), 96);
	ret = write(fd, &h, sizeof(h) - 1);
	printf("short write: %d errno %d\n", ret, ret < 0 ? errno : 0);
}

int main(int argc, char **argv)
{
	int fd, value = -1;

	fd = argc > 1 ? open(argv[1], O_RDWR) : -1;
	if (fd < 0) {
		fprintf(stderr, "usage: sg32 NODE of an sg device\n");
		return 2;
	}
	printf("version %d", ioctl(fd, SG_GET_VERSION_NUM, &value));
	printf(" %d\n", value);
	printf("timeout %d\n", ioctl(fd, SG_GET_TIMEOUT));
	sync_v3(fd);
	if (argc > 2)
		sync_v4(fd);
	async_v3(fd);
	return 0;
}
