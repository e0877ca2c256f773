// SPDX-License-Identifier: GPL-2.0
/* Dispatch policies of a host: which one it has. */
#define pr_fmt(fmt) "smq: " fmt

#include <linux/string.h>
#include <linux/sysfs.h>

#include "smq.h"

/*
 * "direct" is the path of smq_queue_one(): straight to the LLD's queue_cmd,
 * commit after the last of a batch.
 */
ssize_t smq_policy_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "direct\n");
}

ssize_t smq_policy_store(struct device *dev, struct device_attribute *attr,
			 const char *buf, size_t count)
{
	if (sysfs_streq(buf, "direct"))
		return count;
	pr_err_ratelimited("%s: policy '%.*s' is not known; known: direct\n", dev_name(dev),
			   (int)min_t(size_t, strcspn(buf, "\n"), 32), buf);
	return -EINVAL;
}
