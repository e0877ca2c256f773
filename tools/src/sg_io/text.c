// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

#define PIECE	4096	/* bytes that are written at once */

struct text {
	int fd;
	/* The beginning of a character whose end comes with the next write. */
	unsigned char begun[4];
	unsigned int have;
	unsigned int need;	/* bytes of that character */
};

/* Whether a byte continues the character. C2h with 80h to 9Fh is a control character. */
static bool continues(const struct text *t, unsigned char c)
{
	unsigned char least = 0x80, most = 0xbf;

	if (t->have == 1 && (t->begun[0] == 0xc2 || t->begun[0] == 0xe0))
		least = 0xa0;
	else if (t->have == 1 && t->begun[0] == 0xf0)
		least = 0x90;
	else if (t->have == 1 && t->begun[0] == 0xed)
		most = 0x9f;
	else if (t->have == 1 && t->begun[0] == 0xf4)
		most = 0x8f;
	return c >= least && c <= most;
}

/* Adds what becomes of the byte @c to @out, at most 4 bytes. Return: their number. */
static size_t take_byte(struct text *t, unsigned char c, char *out)
{
	size_t n = 0;

	if (t->have && continues(t, c)) {
		t->begun[t->have++] = c;
		if (t->have < t->need)
			return 0;
		memcpy(out, t->begun, t->need);
		t->have = 0;
		return t->need;
	}
	if (t->have)
		out[n++] = '?';
	t->have = 0;
	if (c >= 0xc2 && c <= 0xf4) {
		t->begun[t->have++] = c;
		t->need = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	} else {
		out[n++] = (c >= ' ' && c <= '~') || c == '\n' || c == '\t' ? c : '?';
	}
	return n;
}

static bool write_all(int fd, const char *from, size_t bytes)
{
	ssize_t n;

	while (bytes) {
		n = write(fd, from, bytes);
		if (n < 0 && errno != EINTR)
			return false;
		from += n > 0 ? n : 0;
		bytes -= n > 0 ? n : 0;
	}
	return true;
}

static ssize_t text_write(void *cookie, const char *from, size_t bytes)
{
	char out[PIECE + 4];
	size_t i, n = 0;

	for (i = 0; i < bytes; i++) {
		n += take_byte(cookie, from[i], out + n);
		if (n < PIECE && i + 1 < bytes)
			continue;
		if (!write_all(((struct text *)cookie)->fd, out, n))
			return 0;
		n = 0;
	}
	return bytes;
}

static int text_close(void *cookie)
{
	return close(((struct text *)cookie)->fd);
}

FILE *text_stream(int fd)
{
	const cookie_io_functions_t io = { .write = text_write, .close = text_close };
	static struct text texts[TEXT_STREAMS];
	static unsigned int nr;
	FILE *f;

	if (fd < 0 || nr == TEXT_STREAMS)
		return NULL;
	texts[nr].fd = fd;
	f = fopencookie(&texts[nr], "w", io);
	if (!f)
		return NULL;
	nr++;
	/* As standard error is only used for whole lines, each is one write. */
	if (fd == STDERR_FILENO || isatty(fd))
		setvbuf(f, NULL, _IOLBF, 0);
	return f;
}
