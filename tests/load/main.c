// SPDX-License-Identifier: GPL-2.0
/*
 * A program writes a spec, for load_spec_parse(), to /sys/kernel/debug/smq_load/run. The write
 * returns when the run has ended; .../result then has its results as JSON.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "load.h"

#define SPEC_MAX	8192

/* Serialises runs; protects load_last and load_error. */
static DEFINE_MUTEX(load_lock);
static struct load_run load_last;
static char load_error[LOAD_ERROR];

static int load_carry_out(char *text)
{
	struct load_spec *spec = kzalloc(sizeof(*spec), GFP_KERNEL);
	int err;

	load_result_free(&load_last);
	load_error[0] = 0;
	if (!spec) {
		snprintf(load_error, LOAD_ERROR, "no memory");
		return -ENOMEM;
	}
	err = load_spec_parse(spec, text, load_error);
	if (!err) {
		err = load_run(&load_last, spec, load_error);
		load_spec_release(spec);
	}
	kfree(spec);
	return err;
}

static ssize_t load_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	char *text;
	int err;

	if (len > SPEC_MAX)
		return -E2BIG;
	text = memdup_user_nul(buf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	err = mutex_lock_interruptible(&load_lock);
	if (!err) {
		err = load_carry_out(text);
		mutex_unlock(&load_lock);
	}
	kfree(text);
	return err ?: len;
}

static const struct file_operations load_run_fops = {
	.owner	= THIS_MODULE,
	.open	= simple_open,
	.write	= load_write,
};

/* seq_file calls this again with a larger buffer if the text did not fit. */
static int load_result_show(struct seq_file *seq, void *unused)
{
	unsigned int i, k;

	/* Interruptible, because a run holds the lock until it ends. */
	if (mutex_lock_interruptible(&load_lock))
		return -EINTR;
	seq_puts(seq, "{\"error\": \"");
	seq_escape_str(seq, load_error, ESCAPE_ANY | ESCAPE_NAP | ESCAPE_APPEND, "\"\\");
	seq_puts(seq, "\", \"jobs\": [");
	for (i = 0; i < load_last.nr_jobs; i++) {
		const struct load_job *job = load_last.jobs[i];

		seq_printf(seq, "%s\n{\"cpu\": %u, \"commands\": %llu, \"ns\": %llu, \"chunks\": [",
			   i ? "," : "", job->cpu, job->commands, job->ns);
		for (k = 0; k < job->nr_chunks; k++)
			seq_printf(seq, "%s[%u,%u]", k ? "," : "", job->chunks[k].commands,
				   job->chunks[k].ns);
		seq_puts(seq, "]}");
	}
	seq_puts(seq, "]}\n");
	mutex_unlock(&load_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(load_result);

static struct dentry *load_dir;

static int __init load_init(void)
{
	load_dir = debugfs_create_dir("smq_load", NULL);
	debugfs_create_file("run", 0200, load_dir, NULL, &load_run_fops);
	debugfs_create_file("result", 0400, load_dir, NULL, &load_result_fops);
	return 0;
}

static void __exit load_exit(void)
{
	debugfs_remove(load_dir);
	load_result_free(&load_last);
}

module_init(load_init);
module_exit(load_exit);
MODULE_DESCRIPTION("A load that the kernel itself issues, for the bench");
MODULE_LICENSE("GPL");
