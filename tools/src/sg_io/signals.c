// SPDX-License-Identifier: GPL-2.0
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "signals.h"

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGHUP);
}

static void change(int how)
{
	sigset_t set;

	signal_set(&set);
	pthread_sigmask(how, &set, NULL);
}

void signals_block(void)
{
	change(SIG_BLOCK);
}

void signals_unblock(void)
{
	change(SIG_UNBLOCK);
}

int signals_open(void)
{
	sigset_t set;

	signal_set(&set);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int signals_take(int fd)
{
	struct signalfd_siginfo info;
	int last = 0;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		last = info.ssi_signo;
	return last;
}
