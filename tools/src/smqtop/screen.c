// SPDX-License-Identifier: GPL-2.0
#include "screen.h"

#include <curses.h>
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "draw.h"
#include "keys.h"

#define LEAST_SECONDS	0.1	/* between two looks, also if hosts and LUNs come and go */

static void restore(void)
{
	if (!isendwin())
		endwin();
}

static void resize(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
}

/* Stops as a program does that knows nothing of SIGTSTP; until SIGCONT. */
static void suspend(void)
{
	struct sigaction stop = { .sa_handler = SIG_DFL }, before;
	sigset_t set;

	endwin();
	sigaction(SIGTSTP, &stop, &before);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGTSTP, &before, NULL);
}

/* Returns the signal if it ends smqtop, else 0. */
static int handle(int signal_)
{
	switch (signal_) {
	case SIGTSTP:
		suspend();
		break;
	case SIGCONT:
	case SIGWINCH:
		break;
	default:
		return signal_;
	}
	/* The size may have changed while it was stopped, and the shell has set its modes. */
	reset_prog_mode();
	resize();
	clearok(curscr, true);
	return 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Ends an interval; *status is not -1 if that ends smqtop. */
static void next(struct screen *s, int *status)
{
	switch (source_next(s->source)) {
	case SOURCE_NEXT:
		heat_follow(&s->heat, s->source);
		break;
	case SOURCE_END:
		s->paused = true;
		strcpy(s->dialog.message, "the end of the recording");
		break;
	case SOURCE_FAILED:
		*status = errno;
		endwin();
		errno = *status;
		warn("%s", s->source->failed);
		*status = 3;
	}
}

/* Chooses the interval that is shown. */
static void choose(struct screen *s)
{
	bool hold = s->paused && !s->source->replay;

	if (hold && !s->is_held)
		frame_copy(&s->held, &s->source->frame);
	else if (!hold && s->is_held)
		frame_free(&s->held);
	s->is_held = hold;
	s->frame = hold ? &s->held : &s->source->frame;
	if (!hold)
		s->heat_end = s->heat.intervals;
}

/* Finds the rows that are shown. */
static void arrange(struct screen *s)
{
	choose(s);
	place_arrange(&s->place, s->frame);
	source_look_at(s->source, place_lun(&s->place));
	if (s->place.whole_host)
		place_arrange(&s->place, s->frame);
}

/* Returns the exit status. */
static int loop(struct screen *s, unsigned long count, int signals)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN },
		{ .events = POLLIN },
	};
	double end = now() + s->interval, begun = now(), left;
	bool early, stopped;
	struct signalfd_siginfo info;
	int status = -1, key, got;
	unsigned long n = 0;

	while (status < 0) {
		arrange(s);
		if (s->mode == MODE_SETTINGS && s->dialog.question == ASK_NOTHING)
			dialog_refresh(&s->dialog);
		draw(s);
		/* A host or LUN that comes or goes ends the interval. */
		early = now() < begun + LEAST_SECONDS;
		fds[2].fd = early || s->source->replay ? -1 :
			s->source->live.sys.uevents;
		left = (early ? begun + LEAST_SECONDS : end) - now();
		stopped = s->paused && s->source->replay;
		poll(fds, 3, stopped ? -1 : left > 0 ? left * 1000 + 1 : 0);
		if (fds[1].revents && read(signals, &info, sizeof(info)) > 0) {
			got = handle(info.ssi_signo);
			if (got)
				return 128 + got;
		}
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			return 128 + SIGHUP;
		while ((key = getch()) != ERR) {
			if (keys_press(s, key))
				return 0;
			arrange(s);
		}
		end = begun + s->interval;
		stopped = s->paused && s->source->replay;
		if (!stopped && (now() >= end || (fds[2].fd >= 0 && fds[2].revents))) {
			next(s, &status);
			begun = now();
			end = begun + s->interval;
			if (count && ++n == count)
				return status < 0 ? 0 : status;
		}
	}
	return status;
}

int screen_run(struct source *source, const struct options *o, int signals)
{
	struct screen s = {
		.source = source,
		.place = {
			.first = o->sort,
			.second = SORT_IOPS,
			.levels = { { .view = o->view } },
		},
		.interval = o->interval,
		.paused = source->replay,
	};
	int status;

	snprintf(s.place.filter, sizeof(s.place.filter), "%s", o->filter ?: "");
	if (!newterm(NULL, stdout, stdin)) {
		warnx("the terminal cannot be used");
		return 3;
	}
	atexit(restore);
	draw_begin();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, true);
	nodelay(stdscr, true);
	set_escdelay(25);
	resize();
	if (source->replay) {
		source_seek(source, 0);
		heat_follow(&s.heat, source);
	} else {
		frame_collected(&source->frame, &source->live);
	}
	status = loop(&s, o->count, signals);
	restore();
	if (s.is_held)
		frame_free(&s.held);
	rows_free(&s.place.shown);
	heat_free(&s.heat);
	free(s.dialog.settings);
	return status;
}
