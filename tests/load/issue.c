// SPDX-License-Identifier: GPL-2.0
/*
 * Issues one command: a bio, a passthrough request, or one of the operations that measure the
 * machine itself.
 */
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <scsi/scsi_cmnd.h>
#include <scsi/scsi_proto.h>
#include <smq/compat.h>

#include "load.h"

#define CDB_TIMEOUT	(10 * HZ)
#define SPIN_ROUNDS	300

static u64 load_random(struct load_job *job)
{
	job->random ^= job->random << 13;
	job->random ^= job->random >> 7;
	job->random ^= job->random << 17;
	return job->random;
}

static struct load_dev *load_next_dev(struct load_job *job)
{
	struct load_dev *dev = job->devs[job->next_dev];

	if (++job->next_dev == job->nr_devs)
		job->next_dev = 0;
	return dev;
}

static void load_bio_done(struct bio *bio)
{
	load_job_done(bio->bi_private, blk_status_to_errno(bio->bi_status));
}

static void load_read(struct load_job *job, struct load_slot *slot)
{
	const struct load_spec *spec = job->run->spec;
	struct load_dev *dev = load_next_dev(job);
	struct bio *bio = slot->bio;
	u64 block = ((load_random(job) & U32_MAX) * dev->nr_blocks) >> 32;

	bio_reset(bio, dev->bdev, REQ_OP_READ);
	bio->bi_iter.bi_sector = block * (spec->bs >> SECTOR_SHIFT);
	bio->bi_private = slot;
	bio->bi_end_io = load_bio_done;
	/* The bio was allocated with room for one page, and bs is at most a page. */
	__bio_add_page(bio, slot->page, spec->bs, 0);
	submit_bio(bio);
}

static SMQ_END_IO(load_request_done, rq, status)
{
	struct scsi_cmnd *scmd = blk_mq_rq_to_pdu(rq);
	int err = blk_status_to_errno(status);

	load_job_done(rq->end_io_data, err ?: scmd->result ? -EIO : 0);
	return RQ_END_IO_FREE;
}

static void load_passthrough(struct load_job *job, struct load_slot *slot)
{
	struct load_dev *dev = load_next_dev(job);
	struct scsi_cmnd *scmd;
	struct request *rq;
	int err;

	/* If there is no tag, this call submits the plugged commands and waits for a tag. */
	rq = scsi_alloc_request(bdev_get_queue(dev->bdev), REQ_OP_DRV_IN, 0);
	if (IS_ERR(rq)) {
		load_job_done(slot, PTR_ERR(rq));
		return;
	}
	scmd = blk_mq_rq_to_pdu(rq);
	memcpy(scmd->cmnd, slot->cdb, sizeof(slot->cdb));
	scmd->cmd_len = slot->cdb_len;
	scmd->allowed = 0;
	if (slot->page) {
		/* Memory that this call allocates is freed with the request. */
		err = smq_rq_map_kern(rq, page_address(slot->page), job->run->spec->bs, GFP_KERNEL);
		if (err) {
			blk_mq_free_request(rq);
			load_job_done(slot, err);
			return;
		}
	}
	rq->timeout = CDB_TIMEOUT;
	rq->end_io = load_request_done;
	rq->end_io_data = slot;
	blk_execute_rq_nowait(rq, false);
}

static void load_spin(struct load_job *job)
{
	unsigned int i;

	for (i = 0; i < SPIN_ROUNDS; i++)
		load_random(job);
}

void load_issue(struct load_job *job, struct load_slot *slot)
{
	const struct load_spec *spec = job->run->spec;

	switch (spec->op) {
	case LOAD_TUR:
	case LOAD_READ_10:
		load_passthrough(job, slot);
		break;
	case LOAD_READ:
		load_read(job, slot);
		break;
	case LOAD_DELAY:
		/* The same calls as smq_ram uses to spend the time of a doorbell. */
		udelay(spec->delay_ns / NSEC_PER_USEC);
		ndelay(spec->delay_ns % NSEC_PER_USEC);
		load_job_done(slot, 0);
		break;
	case LOAD_SPIN:
		load_spin(job);
		load_job_done(slot, 0);
		break;
	}
}

/* Each slot reads a fixed place; the places are consecutive, within the smallest device. */
static void load_prepare_read(struct load_slot *slot)
{
	struct load_job *job = slot->job;
	unsigned int bs = job->run->spec->bs, i, places = U32_MAX;
	unsigned int blocks = bs / bdev_logical_block_size(job->devs[0]->bdev);

	for (i = 0; i < job->nr_devs; i++)
		places = min(places, job->devs[i]->nr_blocks);
	slot->cdb[0] = READ_10;
	put_unaligned_be32((slot - job->slots) % places * blocks, &slot->cdb[2]);
	put_unaligned_be16(blocks, &slot->cdb[7]);
	slot->cdb_len = COMMAND_SIZE(READ_10);
}

int load_slot_init(struct load_slot *slot, struct load_job *job)
{
	enum load_op op = job->run->spec->op;

	slot->job = job;
	if (op == LOAD_TUR)
		slot->cdb_len = COMMAND_SIZE(TEST_UNIT_READY);
	if (op != LOAD_READ && op != LOAD_READ_10)
		return 0;
	slot->page = alloc_page(GFP_KERNEL);
	if (!slot->page)
		return -ENOMEM;
	if (op == LOAD_READ_10) {
		load_prepare_read(slot);
		return 0;
	}
	slot->bio = bio_alloc(job->devs[0]->bdev, 1, REQ_OP_READ, GFP_KERNEL);
	return slot->bio ? 0 : -ENOMEM;
}

void load_slot_exit(struct load_slot *slot)
{
	if (slot->bio)
		bio_put(slot->bio);
	if (slot->page)
		__free_page(slot->page);
}
