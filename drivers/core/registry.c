// SPDX-License-Identifier: GPL-2.0
/* The registered dispatch policies, and each host's settings for them. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/export.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "core.h"

/**
 * struct smq_registered - a registered policy
 * @node: in smq_registered_list
 * @ops: the policy
 */
struct smq_registered {
	struct list_head node;
	const struct smq_policy_ops *ops;
};

/**
 * struct smq_knobs - a host's settings for a policy
 * @node: in smq_choice.knobs
 * @ops: the policy
 * @shown: the policy's attribute group is in sysfs
 * @data: the settings
 *
 * Lifetime: while both the policy and the host are registered.
 */
struct smq_knobs {
	struct list_head node;
	const struct smq_policy_ops *ops;
	bool shown;
	unsigned char data[] __aligned(8);
};

/**
 * struct smq_registered_host - a host as the registry knows it
 * @node: in smq_registered_hosts
 * @host: the host
 * @shown: the host is in sysfs
 */
struct smq_registered_host {
	struct list_head node;
	struct smq_host *host;
	bool shown;
};

/* Protects the two lists. Taken before a host's policy lock. */
static DEFINE_MUTEX(smq_registry_lock);
static LIST_HEAD(smq_registered_list);
static LIST_HEAD(smq_registered_hosts);

static struct smq_knobs *smq_knobs_find(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_knobs *knobs;

	lockdep_assert_held(&host->core->choice.lock);
	list_for_each_entry(knobs, &host->core->choice.knobs, node) {
		if (knobs->ops == ops)
			return knobs;
	}
	return NULL;
}

static int smq_knobs_add(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_knobs *knobs = kzalloc(sizeof(*knobs) + ops->knobs_size, GFP_KERNEL);

	if (!knobs)
		return -ENOMEM;
	knobs->ops = ops;
	if (ops->init_knobs)
		ops->init_knobs(knobs->data);
	mutex_lock(&host->core->choice.lock);
	list_add_tail(&knobs->node, &host->core->choice.knobs);
	mutex_unlock(&host->core->choice.lock);
	return 0;
}

/*
 * Shows or hides a policy's settings. Drops the policy lock before it calls sysfs, because sysfs
 * waits for readers that may take that lock.
 */
static void smq_knobs_show(struct smq_registered_host *known, const struct smq_policy_ops *ops,
			   bool show)
{
	struct smq_host *host = known->host;
	struct kobject *kobj = &host->shost->shost_dev.kobj;
	struct smq_knobs *knobs;

	mutex_lock(&host->core->choice.lock);
	knobs = smq_knobs_find(host, ops);
	mutex_unlock(&host->core->choice.lock);
	if (!knobs || !ops->knobs || knobs->shown == show)
		return;
	if (!show)
		sysfs_remove_group(kobj, ops->knobs);
	else if (sysfs_create_group(kobj, ops->knobs))
		return;		/* sysfs has logged the reason */
	knobs->shown = show;
}

static void smq_knobs_remove(struct smq_registered_host *known, const struct smq_policy_ops *ops)
{
	struct smq_host *host = known->host;
	struct smq_knobs *knobs;

	smq_knobs_show(known, ops, false);
	mutex_lock(&host->core->choice.lock);
	knobs = smq_knobs_find(host, ops);
	if (knobs)
		list_del(&knobs->node);
	mutex_unlock(&host->core->choice.lock);
	kfree(knobs);
}

static struct smq_registered *smq_registered_find(const char *name)
{
	struct smq_registered *registered;

	lockdep_assert_held(&smq_registry_lock);
	list_for_each_entry(registered, &smq_registered_list, node) {
		if (sysfs_streq(name, registered->ops->name))
			return registered;
	}
	return NULL;
}

int smq_policy_register(const struct smq_policy_ops *ops)
{
	struct smq_registered *registered;
	struct smq_registered_host *known;
	int err = 0;

	if (!ops->name || !*ops->name || strlen(ops->name) > 31 ||
	    !ops->queue == !ops->ring || (ops->ring && ops->holds)) {
		pr_err("policy '%.31s': needs a name of 1 to 31 characters and the operation queue, or ring without holds\n",
		       ops->name ?: "");
		return -EINVAL;
	}
	registered = kzalloc(sizeof(*registered), GFP_KERNEL);
	if (!registered)
		return -ENOMEM;
	registered->ops = ops;
	mutex_lock(&smq_registry_lock);
	if (sysfs_streq(ops->name, "direct") || smq_registered_find(ops->name))
		err = -EEXIST;
	list_for_each_entry(known, &smq_registered_hosts, node) {
		if (!err)
			err = smq_knobs_add(known->host, ops);
	}
	if (!err) {
		list_add_tail(&registered->node, &smq_registered_list);
		list_for_each_entry(known, &smq_registered_hosts, node)
			smq_knobs_show(known, ops, known->shown);
	} else if (err != -EEXIST) {
		list_for_each_entry(known, &smq_registered_hosts, node)
			smq_knobs_remove(known, ops);
	}
	mutex_unlock(&smq_registry_lock);
	if (err)
		kfree(registered);
	return err;
}
EXPORT_SYMBOL_GPL(smq_policy_register);

void smq_policy_unregister(const struct smq_policy_ops *ops)
{
	struct smq_registered *registered;
	struct smq_registered_host *known;

	mutex_lock(&smq_registry_lock);
	registered = smq_registered_find(ops->name);
	list_del(&registered->node);
	list_for_each_entry(known, &smq_registered_hosts, node)
		smq_knobs_remove(known, ops);
	mutex_unlock(&smq_registry_lock);
	kfree(registered);
}
EXPORT_SYMBOL_GPL(smq_policy_unregister);

void *smq_policy_knobs(struct device *dev, const struct smq_policy_ops *ops)
{
	struct smq_host *host = smq_dev_to_host(dev);
	void *data;

	mutex_lock(&host->core->choice.lock);
	data = smq_registry_knobs(host, ops);
	mutex_unlock(&host->core->choice.lock);
	return data;
}
EXPORT_SYMBOL_GPL(smq_policy_knobs);

ssize_t smq_knob_store_uint(struct device *dev, struct device_attribute *attr, const char *group,
			    const char *buf, size_t count, unsigned int *knob,
			    unsigned int least, unsigned int most)
{
	/*
	 * All attributes share this limit, so it allows more messages than one attribute needs.
	 */
	static DEFINE_RATELIMIT_STATE(said, HZ, 20);
	unsigned int value;
	int err = kstrtouint(buf, 0, &value);

	if (err || value < least || value > most) {
		if (__ratelimit(&said))
			pr_err("%s: %s/%s=%.*s is no number in %u..%u\n", dev_name(dev), group,
			       attr->attr.name, (int)min_t(size_t, strcspn(buf, "\n"), 32), buf,
			       least, most);
		return err ?: -EINVAL;
	}
	WRITE_ONCE(*knob, value);
	return count;
}
EXPORT_SYMBOL_GPL(smq_knob_store_uint);

/* Returns a host's settings for a policy, or NULL. Context: the host's policy lock. */
void *smq_registry_knobs(struct smq_host *host, const struct smq_policy_ops *ops)
{
	struct smq_knobs *knobs = smq_knobs_find(host, ops);

	return knobs ? knobs->data : NULL;
}

/*
 * Finds a registered policy, and references its module. Returns NULL if there is none, or if its
 * module is being unloaded. Context: may sleep.
 */
const struct smq_policy_ops *smq_registry_get(const char *name)
{
	struct smq_registered *registered;
	const struct smq_policy_ops *ops = NULL;

	mutex_lock(&smq_registry_lock);
	registered = smq_registered_find(name);
	if (registered && try_module_get(registered->ops->owner))
		ops = registered->ops;
	mutex_unlock(&smq_registry_lock);
	return ops;
}

/*
 * Writes the names of all policies to @buf, separated by @between, and the name @chosen in
 * brackets. Context: may sleep. Return: the length of the text.
 */
int smq_registry_list(char *buf, size_t size, const char *chosen, const char *between)
{
	struct smq_registered *registered;
	const char *name = "direct";
	bool marked = chosen && !strcmp(name, chosen);
	int len;

	mutex_lock(&smq_registry_lock);
	len = scnprintf(buf, size, marked ? "[%s]" : "%s", name);
	list_for_each_entry(registered, &smq_registered_list, node) {
		name = registered->ops->name;
		marked = chosen && !strcmp(name, chosen);
		len += scnprintf(buf + len, size - len, marked ? "%s[%s]" : "%s%s", between, name);
	}
	mutex_unlock(&smq_registry_lock);
	return len;
}

static struct smq_registered_host *smq_registry_find(struct smq_host *host)
{
	struct smq_registered_host *known;

	lockdep_assert_held(&smq_registry_lock);
	list_for_each_entry(known, &smq_registered_hosts, node) {
		if (known->host == host)
			return known;
	}
	return NULL;
}

/* Gives a new host settings for all policies. Context: may sleep. Return: 0 or -ENOMEM. */
int smq_registry_add_host(struct smq_host *host)
{
	struct smq_registered *registered;
	struct smq_registered_host *known = kzalloc(sizeof(*known), GFP_KERNEL);
	int err = 0;

	if (!known)
		return -ENOMEM;
	known->host = host;
	mutex_lock(&smq_registry_lock);
	list_for_each_entry(registered, &smq_registered_list, node) {
		if (!err)
			err = smq_knobs_add(host, registered->ops);
	}
	list_add_tail(&known->node, &smq_registered_hosts);
	mutex_unlock(&smq_registry_lock);
	if (err)
		smq_registry_remove_host(host);
	return err;
}

static void smq_registry_show(struct smq_host *host, bool show)
{
	struct smq_registered *registered;
	struct smq_registered_host *known;

	mutex_lock(&smq_registry_lock);
	known = smq_registry_find(host);
	known->shown = show;
	list_for_each_entry(registered, &smq_registered_list, node)
		smq_knobs_show(known, registered->ops, show);
	mutex_unlock(&smq_registry_lock);
}

/* Called when the host is in sysfs: shows its settings there. Context: may sleep. */
void smq_registry_show_host(struct smq_host *host)
{
	smq_registry_show(host, true);
}

/* Called before the host leaves sysfs: hides its settings. Context: may sleep. */
void smq_registry_hide_host(struct smq_host *host)
{
	smq_registry_show(host, false);
}

/* Frees the settings of a host that is being freed. Context: may sleep. */
void smq_registry_remove_host(struct smq_host *host)
{
	struct smq_registered *registered;
	struct smq_registered_host *known;

	mutex_lock(&smq_registry_lock);
	known = smq_registry_find(host);
	if (known) {
		list_for_each_entry(registered, &smq_registered_list, node)
			smq_knobs_remove(known, registered->ops);
		list_del(&known->node);
		kfree(known);
	}
	mutex_unlock(&smq_registry_lock);
}
