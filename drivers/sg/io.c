// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of commands in flight: it comes from a file's pools, or from the slab if a pool is empty.
 */
#include <linux/slab.h>

#include "io.h"

static struct kmem_cache *smqsg_io_cache;

/* Sets up a command, whose memory is zeroed. */
void smqsg_io_init(struct smqsg_io *io, struct smqsg_fd *fd)
{
	io->fd = fd;
	io->waiter.fd = fd;
	INIT_LIST_HEAD(&io->waiter.entry);
	io->token = -1;
	INIT_LIST_HEAD(&io->idle.entry);
	bio_init(&io->bio, NULL, NULL, 0, 0);
	/* Its bi_io_vec will point to memory that is not the bio's own. */
	bio_set_flag(&io->bio, BIO_CLONED);
	/* See smqsg_bio_arm(). */
	bio_set_flag(&io->bio, BIO_CHAIN);
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
	smqsg_idle_free(&io->idle, io->fd);
	bio_uninit(&io->bio);
	free_page((unsigned long)io->data.page);
	kfree(io->header);
	kmem_cache_free(smqsg_io_cache, io);
}

void smqsg_ios_exit(struct smqsg_fd *fd)
{
	struct smqsg_io *io;

	while ((io = smqsg_stack_pop_any(&fd->pools->ios))) {
		smqsg_io_free(io);
		cond_resched();
	}
}

int smqsg_io_start(void)
{
	/* Sense is copied to user space from the field that is named here. */
	smqsg_io_cache = KMEM_CACHE_USERCOPY(smqsg_io, SLAB_HWCACHE_ALIGN, adhoc.sense);
	return smqsg_io_cache ? 0 : -ENOMEM;
}

void smqsg_io_stop(void)
{
	kmem_cache_destroy(smqsg_io_cache);
}
