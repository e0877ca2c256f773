// SPDX-License-Identifier: GPL-2.0
/* An open node: slots, buffers, prepared commands, and the ioctl that runs them. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"

const char *smq_library_version(void)
{
	return LIBSMQ_VERSION;
}

static int call(const struct smq_device *dev, unsigned long request, void *arg)
{
	return ioctl(dev->fd, request, arg) < 0 ? -errno : 0;
}

/* The next device's id: above all file numbers; atomic, because any thread may open a device. */
static atomic_uint_fast64_t next_id = 1ULL << 32;

int smq_open(const char *node, struct smq_device **dev)
{
	struct smq_device *d = calloc(1, sizeof(*d));
	struct smq_sg_info info = {};
	int ret;

	if (!d)
		return -ENOMEM;
	d->fd = open(node, O_RDWR | O_CLOEXEC);
	if (d->fd < 0) {
		ret = -errno;
		free(d);
		return ret;
	}
	ret = call(d, SMQ_SG_INFO, &info);
	/* Most drivers return ENOTTY for an unknown ioctl, some EINVAL. */
	if (ret == -EINVAL)
		ret = -ENOTTY;
	if (ret) {
		close(d->fd);
		free(d);
		return ret;
	}
	d->id = atomic_fetch_add(&next_id, 1);
	*dev = d;
	return 0;
}

void smq_close(struct smq_device *dev)
{
	if (!dev)
		return;
	if (dev->status)
		munmap(dev->status, dev->status_size);
	close(dev->fd);
	free(dev);
}

int smq_fd(const struct smq_device *dev)
{
	return dev->fd;
}

int smq_info(const struct smq_device *dev, struct smq_sg_info *info)
{
	*info = (struct smq_sg_info){};
	return call(dev, SMQ_SG_INFO, info);
}

int smq_setup(struct smq_device *dev, uint32_t slots, uint32_t sense_size)
{
	return smq_setup_held(dev, slots, sense_size, 0);
}

int smq_setup_held(struct smq_device *dev, uint32_t slots, uint32_t sense_size, uint32_t share)
{
	struct smq_sg_setup setup = {
		.slots = slots, .sense_size = sense_size, .held_share = share,
	};
	void *map;
	int ret;

	ret = call(dev, SMQ_SG_SETUP, &setup);
	if (ret)
		return ret;
	map = mmap(NULL, setup.status_size, PROT_READ, MAP_SHARED, dev->fd, setup.status_offset);
	if (map == MAP_FAILED)
		return -errno;
	dev->status = map;
	dev->status_size = setup.status_size;
	dev->status_stride = setup.status_stride;
	dev->slots = slots;
	return 0;
}

uint32_t smq_slots(const struct smq_device *dev)
{
	return dev->slots;
}

int smq_lend(struct smq_device *dev, uint32_t index, const void *memory, size_t length,
	     uint32_t flags)
{
	struct smq_sg_buffer buffer = {
		.address = (uintptr_t)memory, .length = length, .index = index, .flags = flags,
	};

	/* With a length of 0 the ioctl would take the buffer back from the device. */
	if (!length)
		return -EINVAL;
	return call(dev, SMQ_SG_BUFFER, &buffer);
}

int smq_take_back(struct smq_device *dev, uint32_t index)
{
	struct smq_sg_buffer buffer = { .index = index };

	return call(dev, SMQ_SG_BUFFER, &buffer);
}

int smq_prepare(struct smq_device *dev, uint32_t first, const struct smq_sg_slot *slots,
		uint32_t count, uint32_t *done, uint32_t *field)
{
	struct smq_sg_prepare prepare = {
		.slots = (uintptr_t)slots, .first = first, .count = count,
	};
	int ret = call(dev, SMQ_SG_PREPARE, &prepare);

	if (done)
		*done = prepare.done;
	if (field)
		*field = prepare.field;
	return ret;
}

int smq_execute(struct smq_device *dev, struct smq_sg_batch batch, uint32_t *failed)
{
	struct smq_sg_run_batch run = { .batch = batch };
	int ret = call(dev, SMQ_SG_RUN, &run);

	if (failed)
		*failed = run.failed;
	return ret;
}

int smq_cancel(struct smq_device *dev, uint32_t slot)
{
	struct smq_sg_cancel cancel = { .slot = slot, .flags = SMQ_SG_CANCEL_SLOT };

	return call(dev, SMQ_SG_CANCEL, &cancel);
}

int smq_cancel_all(struct smq_device *dev)
{
	struct smq_sg_cancel cancel = {};
	int ret = call(dev, SMQ_SG_CANCEL, &cancel);

	return ret ? ret : (int)cancel.cancelled;
}

const struct smq_sg_status *smq_status(const struct smq_device *dev, uint32_t slot)
{
	if (slot >= dev->slots)
		return NULL;
	return (const void *)((const char *)dev->status + (size_t)slot * dev->status_stride);
}
