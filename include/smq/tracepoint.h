/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds tracepoints that the kernel does not export by their names.
 */
#ifndef SMQ_TRACEPOINT_H
#define SMQ_TRACEPOINT_H

#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#ifdef CONFIG_TRACEPOINTS

/* A search by name, for the callbacks that get one tracepoint at a time. */
struct smq_tracepoint_search {
	struct notifier_block nb;
	const char *name;
	struct tracepoint *found;
};

static inline void smq_tracepoint_compare(struct tracepoint *tp, void *data)
{
	struct smq_tracepoint_search *search = data;

	if (!strcmp(tp->name, search->name))
		search->found = tp;
}

#ifdef CONFIG_MODULES
static inline int smq_tracepoint_of_module(struct notifier_block *nb, unsigned long event,
					   void *data)
{
	const struct tp_module *tpm = data;
	unsigned int i;

	for (i = 0; event == MODULE_STATE_COMING && i < tpm->mod->num_tracepoints; i++)
		smq_tracepoint_compare(tracepoint_ptr_deref(&tpm->mod->tracepoints_ptrs[i]),
				       container_of(nb, struct smq_tracepoint_search, nb));
	return NOTIFY_OK;
}
#endif

/**
 * smq_tracepoint_find() - finds a tracepoint
 * @name: its name
 *
 * Return: the tracepoint, of the kernel or of a module that is loaded, which the caller keeps
 * loaded; or NULL. May sleep.
 */
static inline struct tracepoint *smq_tracepoint_find(const char *name)
{
	struct smq_tracepoint_search search = { .name = name };

	for_each_kernel_tracepoint(smq_tracepoint_compare, &search);
#ifdef CONFIG_MODULES
	/* The notifier is called for each module that is loaded. */
	search.nb.notifier_call = smq_tracepoint_of_module;
	register_tracepoint_module_notifier(&search.nb);
	unregister_tracepoint_module_notifier(&search.nb);
#endif
	return search.found;
}

#else

static inline struct tracepoint *smq_tracepoint_find(const char *name)
{
	return NULL;
}

#endif /* CONFIG_TRACEPOINTS */

/**
 * smq_tracepoint_key() - finds the key of a tracepoint: whether it is in use
 * @name: the tracepoint's name
 *
 * Only an exported tracepoint has a static branch here.
 *
 * Return: the key; that of a tracepoint which is never in use if the kernel has none of the name.
 * May sleep.
 */
static inline const struct static_key *smq_tracepoint_key(const char *name)
{
	static const struct static_key off;
	const struct tracepoint *tp = smq_tracepoint_find(name);

	/* 6.10 put the key into a struct static_key_false. */
	return tp ? (const struct static_key *)&tp->key : &off;
}

#endif /* SMQ_TRACEPOINT_H */
