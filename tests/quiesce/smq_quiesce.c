// SPDX-License-Identifier: GPL-2.0
/*
 * smq_quiesce: lets a test put a SCSI device into states that otherwise are caused by a system
 * suspend, a transport that has lost the device, or a busy driver.
 *
 * A write of H:C:T:L to /sys/module/smq_quiesce/parameters/NAME begins a state, and a write of an
 * empty line ends it:
 *	quiesce	calls scsi_device_quiesce(), as a suspend does: the call briefly freezes the queue
 *	block	quiesces the queue without freezing it
 *	stop	stops the queue's hardware queues
 *	blocked	sets the device's state to "blocked", which the attribute "state" refuses
 *	host	blocks the device's host, as a driver does that cannot take commands for a while
 *
 * A write of H:C:T:L to shutdown calls the shutdown operation of the device that the SCSI host
 * belongs to, as a power-off does.
 *
 * A write of H:C:T:L SECTORS SEGMENTS SIZE BOUNDARY to limits sets these limits of the device's
 * queue. Some drivers change them while the queue is in use.
 */
#define pr_fmt(fmt) "smq_quiesce: " fmt

#include <linux/blk-mq.h>
#include <linux/device.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/string.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/compat.h>

/**
 * struct state - a state that a device can be put into
 * @sdev: the device in this state, referenced; NULL for none. Only the parameters' operations use
 *	it, under kernel_param_lock()
 * @begin: puts a device into the state; may sleep. Return: 0 or a negative errno
 * @end: ends the state; may sleep
 */
struct state {
	struct scsi_device *sdev;
	int (*begin)(struct scsi_device *sdev);
	void (*end)(struct scsi_device *sdev);
};

static int begin_block(struct scsi_device *sdev)
{
	blk_mq_quiesce_queue(sdev->request_queue);
	return 0;
}

static void end_block(struct scsi_device *sdev)
{
	blk_mq_unquiesce_queue(sdev->request_queue);
}

static int begin_stop(struct scsi_device *sdev)
{
	blk_mq_stop_hw_queues(sdev->request_queue);
	return 0;
}

static void end_stop(struct scsi_device *sdev)
{
	blk_mq_start_stopped_hw_queues(sdev->request_queue, true);
}

static void end_blocked(struct scsi_device *sdev)
{
	scsi_internal_device_unblock_nowait(sdev, SDEV_RUNNING);
}

static int begin_host(struct scsi_device *sdev)
{
	scsi_block_requests(sdev->host);
	return 0;
}

static void end_host(struct scsi_device *sdev)
{
	scsi_unblock_requests(sdev->host);
}

static struct state quiesce = { .begin = scsi_device_quiesce, .end = scsi_device_resume };
static struct state block = { .begin = begin_block, .end = end_block };
static struct state stop = { .begin = begin_stop, .end = end_stop };
static struct state blocked = {
	.begin = scsi_internal_device_block_nowait,
	.end = end_blocked,
};

static struct state blocked_host = { .begin = begin_host, .end = end_host };

static struct scsi_device *find(const char *val)
{
	unsigned int host, channel, target;
	struct scsi_device *sdev = NULL;
	struct Scsi_Host *shost;
	u64 lun;

	if (sscanf(val, "%u:%u:%u:%llu", &host, &channel, &target, &lun) != 4)
		return NULL;
	shost = scsi_host_lookup(host);
	if (!shost)
		return NULL;
	sdev = scsi_device_lookup(shost, channel, target, lun);
	scsi_host_put(shost);
	return sdev;
}

static void end(struct state *state)
{
	if (!state->sdev)
		return;
	state->end(state->sdev);
	scsi_device_put(state->sdev);
	state->sdev = NULL;
}

static int state_set(const char *val, const struct kernel_param *kp)
{
	struct state *state = kp->arg;
	struct scsi_device *sdev;
	int ret;

	if (sysfs_streq(val, "")) {
		end(state);
		return 0;
	}
	if (state->sdev)
		return -EBUSY;
	sdev = find(val);
	if (!sdev) {
		pr_err("%s: no such device H:C:T:L\n", kp->name);
		return -ENODEV;
	}
	ret = state->begin(sdev);
	if (ret)
		scsi_device_put(sdev);
	else
		state->sdev = sdev;
	return ret;
}

static int state_get(char *buf, const struct kernel_param *kp)
{
	const struct state *state = kp->arg;

	return sysfs_emit(buf, "%s\n", state->sdev ? dev_name(&state->sdev->sdev_gendev) : "");
}

static const struct kernel_param_ops state_ops = { .set = state_set, .get = state_get };

module_param_cb(quiesce, &state_ops, &quiesce, 0644);
MODULE_PARM_DESC(quiesce, "H:C:T:L of the device to quiesce; empty: resume it");
module_param_cb(block, &state_ops, &block, 0644);
MODULE_PARM_DESC(block, "H:C:T:L of the device whose queue to quiesce; empty: unquiesce it");
module_param_cb(stop, &state_ops, &stop, 0644);
MODULE_PARM_DESC(stop, "H:C:T:L of the device whose hardware queues to stop; empty: start them");
module_param_cb(blocked, &state_ops, &blocked, 0644);
MODULE_PARM_DESC(blocked, "H:C:T:L of the device whose state to set to blocked; empty: unblock it");
module_param_cb(host, &state_ops, &blocked_host, 0644);
MODULE_PARM_DESC(host, "H:C:T:L of a device whose host to block; empty: unblock the host");

static int shutdown_set(const char *val, const struct kernel_param *kp)
{
	struct scsi_device *sdev = find(val);
	int ret = -EOPNOTSUPP;
	struct device *dev;

	if (!sdev)
		return -ENODEV;
	dev = sdev->host->dma_dev;
	if (dev && dev->bus && dev->bus->shutdown) {
		device_lock(dev);
		dev->bus->shutdown(dev);
		device_unlock(dev);
		ret = 0;
	}
	scsi_device_put(sdev);
	return ret;
}

static const struct kernel_param_ops shutdown_ops = { .set = shutdown_set };

module_param_cb(shutdown, &shutdown_ops, NULL, 0200);
MODULE_PARM_DESC(shutdown, "H:C:T:L: shuts down the device that the SCSI host belongs to");

static int limits_set(const char *val, const struct kernel_param *kp)
{
	unsigned int sectors, segments, size;
	struct scsi_device *sdev;
	unsigned long boundary;
	int ret;

	if (sscanf(val, "%*s %u %u %u %lu", &sectors, &segments, &size, &boundary) != 4)
		return -EINVAL;
	sdev = find(val);
	if (!sdev)
		return -ENODEV;
	ret = smq_queue_set_limits(sdev->request_queue, sectors, segments, size, boundary);
	scsi_device_put(sdev);
	return ret;
}

static const struct kernel_param_ops limits_ops = { .set = limits_set };

module_param_cb(limits, &limits_ops, NULL, 0200);
MODULE_PARM_DESC(limits, "H:C:T:L SECTORS SEGMENTS SIZE BOUNDARY: sets limits of a device's queue");

static int __init smq_quiesce_init(void)
{
	return 0;
}

static void __exit smq_quiesce_exit(void)
{
	end(&quiesce);
	end(&block);
	end(&stop);
	end(&blocked);
	end(&blocked_host);
}

module_init(smq_quiesce_init);
module_exit(smq_quiesce_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Puts a SCSI device into states that tests need");
