// SPDX-License-Identifier: GPL-2.0
#include <err.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "process.h"

#define TIMER_USEC	50000

static void on_signal(int number)
{
	(void)number;
}

static void set_timer(unsigned int first, unsigned int then)
{
	struct itimerval timer = { .it_value.tv_usec = first, .it_interval.tv_usec = then };

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* The timer repeats, because the first signal may come before the system call sleeps. */
void interrupt_soon(unsigned int usec)
{
	set_timer(usec, TIMER_USEC);
}

void interrupt_no_more(void)
{
	set_timer(0, 0);
}

/* Without SA_RESTART, so that a signal ends a sleep. */
void handle_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
}

/* The files were opened as root; from here on the process runs as the user nobody. */
void become_nobody(void)
{
	struct rlimit locks = { NOBODY_LOCKS, NOBODY_LOCKS };

	if (setrlimit(RLIMIT_MEMLOCK, &locks) || setgroups(0, NULL) ||
	    setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY))
		err(2, "becoming nobody");
}
