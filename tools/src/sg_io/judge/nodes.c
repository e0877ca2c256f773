// SPDX-License-Identifier: GPL-2.0
/*
 * sg_io nodes: for sg_io's own use, so --help does not list it. Takes the options of sg_io run,
 * checks them and FILE for sg_io compare, and prints the nodes of DEV, one a line: sg, bsg, block
 * and smqsg; an empty line for one that it does not have.
 */
#include <stdio.h>

#include "commands.h"
#include "issue/cmdfile/cmdfile.h"
#include "issue/device/device.h"
#include "issue/run/run.h"

int cmd_nodes(int argc, char **argv)
{
	struct cmdfile_options how = { .names_unchecked = true };
	struct run_options opt;
	struct cmdfile file;
	struct device dev;
	unsigned int i;

	argv[0] = (char *)"sg_io compare";
	run_parse_options(argc, argv, &opt);
	how.unchecked = opt.unchecked;
	how.memory = opt.memory;
	run_set_type(&opt);
	if (!device_comes_first(opt.devs[0]) || cmdfile_load(opt.file, &how, &file))
		return EXIT_USAGE;
	cmdfile_free(&file);
	if (device_find(opt.devs[0], &dev))
		return EXIT_DEVICE;
	for (i = 0; i < NODE_KINDS; i++)
		puts(dev.node[i]);
	return finish_output(EXIT_GOOD);
}
