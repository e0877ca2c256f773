/* SPDX-License-Identifier: GPL-2.0 */
/* The screen: views by key, from a host to its LUNs and queues, settings, latency over time. */
#ifndef SMQTOP_SCREEN_H
#define SMQTOP_SCREEN_H

#include "source.h"

struct options {
	bool json;
	bool sysfs;
	bool text;		/* --once */
	bool counts;
	unsigned int sample;	/* 0: as many as the rate allows */
	double slow;		/* milliseconds */
	double interval;
	unsigned long count;	/* 0: until a signal, or the end of the recording */
	const char *filter;
	const char *record;
	const char *metrics;
	const char *replay;
	enum view view;
	enum sort sort;
};

/* Whether the terminal has what a screen needs. */
bool screen_possible(void);

/**
 * screen_run() - show intervals until the user ends it
 * @source: the intervals
 * @o: what is shown first
 * @signals: signalfd of the signals that end it, of those of job control and of SIGWINCH
 *
 * Return: the exit status.
 */
int screen_run(struct source *source, const struct options *o, int signals);

#endif
