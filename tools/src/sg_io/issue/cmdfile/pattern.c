// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "pattern.h"
#include "tag.h"
#include "util.h"

/* What comes after "tag:": SEED or SEED:PASS. */
static bool parse_tag(const char *text, struct pattern *p, char *why, size_t size)
{
	size_t len = strcspn(text, ":");
	char seed[32];
	__u64 pass = 0;

	p->kind = PATTERN_TAG;
	snprintf(seed, sizeof(seed), "%.*s", (int)len, text);
	if (len >= sizeof(seed) || num_parse(seed, 0, ~0ULL, &p->value)) {
		snprintf(why, size, "pattern tag:SEED: '%.*s' is no 64-bit number", (int)len, text);
		return false;
	}
	if (text[len] && num_parse(text + len + 1, 0, ~0U, &pass)) {
		snprintf(why, size, "pattern tag:SEED:PASS: '%.40s' is no 32-bit number",
			 text + len + 1);
		return false;
	}
	p->pass = pass;
	return true;
}

bool pattern_parse(const char *text, struct pattern *p, char *why, size_t size)
{
	static const struct {
		const char *name;
		struct pattern pattern;
	} plain[] = {
		{ "zero", { PATTERN_BYTE, 0 } }, { "ff", { PATTERN_BYTE, 0xff } },
		{ "count", { PATTERN_COUNT } }, { "lba", { PATTERN_LBA } },
		{ "random", { PATTERN_RANDOM } }, { "tag", { PATTERN_TAG } },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(plain); i++) {
		*p = plain[i].pattern;
		if (!strcmp(text, plain[i].name))
			return true;
	}
	*p = (struct pattern){ .kind = PATTERN_BYTE };
	if (!strncmp(text, "byte:", 5)) {
		if (!num_parse(text + 5, 0, 0xff, &p->value))
			return true;
		snprintf(why, size, "pattern byte:N: '%s' is no number from 0 to 255", text + 5);
		return false;
	}
	if (!strncmp(text, "random:", 7)) {
		p->kind = PATTERN_RANDOM;
		if (!num_parse(text + 7, 0, ~0ULL, &p->value))
			return true;
		snprintf(why, size, "pattern random:SEED: '%s' is no 64-bit number", text + 7);
		return false;
	}
	if (!strncmp(text, "tag:", 4))
		return parse_tag(text + 4, p, why, size);
	snprintf(why, size, "pattern '%s' is not one of " PATTERN_FORMS, text);
	return false;
}

bool pattern_by_lba(const struct pattern *p)
{
	return p->kind == PATTERN_LBA || p->kind == PATTERN_RANDOM || p->kind == PATTERN_TAG;
}

bool pattern_by_line(const struct pattern *p)
{
	return p->kind == PATTERN_TAG;
}

static void fill_block(const struct pattern *p, __u8 *buf, __u32 bytes, __u64 lba, __u32 line)
{
	struct tag tag = { .lba = lba, .seed = p->value, .pass = p->pass, .line = line };
	__u64 state = p->value ^ prng_mix(lba);
	__u32 at, n;
	__u64 word;

	if (p->kind == PATTERN_TAG) {
		tag_fill(&tag, buf, bytes);
		return;
	}
	for (at = 0; at < bytes; at += n) {
		n = bytes - at < sizeof(word) ? bytes - at : sizeof(word);
		word = htobe64(p->kind == PATTERN_LBA ? lba : prng_next(&state));
		memcpy(buf + at, &word, n);
	}
}

void pattern_fill(const struct pattern *p, __u8 *buf, __u32 bytes, __u64 lba,
		  __u32 block_size, __u32 line)
{
	__u32 i, n;

	switch (p->kind) {
	case PATTERN_BYTE:
		memset(buf, p->value, bytes);
		return;
	case PATTERN_COUNT:
		for (i = 0; i < bytes; i++)
			buf[i] = i & 0xff;
		return;
	case PATTERN_LBA:
	case PATTERN_RANDOM:
	case PATTERN_TAG:
		if (!block_size)
			block_size = bytes;
		for (i = 0; i < bytes; i += n, lba++) {
			n = bytes - i < block_size ? bytes - i : block_size;
			fill_block(p, buf + i, n, lba, line);
		}
		return;
	}
}
