// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "signals.h"

#define SELF	"/proc/self/exe"

static int signal_fd = -1;
static int caught;

void child_catch_signals(void)
{
	signals_block();
	signal_fd = signals_open();
}

int child_signal(void)
{
	caught = signals_take(signal_fd) ?: caught;
	return caught;
}

/* An output stream of the child, which the parent reads until its end. */
struct stream {
	int fd;
	FILE *to;
};

static void pass_on(struct stream *s, struct pollfd *poll_fd)
{
	char buf[4096];
	ssize_t n = read(s->fd, buf, sizeof(buf));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		poll_fd->fd = -1;
	else
		fwrite(buf, 1, n, s->to);
}

static void listen_to(struct stream *streams, pid_t pid)
{
	struct pollfd fds[3] = {
		{ .fd = streams[0].fd, .events = POLLIN },
		{ .fd = streams[1].fd, .events = POLLIN },
		{ .fd = signal_fd, .events = POLLIN },
	};
	unsigned int i;
	int number;

	while (fds[0].fd >= 0 || fds[1].fd >= 0) {
		if (poll(fds, 3, -1) < 0)
			continue;
		number = fds[2].revents ? signals_take(signal_fd) : 0;
		if (number) {
			caught = number;
			kill(pid, caught);
		}
		for (i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents)
				pass_on(&streams[i], &fds[i]);
	}
}

static void exec_sg_io(char *const *argv, int in, const int *out, const int *messages,
		       pid_t parent)
{
	/*
	 * A process group of its own: otherwise the child would get Ctrl-C twice, from the terminal
	 * and from the parent.
	 */
	setpgid(0, 0);
	signals_unblock();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(127);
	dup2(in, STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	dup2(messages[1], STDERR_FILENO);
	execv(SELF, argv);
	_exit(127);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 127;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int child_run(char *const *argv, int stdin_fd, struct child *child)
{
	struct stream streams[2] = { { .fd = -1 }, { .fd = -1 } };
	int out[2] = { -1, -1 }, messages[2] = { -1, -1 }, in = stdin_fd;
	pid_t pid, parent = getpid();
	size_t size[2];

	*child = (struct child){};
	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	else
		lseek(in, 0, SEEK_SET);
	streams[0].to = open_memstream(&child->output, &size[0]);
	streams[1].to = open_memstream(&child->messages, &size[1]);
	if (in < 0 || !streams[0].to || !streams[1].to || pipe2(out, O_CLOEXEC) ||
	    pipe2(messages, O_CLOEXEC))
		goto failed;
	pid = fork();
	if (pid < 0)
		goto failed;
	if (!pid)
		exec_sg_io(argv, in, out, messages, parent);
	close(out[1]);
	close(messages[1]);
	streams[0].fd = out[0];
	streams[1].fd = messages[0];
	listen_to(streams, pid);
	child->status = wait_for(pid);
	close(out[0]);
	close(messages[0]);
	fclose(streams[0].to);
	fclose(streams[1].to);
	if (stdin_fd < 0)
		close(in);
	return 0;
failed:
	warn("starting sg_io");
	if (streams[0].to)
		fclose(streams[0].to);
	if (streams[1].to)
		fclose(streams[1].to);
	if (out[0] >= 0) {
		close(out[0]);
		close(out[1]);
	}
	if (messages[0] >= 0) {
		close(messages[0]);
		close(messages[1]);
	}
	if (stdin_fd < 0 && in >= 0)
		close(in);
	child_free(child);
	return -1;
}

void child_free(struct child *child)
{
	free(child->output);
	free(child->messages);
	*child = (struct child){};
}
