// SPDX-License-Identifier: GPL-2.0
/*
 * A rule names a device by the text of the device's wwid attribute in sysfs. smq_conv claims the
 * device as soon as it appears. The driver core calls our probe before sd's probe, because sd's
 * probe is asynchronous. So the lower device never gets a disk.
 */
#define pr_fmt(fmt) "smq_conv: " fmt

#include <linux/device.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "conv.h"

/*
 * Size of a wwid with its NUL. The mid-layer writes a designator (SPC-6, 7.7.6) as a text of at
 * most 255 bytes.
 */
#define CONV_WWID	256

/* A rule, in the list conv_rules; protected by conv_lock. */
struct conv_rule {
	struct list_head node;
	char wwid[CONV_WWID];
};

static LIST_HEAD(conv_rules);

static char *rules;
module_param(rules, charp, 0444);
MODULE_PARM_DESC(rules, "wwid,...: devices to claim when they appear; see also attribute rules");

static struct conv_rule *conv_rule_find(const char *wwid)
{
	struct conv_rule *rule;

	lockdep_assert_held(&conv_lock);
	list_for_each_entry(rule, &conv_rules, node) {
		if (!strcmp(rule->wwid, wwid))
			return rule;
	}
	return NULL;
}

static int conv_rule_add(const char *wwid)
{
	struct conv_rule *rule;
	int err = 0;

	if (!*wwid || strlen(wwid) >= CONV_WWID) {
		pr_err("rules: '%.32s' is no wwid like naa.5000c500155a1234\n", wwid);
		return -EINVAL;
	}
	rule = kzalloc(sizeof(*rule), GFP_KERNEL);
	if (!rule)
		return -ENOMEM;
	strscpy(rule->wwid, wwid, sizeof(rule->wwid));
	mutex_lock(&conv_lock);
	if (conv_rule_find(wwid))
		err = -EEXIST;
	else
		list_add_tail(&rule->node, &conv_rules);
	mutex_unlock(&conv_lock);
	if (err) {
		pr_warn("rules: there is one for %s already\n", wwid);
		kfree(rule);
	}
	return err;
}

static int conv_rule_del(const char *wwid)
{
	struct conv_rule *rule;

	mutex_lock(&conv_lock);
	rule = conv_rule_find(wwid);
	if (rule)
		list_del(&rule->node);
	mutex_unlock(&conv_lock);
	if (!rule) {
		pr_warn("rules: there is none for '%.255s'\n", wwid);
		return -ENOENT;
	}
	kfree(rule);
	return 0;
}

/* Whether there is a rule for a device. Context: may sleep. */
bool conv_rule_matches(struct scsi_device *lower)
{
	char *wwid = kzalloc(CONV_WWID, GFP_KERNEL);
	bool found = false;

	if (wwid && scsi_vpd_lun_id(lower, wwid, CONV_WWID) > 0) {
		mutex_lock(&conv_lock);
		found = conv_rule_find(strim(wwid));
		mutex_unlock(&conv_lock);
	}
	kfree(wwid);
	return found;
}

static ssize_t rules_show(struct device_driver *drv, char *buf)
{
	struct conv_rule *rule;
	ssize_t len = 0;

	mutex_lock(&conv_lock);
	list_for_each_entry(rule, &conv_rules, node)
		len = conv_list_add(buf, len, "%s\n", rule->wwid);
	mutex_unlock(&conv_lock);
	return len;
}

/*
 * "WWID" adds a rule, "-WWID" removes it. Neither changes which devices are claimed now: a rule
 * applies when our driver's probe is called for a device.
 */
static ssize_t rules_store(struct device_driver *drv, const char *buf, size_t count)
{
	char *text = kstrndup(buf, count, GFP_KERNEL), *wwid;
	int err;

	if (!text)
		return -ENOMEM;
	wwid = strim(text);
	err = *wwid == '-' ? conv_rule_del(wwid + 1) : conv_rule_add(wwid);
	kfree(text);
	return err ?: count;
}
DRIVER_ATTR_RW(rules);

/* Adds the rules of the module's parameter. A rule that is named twice is added once. */
int conv_rules_init(void)
{
	char *text, *next, *wwid;
	int err = 0;

	if (!rules)
		return 0;
	text = kstrdup(rules, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	for (next = text; !err && (wwid = strsep(&next, ","));) {
		err = conv_rule_add(strim(wwid));
		if (err == -EEXIST)
			err = 0;
	}
	kfree(text);
	if (err)
		conv_rules_exit();
	return err;
}

void conv_rules_exit(void)
{
	struct conv_rule *rule, *next;

	list_for_each_entry_safe(rule, next, &conv_rules, node)
		kfree(rule);
	INIT_LIST_HEAD(&conv_rules);
}
