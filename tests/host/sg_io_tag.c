// SPDX-License-Identifier: GPL-2.0
/*
 * "fill LBA SEED PASS LINE BYTES": prints the block of pattern=tag in hex. "judge LBA SEED PASS
 * LINE": reads a block from standard input, and prints the verdict on it and its tags.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmdfile/tag.h"

static void show(const struct tag *t, bool blank)
{
	if (blank)
		printf(" -");
	else
		printf(" %llu/%llu/%u/%u", t->lba, t->seed, t->pass, t->line);
}

int main(int argc, char **argv)
{
	static __u8 block[4096];
	struct tag_finding f;
	struct tag t;
	size_t i, n;

	if (argc < 6)
		return 2;
	t = (struct tag){
		.lba = strtoull(argv[2], NULL, 0), .seed = strtoull(argv[3], NULL, 0),
		.pass = strtoul(argv[4], NULL, 0), .line = strtoul(argv[5], NULL, 0),
	};
	if (!strcmp(argv[1], "fill")) {
		n = atoi(argv[6]);
		tag_fill(&t, block, n);
		for (i = 0; i < n; i++)
			printf("%02x", block[i]);
		return 0;
	}
	tag_fill(&t, block, sizeof(block));
	n = fread(block, 1, sizeof(block), stdin);
	tag_judge(block, n, &t, &f);
	printf("%s", tag_verdict_name(f.verdict));
	if (f.verdict == TAG_CORRUPT) {
		printf(" %u", f.at);
	} else {
		show(&f.found, f.blank);
		if (f.verdict == TAG_TORN) {
			printf(" %u", f.at);
			show(&f.next, f.next_blank);
		}
	}
	putchar('\n');
	return 0;
}
