/* SPDX-License-Identifier: GPL-2.0 */
/*
 * smq_virtio: virtio-scsi devices (virtio 1.2, section 5.6), such as those of QEMU and vhost.
 *
 * Indirect descriptors are not negotiated: virtqueue_add() would allocate a table for each
 * command. So a command takes one descriptor of the ring for its request, one for its response
 * and one for each piece of its data. The size of the ring limits the number and the size of
 * commands.
 */
#ifndef SMQ_VIRTIO_H
#define SMQ_VIRTIO_H

#include <linux/align.h>
#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_scsi.h>
#include <linux/workqueue.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_device.h>
#include <scsi/scsi_host.h>
#include <smq/lld.h>
#include <smq/virtio.h>

#define VS_CTRL		0	/* virtqueues by number */
#define VS_EVENT	1
#define VS_FIRST	2	/* the first virtqueue for commands */

#define VS_ENDS		2	/* descriptors for request and response */
#define VS_EVENTS	8	/* buffers for events */
#define VS_TMFS		4	/* task management functions at a time */
#define VS_TMF_SECONDS	5	/* how long to wait for the answer to one */
#define VS_RESET_TRIES	3	/* functions for a reset that leaves commands in a ring */

/**
 * struct vs_queue - private area of a hardware queue, on cache lines of its own
 * @lock: protects @vq, the other fields and vs_cmd.in_ring. Taken by the CPUs that submit to
 *	this queue (several may), its interrupt or pollers, and error handling
 * @added: the ring has commands for which the doorbell has not been rung yet
 * @size: descriptors of @vq; all of them are free while the device has no command
 * @vq: its virtqueue; NULL while the device has no virtqueues, and always once the device is gone
 *
 * Lifetime: as long as the smq_hwq. @vq changes when the device is reset.
 */
struct vs_queue {
	spinlock_t lock;	/* see above */
	bool added;
	unsigned int size;
	struct virtqueue *vq;
};

/* Whole cache lines for a response, plus the padding in front of the first line. */
#define VS_RESP_ROOM	(ALIGN(sizeof(struct virtio_scsi_cmd_resp), ARCH_DMA_MINALIGN) + \
			 ARCH_DMA_MINALIGN - __alignof__(u64))

/**
 * struct vs_cmd - private area of a command
 * @req: what the device reads; everything but LUN, CDB and PI lengths is set once
 * @req_sg: describes @req
 * @resp_sg: describes the response
 * @queue: the queue that the command was last put on; NULL: it was never put on one. One of the
 *	error handler's own commands may be on another queue than that of its hardware queue
 * @next: the next one in the list of commands that were taken off the ring together
 * @in_ring: the device has the command: it has not been taken off the ring yet
 * @room: for what the device writes, on cache lines of its own: see vs_resp()
 */
struct vs_cmd {
	union {
		struct virtio_scsi_cmd_req req;
		struct virtio_scsi_cmd_req_pi req_pi;
	};
	struct scatterlist req_sg;
	struct scatterlist resp_sg;
	struct vs_queue *queue;
	struct vs_cmd *next;
	bool in_ring;
	u8 room[VS_RESP_ROOM] __aligned(__alignof__(u64));
};

/*
 * The response. Without coherent DMA it must share no cache line with data that the CPU writes
 * while the device has the command. The layer aligns a private area to only 8 bytes, so this
 * function aligns the response.
 */
static inline struct virtio_scsi_cmd_resp *vs_resp(struct vs_cmd *vc)
{
	if (__alignof__(u64) < ARCH_DMA_MINALIGN)
		return (void *)PTR_ALIGN(&vc->room[0], ARCH_DMA_MINALIGN);
	return (void *)vc->room;
}

/* Private area of a LUN: its address as the device wants it. */
struct vs_lun {
	u8 address[8];
};

enum vs_tmf_state {
	VS_TMF_FREE,
	VS_TMF_SENT,		/* vs_tmf() waits for it */
	VS_TMF_ANSWERED,
	VS_TMF_ABANDONED,	/* vs_tmf() has timed out; the device still has the function */
};

/*
 * A task management function, allocated in advance, because error handling may get no memory.
 * The response is aligned for the same reason as in vs_resp().
 */
struct vs_tmf {
	struct virtio_scsi_ctrl_tmf_req req;
	struct virtio_scsi_ctrl_tmf_resp resp __aligned(ARCH_DMA_MINALIGN);
	enum vs_tmf_state state __aligned(ARCH_DMA_MINALIGN);
	struct completion answered;
};

/**
 * struct vs_dev - one device
 * @vdev: the device, whose priv this is
 * @host: its host; NULL until probe has allocated it. The device may interrupt before that
 * @depth: how many commands each ring may have at a time
 * @max_sg: scatterlist entries of a command's data
 * @ring: descriptors of the smallest ring
 * @nr_queues: virtqueues for commands, those for polling last
 * @nr_poll: how many of these are for polling
 * @pi: T10-PI was negotiated
 * @vqs: all virtqueues in the device's order; valid while @up
 * @up: the virtqueues exist
 * @gone: the device no longer answers: nothing more is sent to it
 * @state_lock: serialises host reset and removal, which take down the rings and sleep
 * @ctrl_lock: protects @ctrl and @tmf; taken by error handling and by the interrupt
 * @ctrl: the control queue, NULL while there is none
 * @tmf: the task management functions that may be under way on @ctrl
 * @event_lock: protects @event, @events_end and the buffers in the event queue
 * @event: the event queue, NULL while there is none
 * @events_end: no more events are handled
 * @event_work: handles events, in the order in which they came
 * @events: the buffers for events. While @event is set, all are in the event queue whenever
 *	@event_lock is not held
 *
 * Lifetime: probe to remove.
 */
struct vs_dev {
	struct virtio_device *vdev;
	struct smq_host *host;
	unsigned int depth;
	unsigned int max_sg;
	unsigned int ring;
	unsigned int nr_queues;
	unsigned int nr_poll;
	bool pi;
	struct virtqueue **vqs;
	bool up;
	bool gone;
	struct mutex state_lock;		/* see above */

	spinlock_t ctrl_lock ____cacheline_aligned;	/* see above */
	struct virtqueue *ctrl;
	struct vs_tmf tmf[VS_TMFS];

	spinlock_t event_lock ____cacheline_aligned;	/* see above */
	struct virtqueue *event;
	bool events_end;
	struct work_struct event_work;
	struct virtio_scsi_event events[VS_EVENTS] __aligned(ARCH_DMA_MINALIGN);
};

static inline struct vs_dev *vs_of(struct smq_host *host)
{
	return *(struct vs_dev **)smq_host_priv(host);
}

static inline struct vs_queue *vs_queue(struct vs_dev *vs, unsigned int index)
{
	return smq_hwq_priv(vs->host->hwq[index]);
}

/* main.c */
void vs_match(bool on);

/* take.c */
extern const struct attribute_group *vs_driver_groups[];

/* queue.c */
struct smq_host *vs_host_alloc(struct vs_dev *vs);

/* eh.c */
int vs_abort(struct smq_hwq *hwq, struct smq_cmd *cmd);
int vs_lun_reset(struct smq_host *host, struct scsi_device *sdev);
int vs_target_reset(struct smq_host *host, struct scsi_target *starget);
int vs_host_reset(struct smq_host *host);

/* rings.c */
int vs_rings_find(struct vs_dev *vs);
void vs_rings_delete(struct vs_dev *vs);
void vs_rings_start(struct vs_dev *vs);
void vs_rings_stop(struct vs_dev *vs, int result);
int vs_config(struct vs_dev *vs, unsigned int poll);

/* done.c */
void vs_queue_done(struct virtqueue *vq);
unsigned int vs_reap(struct vs_queue *queue, bool irq);
void vs_reap_all(struct vs_dev *vs);
void vs_drop_all(struct vs_queue *queue, struct virtqueue *vq, int result);

/* tmf.c */
int vs_tmf(struct vs_dev *vs, u32 function, const u8 *lun, __virtio64 tag);
void vs_ctrl_done(struct virtqueue *vq);
void vs_ctrl_stop(struct vs_dev *vs);

/* event.c */
void vs_event_init(struct vs_dev *vs);
void vs_event_start(struct vs_dev *vs);
void vs_event_stop(struct vs_dev *vs);
void vs_event_end(struct vs_dev *vs);
void vs_event_done(struct virtqueue *vq);

#endif /* SMQ_VIRTIO_H */
