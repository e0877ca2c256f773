// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of commands in flight: from the slab as often as a file's pools are
 * empty, from the pools ever after.
 */
#include <linux/slab.h>

#include "batch.h"
#include "io.h"

static struct kmem_cache *smqsg_io_cache;

/* Sets a bio up whose array of data is a buffer's. */
void smqsg_bio_init(struct bio *bio)
{
	bio_init(bio, NULL, NULL, 0, 0);
	bio_set_flag(bio, BIO_CLONED);
	/* See smqsg_bio_keep(). */
	bio_set_flag(bio, BIO_CHAIN);
}

/* Sets up memory that is zero. */
void smqsg_io_init(struct smqsg_io *io, struct smqsg_fd *fd)
{
	io->fd = fd;
	io->waiter.fd = fd;
	INIT_LIST_HEAD(&io->waiter.entry);
	smqsg_bio_init(&io->bio);
}

struct smqsg_io *smqsg_io_new(struct smqsg_fd *fd)
{
	struct smqsg_io *io = kmem_cache_zalloc(smqsg_io_cache, GFP_KERNEL_ACCOUNT);

	if (io)
		smqsg_io_init(io, fd);
	return io;
}

void smqsg_io_free(struct smqsg_io *io)
{
	bio_uninit(&io->bio);
	kmem_cache_free(smqsg_io_cache, io);
}

/* One with the commands of a short batch; NULL without memory. May sleep. */
struct smqsg_batch *smqsg_batch_new(struct smqsg_fd *fd)
{
	struct smqsg_batch *batch = kzalloc(sizeof(*batch), GFP_KERNEL_ACCOUNT);
	unsigned int i;

	if (!batch)
		return NULL;
	batch->ios = kvcalloc(SMQSG_BATCH_SHORT, sizeof(*batch->ios), GFP_KERNEL_ACCOUNT);
	if (!batch->ios) {
		kfree(batch);
		return NULL;
	}
	batch->fd = fd;
	batch->waiter.fd = fd;
	INIT_LIST_HEAD(&batch->waiter.entry);
	init_llist_head(&batch->ended);
	for (i = 0; i < SMQSG_BATCH_SHORT; i++) {
		smqsg_io_init(&batch->ios[i], fd);
		batch->ios[i].batch = batch;
	}
	return batch;
}

/* One that is in no pool. */
void smqsg_batch_free(struct smqsg_batch *batch)
{
	unsigned int i;

	for (i = 0; i < SMQSG_BATCH_SHORT; i++)
		bio_uninit(&batch->ios[i].bio);
	kvfree(batch->ios);
	kfree(batch);
}

/* A pool's end. */
void smqsg_batches_free(struct smqsg_batch *batch)
{
	while (batch) {
		struct smqsg_batch *next = batch->next;

		smqsg_batch_free(batch);
		batch = next;
	}
}

int smqsg_pool_init(struct smqsg_fd *fd)
{
	fd->pool = alloc_percpu_gfp(struct smqsg_pool, GFP_KERNEL_ACCOUNT);
	return fd->pool ? 0 : -ENOMEM;
}

void smqsg_pool_exit(struct smqsg_fd *fd)
{
	struct smqsg_io *io;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct smqsg_pool *pool = per_cpu_ptr(fd->pool, cpu);

		while ((io = pool->first)) {
			pool->first = io->next;
			smqsg_io_free(io);
		}
		smqsg_batches_free(pool->batch);
	}
	free_percpu(fd->pool);
}

int smqsg_io_start(void)
{
	/* Sense is copied to its reader from there. */
	smqsg_io_cache = KMEM_CACHE_USERCOPY(smqsg_io, SLAB_HWCACHE_ALIGN, sense);
	return smqsg_io_cache ? 0 : -ENOMEM;
}

void smqsg_io_stop(void)
{
	kmem_cache_destroy(smqsg_io_cache);
}
