// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "devices.h"

struct devices devices_parse(int argc, char **argv)
{
	struct devices devices = { .names = argv + optind, .nr = argc - optind };

	if (!devices.nr || devices.nr > MAX_DEVICES) {
		fprintf(stderr, "DEVICE: give 1 to %d devices\n", MAX_DEVICES);
		exit(2);
	}
	return devices;
}

const char *devices_one(int argc, char **argv)
{
	if (argc - optind != 1) {
		fputs("DEVICE: give one device\n", stderr);
		exit(2);
	}
	return argv[optind];
}

int devices_open(const struct devices *devices, unsigned int n, unsigned int jobs,
		 int flags, int fds[MAX_DEVICES])
{
	unsigned int i;
	int nr = 0;

	for (i = n % devices->nr; i < devices->nr; i += jobs) {
		fds[nr] = open(devices->names[i], flags);
		if (fds[nr] < 0) {
			perror(devices->names[i]);
			return -1;
		}
		nr++;
	}
	return nr;
}

void devices_print(const struct devices *devices)
{
	unsigned int i;

	printf("\"devices\": [");
	for (i = 0; i < devices->nr; i++)
		printf("%s\"%s\"", i ? ", " : "", devices->names[i]);
	printf("]");
}
