// SPDX-License-Identifier: GPL-2.0
/* Sparse storage: two levels of pointers, read without a lock. */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "ram.h"

int ram_store_init(struct ram_store *store, u64 bytes)
{
	u64 pages = DIV_ROUND_UP_ULL(bytes, PAGE_SIZE);

	BUILD_BUG_ON(sizeof(struct ram_leaf) != PAGE_SIZE);
	store->nr_leaves = DIV_ROUND_UP_ULL(pages, RAM_LEAF_PAGES);
	/* Up to 64 MiB: the allocation must fail rather than invoke the OOM killer. */
	store->dir = kvcalloc(store->nr_leaves, sizeof(*store->dir),
			      GFP_KERNEL | __GFP_RETRY_MAYFAIL | __GFP_NOWARN);
	return store->dir ? 0 : -ENOMEM;
}

/* Frees all pages. Context: may sleep; no command of the LUN is left. */
void ram_store_exit(struct ram_store *store)
{
	unsigned long i;
	unsigned int j;

	if (!store->dir)
		return;
	for (i = 0; i < store->nr_leaves; i++) {
		struct ram_leaf *leaf = store->dir[i];

		if (!leaf)
			continue;
		for (j = 0; j < RAM_LEAF_PAGES; j++)
			free_page((unsigned long)leaf->page[j]);
		free_page((unsigned long)leaf);
		cond_resched();
	}
	kvfree(store->dir);
}

/*
 * Sets an empty pointer to a zeroed page. Returns the page that @slot points to afterwards, or NULL
 * if there was no memory. The cmpxchg orders the zeroes before the pointer, so readers that follow
 * the pointer see the zeroes.
 */
static void *ram_store_fill(void **slot, gfp_t gfp)
{
	void *page = (void *)get_zeroed_page(gfp | __GFP_NOWARN);
	void *old;

	if (!page)
		return NULL;
	old = cmpxchg(slot, NULL, page);
	if (!old)
		return page;
	free_page((unsigned long)page);
	return old;
}

/*
 * Returns the memory of a page, and allocates it if the page is a hole; NULL if the allocation
 * failed. Context: inside an RCU read-side section if @gfp does not sleep. If @gfp may sleep,
 * outside such a section: the page may then be freed at any time, so the caller may only compare
 * the result with NULL.
 */
void *ram_store_get(struct ram_store *store, u64 pgno, gfp_t gfp)
{
	struct ram_leaf **slot = &store->dir[pgno >> RAM_LEAF_SHIFT];
	struct ram_leaf *leaf = READ_ONCE(*slot);
	void **pslot, *page;

	if (!leaf)
		leaf = ram_store_fill((void **)slot, gfp);
	if (!leaf)
		return NULL;
	pslot = &leaf->page[pgno & (RAM_LEAF_PAGES - 1)];
	page = READ_ONCE(*pslot);
	return page ?: ram_store_fill(pslot, gfp);
}

/* Pages that are freed after a grace period. */
struct ram_reap {
	struct rcu_head rcu;
	unsigned int nr;
	void *page[60];
};

static void ram_reap_free(struct rcu_head *rcu)
{
	struct ram_reap *reap = container_of(rcu, struct ram_reap, rcu);

	while (reap->nr)
		free_page((unsigned long)reap->page[--reap->nr]);
	kfree(reap);
}

static void ram_reap_page(struct ram_reap **reap, void *page)
{
	if (!*reap)
		*reap = kzalloc(sizeof(**reap), GFP_NOIO | __GFP_NORETRY | __GFP_NOWARN);
	if (!*reap) {
		synchronize_rcu();
		free_page((unsigned long)page);
		return;
	}
	(*reap)->page[(*reap)->nr++] = page;
	if ((*reap)->nr == ARRAY_SIZE((*reap)->page)) {
		call_rcu(&(*reap)->rcu, ram_reap_free);
		*reap = NULL;
	}
}

/* Zeroes part of a page. */
static void ram_store_clear_part(struct ram_store *store, u64 pos, unsigned int len)
{
	void *page;

	rcu_read_lock();
	page = ram_store_find(store, pos >> PAGE_SHIFT);
	if (page)
		memset(page + offset_in_page(pos), 0, len);
	rcu_read_unlock();
}

/*
 * Makes a range read as zeroes; frees whole pages. There is no order between it and a WRITE that
 * runs at the same time: a WRITE that found its page before the page was removed is lost, as if
 * it had come first. Context: may sleep.
 */
void ram_store_clear(struct ram_store *store, u64 pos, u64 len)
{
	struct ram_reap *reap = NULL;
	u64 end = pos + len;

	while (pos < end) {
		u64 pgno = pos >> PAGE_SHIFT;
		u64 next = min((pgno + 1) << PAGE_SHIFT, end);
		struct ram_leaf *leaf = READ_ONCE(store->dir[pgno >> RAM_LEAF_SHIFT]);

		if (!leaf) {
			next = min(((pgno >> RAM_LEAF_SHIFT) + 1) << (RAM_LEAF_SHIFT + PAGE_SHIFT),
				   end);
		} else if (next - pos < PAGE_SIZE) {
			ram_store_clear_part(store, pos, next - pos);
		} else {
			void *page = xchg(&leaf->page[pgno & (RAM_LEAF_PAGES - 1)], NULL);

			if (page)
				ram_reap_page(&reap, page);
		}
		pos = next;
		cond_resched();
	}
	if (reap)
		call_rcu(&reap->rcu, ram_reap_free);
}
