// SPDX-License-Identifier: GPL-2.0
/*
 * smq_defect executes one defect when it is loaded; a parameter names the defect. A test uses it to
 * show that each checker of the sanitizing kernel reports a defect of its kind.
 */
#define pr_fmt(fmt) "smq_defect: " fmt

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>
#include <linux/vmalloc.h>

static char *defect = "";
module_param(defect, charp, 0444);
MODULE_PARM_DESC(defect, "name of the defect to execute when the module is loaded");

#define DEFECT_BYTES	777

/* Variables, because the compiler would report these defects if they were constants. */
static unsigned int beyond = DEFECT_BYTES;
static unsigned int too_far = 77;

struct defect_object {
	struct timer_list timer;
	struct list_head entry;
	u8 bytes[DEFECT_BYTES];
};

static void use_after_free(void)
{
	u8 *bytes = kzalloc(DEFECT_BYTES, GFP_KERNEL);

	if (!bytes)
		return;
	kfree(bytes);
	OPTIMIZER_HIDE_VAR(bytes);
	WRITE_ONCE(bytes[8], 1);
}

static void out_of_bounds(void)
{
	u8 *bytes = kzalloc(DEFECT_BYTES, GFP_KERNEL);

	if (!bytes)
		return;
	OPTIMIZER_HIDE_VAR(bytes);
	WRITE_ONCE(bytes[READ_ONCE(beyond)], 1);
	kfree(bytes);
}

static void vmalloc_out_of_bounds(void)
{
	u8 *bytes = vmalloc(DEFECT_BYTES);

	if (!bytes)
		return;
	OPTIMIZER_HIDE_VAR(bytes);
	WRITE_ONCE(bytes[READ_ONCE(beyond)], 1);
	vfree(bytes);
}

static void array_bounds(void)
{
	static struct defect_object object;

	pr_info("%d\n", object.bytes[READ_ONCE(beyond)]);
}

static void shift(void)
{
	pr_info("%d\n", 1 << READ_ONCE(too_far));
}

/* One task takes these locks in both orders. It cannot deadlock, but lockdep must report it. */
static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static void lock_inversion(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

/* A lock that a timer takes in its interrupt, and that other code takes with interrupts enabled. */
static DEFINE_SPINLOCK(irq_lock);

static void irq_unsafe_take(struct timer_list *timer)
{
	spin_lock(&irq_lock);
	spin_unlock(&irq_lock);
}

static void irq_unsafe(void)
{
	static struct timer_list timer;

	timer_setup(&timer, irq_unsafe_take, 0);
	mod_timer(&timer, jiffies + 1);
	msleep(100);
	spin_lock(&irq_lock);
	spin_unlock(&irq_lock);
}

static void sleep_in_atomic(void)
{
	spin_lock(&irq_lock);
	mutex_lock(&first);
	mutex_unlock(&first);
	spin_unlock(&irq_lock);
}

static void no_rcu_lock(void)
{
	static void __rcu *pointer;

	if (rcu_dereference(pointer))
		pr_info("never\n");
}

static void timer_freed(void)
{
	struct defect_object *object = kzalloc(sizeof(*object), GFP_KERNEL);

	if (!object)
		return;
	timer_setup(&object->timer, irq_unsafe_take, 0);
	mod_timer(&object->timer, jiffies + 3600 * HZ);
	kfree(object);
}

static void list_added_twice(void)
{
	static LIST_HEAD(list);
	static struct defect_object object;

	list_add(&object.entry, &list);
	list_add(&object.entry, &list);
}

/* The addresses of leaked memory, inverted so that kmemleak does not recognise them as pointers. */
static unsigned long lost[10];

static void leak(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(lost); i++)
		lost[i] = ~(unsigned long)kzalloc(DEFECT_BYTES, GFP_KERNEL);
}

static int give_back_set(const char *text, const struct kernel_param *kp)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(lost); i++) {
		if (lost[i])
			kfree((void *)~lost[i]);
		lost[i] = 0;
	}
	return 0;
}

static const struct kernel_param_ops give_back_ops = {
	.set = give_back_set,
};

module_param_cb(give_back, &give_back_ops, NULL, 0200);
MODULE_PARM_DESC(give_back, "write any value to free the leaked memory");

static const struct {
	const char *name;
	void (*commit)(void);
} defects[] = {
	{ "use_after_free", use_after_free },
	{ "out_of_bounds", out_of_bounds },
	{ "vmalloc_out_of_bounds", vmalloc_out_of_bounds },
	{ "array_bounds", array_bounds },
	{ "shift", shift },
	{ "lock_inversion", lock_inversion },
	{ "irq_unsafe", irq_unsafe },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "no_rcu_lock", no_rcu_lock },
	{ "timer_freed", timer_freed },
	{ "list_added_twice", list_added_twice },
	{ "leak", leak },
};

static int __init defect_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(defects); i++) {
		if (!strcmp(defect, defects[i].name)) {
			defects[i].commit();
			return 0;
		}
	}
	pr_err("defect=%s is unknown\n", defect);
	return -EINVAL;
}

static void __exit defect_exit(void)
{
}

module_init(defect_init);
module_exit(defect_exit);
MODULE_DESCRIPTION("Defects that sanitizers have to find");
MODULE_LICENSE("GPL");
