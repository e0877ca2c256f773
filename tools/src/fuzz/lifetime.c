// SPDX-License-Identifier: GPL-2.0
/*
 * Steps that close, pass or duplicate a file, fork, or end the process, while commands are in
 * flight.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "file.h"
#include "ring.h"
#include "steps.h"
#include "tally.h"

#define CHILD_STEPS	40
/* A child numbers its steps from CHILD_FIRST on, so that it does not repeat its parent's steps. */
#define CHILD_FIRST	1000000

/* Passes the file through a socket and closes @fd. Return: the new descriptor, or -errno. */
static int through_socket(int fd)
{
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { 0 };
	char byte = 0;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1,
				  .msg_control = control.space,
				  .msg_controllen = sizeof(control.space) };
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	int pair[2], got = -EBADF;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		return -errno;
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	if (sendmsg(pair[0], &message, MSG_NOSIGNAL) == 1) {
		/* Now only the message holds a reference to the file. */
		close(fd);
		if (recvmsg(pair[1], &message, 0) == 1)
			memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(got));
	}
	close(pair[0]);
	close(pair[1]);
	return got;
}

/*
 * Gives the file a new descriptor, by dup() or through a socket, and closes the old one. Sometimes
 * closes the old one twice.
 */
void step_pass(struct task *task, struct rnd *r)
{
	int old = task->fd, fd;

	if (once_in(r, 2)) {
		fd = through_socket(old);
	} else {
		fd = dup(old);
		if (fd < 0)
			fd = -errno;
		else
			close(old);
	}
	tally(OP_PASS, fd < 0 ? fd : 0);
	/* recvmsg() may give the new descriptor the number of the old one: then do not close it. */
	if (fd != old && once_in(r, 4))
		close(old);
	if (fd < 0)
		task->over = true;
	else
		task->fd = fd;
}

struct closer {
	int fd;
	unsigned int usec;
};

static void *close_soon(void *arg)
{
	struct closer *closer = arg;

	usleep(closer->usec);
	tally(OP_CLOSE_RACE, result_of(close(closer->fd)));
	return NULL;
}

/*
 * Opens another file, sets it up, lends memory to it and prepares slots; then runs them while a
 * thread closes the file at a random time. So a run may find the descriptor closed.
 */
void step_race(struct task *task, struct rnd *r)
{
	struct closer closer = { open_node(r, O_RDWR | O_NONBLOCK | O_CLOEXEC), rnd(r, 3000) };
	struct task other = *task;
	pthread_t thread;
	unsigned int i;

	if (closer.fd < 0)
		return;
	other.fd = closer.fd;
	/*
	 * step_setup() and the others must not use the task's rings, because the rings have the
	 * task's own file registered.
	 */
	for (i = 0; i < RINGS; i++)
		other.rings[i].open = false;
	step_setup(&other, r);
	step_lend(&other, r);
	for (i = 0; i < 8; i++)
		step_prepare(&other, r);
	if (pthread_create(&thread, NULL, close_soon, &closer)) {
		close(closer.fd);
		return;
	}
	for (i = 0; i < 6; i++) {
		struct smq_sg_run run = { .slot = rnd(r, SLOTS) };
		struct ring_command command = { OP_RUN, SMQ_SG_URING_RUN, &run, sizeof(run) };

		ring_push(task, &task->rings[0], closer.fd, &command, r);
		ring_submit(&task->rings[0]);
		ioctl(closer.fd, SMQ_SG_RUN, &(struct smq_sg_run_batch){
			.batch = { 0, SLOTS, SMQ_SG_BATCH_RANGE } });
	}
	pthread_join(thread, NULL);
}

/* Forks a child with the same file. The child must not use its parent's rings, or wait for them. */
void step_fork(struct task *task, struct rnd *r)
{
	unsigned int next = CHILD_FIRST + rnd(r, CHILD_FIRST), i;
	pid_t pid;

	if (task->child || task->options->no_fork)
		return;
	pid = fork();
	tally(OP_FORK, result_of(pid));
	task->own.forks++;
	if (pid)
		return;
	for (i = 0; i < RINGS; i++)
		task->rings[i].open = false;
	task->child = true;
	task->next_step = next;
	task->steps_left = CHILD_STEPS;
}

static void exec_another_program(void)
{
	execl("/bin/true", "true", NULL);
	tally(OP_EXEC, -errno);
}

/* Ends the process in one of five ways, but most often only binds it to a CPU. */
void step_exit(struct task *task, struct rnd *r)
{
	cpu_set_t cpus;

	switch (rnd(r, 24)) {
	case 0:
		kill(getpid(), SIGKILL);
		break;
	case 1:
		task->abandon = true;
		task->over = true;
		break;
	case 2:
		close(task->fd);
		task->fd = -1;
		task->over = true;
		break;
	case 3:
		tally(OP_EXEC, 0);
		exec_another_program();
		break;
	case 4:
		task->over = true;
		break;
	default:
		CPU_ZERO(&cpus);
		CPU_SET(rnd(r, 2), &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus);
	}
}
