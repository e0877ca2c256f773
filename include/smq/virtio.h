/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Hides the differences of the virtio bus between Linux 6.1 and 7.3. An addition to compat.h that
 * only drivers of virtio devices need.
 */
#ifndef SMQ_VIRTIO_BUS_H
#define SMQ_VIRTIO_BUS_H

#include <linux/blk-mq.h>
#include <linux/slab.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>

/* 6.11 put the parameters of each virtqueue into a structure. */
#ifdef SMQ_HAVE_VIRTQUEUE_INFO
#define smq_virtio_find_vqs	virtio_find_vqs
#else
struct virtqueue_info {
	const char *name;
	vq_callback_t *callback;
};

static inline int smq_virtio_find_vqs(struct virtio_device *vdev, unsigned int nvqs,
				      struct virtqueue *vqs[], struct virtqueue_info info[],
				      struct irq_affinity *desc)
{
	vq_callback_t **callbacks = kcalloc(nvqs, sizeof(*callbacks), GFP_KERNEL);
	const char **names = kcalloc(nvqs, sizeof(*names), GFP_KERNEL);
	unsigned int i;
	int err = -ENOMEM;

	if (callbacks && names) {
		for (i = 0; i < nvqs; i++) {
			callbacks[i] = info[i].callback;
			names[i] = info[i].name;
		}
		err = virtio_find_vqs(vdev, nvqs, vqs, callbacks, names, desc);
	}
	kfree(callbacks);
	kfree(names);
	return err;
}
#endif

/*
 * 6.14 has one function that maps the queues of devices on any bus, and no blk-mq-virtio.h. 6.12
 * has got that function as a backport, but there it does not support the virtio bus: so the build
 * looks for the header.
 */
#ifdef SMQ_HAVE_BLK_MQ_VIRTIO
#include <linux/blk-mq-virtio.h>
#define smq_virtio_map_queues(map, vdev, first)	blk_mq_virtio_map_queues(map, vdev, first)
#else
#define smq_virtio_map_queues(map, vdev, first)	blk_mq_map_hw_queues(map, &(vdev)->dev, first)
#endif

/* Resets a device and sets it up again, by its driver's freeze and restore, as for hibernation. */
#ifdef CONFIG_PM_SLEEP
static inline int smq_virtio_restart(struct virtio_device *vdev)
{
	int err = virtio_device_freeze(vdev);

	return err ? err : virtio_device_restore(vdev);
}
#else
static inline int smq_virtio_restart(struct virtio_device *vdev)
{
	return -EOPNOTSUPP;
}
#endif

#endif /* SMQ_VIRTIO_BUS_H */
