// SPDX-License-Identifier: GPL-2.0
/*
 * A task that waits for the end of its batch or command: which signals make it leave.
 */
#include <linux/kernel.h>
#include <linux/sched/signal.h>

#include "caller.h"

/**
 * smqsg_signalled() - whether the caller has to stop waiting
 *
 * The caller also wakes up for signals that only stop or continue it, a debugger, a freezer, and
 * task work of its own io_uring. Those do not count: the caller's wait handles the freezers of the
 * system and of cgroup v1, and the caller handles the others when it returns to user space.
 *
 * Return: true if the task has a pending signal that kills it or that it handles, or if it is a
 * worker of io_uring whose work was cancelled. Process context.
 */
bool smqsg_signalled(void)
{
	/* A task's own sighand is not freed while the task runs. */
	struct sighand_struct *sighand = rcu_dereference_protected(current->sighand, true);
	static const int stops[] = { SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT };
	sigset_t pending;
	int i;

	/* A worker blocks all signals but SIGKILL. Only a cancellation notifies it. */
	if (current->flags & PF_IO_WORKER)
		return test_thread_flag(TIF_NOTIFY_SIGNAL) || fatal_signal_pending(current);
	if (!task_sigpending(current))
		return false;
	spin_lock_irq(&sighand->siglock);
	sigorsets(&pending, &current->pending.signal, &current->signal->shared_pending.signal);
	sigandnsets(&pending, &pending, &current->blocked);
	for (i = 0; i < ARRAY_SIZE(stops); i++)
		if (sighand->action[stops[i] - 1].sa.sa_handler == SIG_DFL)
			sigdelset(&pending, stops[i]);
	spin_unlock_irq(&sighand->siglock);
	return !sigisemptyset(&pending);
}
