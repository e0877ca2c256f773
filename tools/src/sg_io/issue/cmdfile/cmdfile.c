// SPDX-License-Identifier: GPL-2.0
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmdfile.h"
#include "dataset.h"
#include "inputs.h"
#include "map.h"
#include "tag.h"
#include "util.h"

#define LINE_BYTES	4096
#define SPACE		" \t\r\n\v\f"
#define AT_US_MAX	(1000000ULL * 86400 * 365)
#define TOOK_NS_MAX	(1000000ULL * 0x7fffffff)	/* see cmdfile_took() */
#define FIRST_ROOM	1024	/* for commands; it doubles */

#define WHY_BYTES	512

/* The keys of a line, in the order of @keys below. */
enum key {
	KEY_DATA, KEY_PATTERN, KEY_TIMEOUT, KEY_AT, KEY_CPU, KEY_DEV, KEY_TOOK, KEY_EXPECT,
	KEY_SENSE, KEY_RESID, KEY_REPEAT, KEY_UNTIL, KEY_WAIT,
};

/* State of parsing one line. */
struct line {
	char *rest;
	unsigned int seen;	/* keys, as bits */
	__u8 cdb[CDB_MAX];
	__u64 timeout_ms;
	__u64 cpu;
	__u64 at_us;
	__u64 took_ns;
	struct expect expect;
	const char *dev;
	struct data_spec spec;
	struct command *cmd;
	char why[WHY_BYTES];
};

#define fail(l, ...) (snprintf((l)->why, WHY_BYTES, __VA_ARGS__), false)

static bool has(const struct line *l, enum key key)
{
	return l->seen & 1u << key;
}

static bool has_source(const struct line *l)
{
	return has(l, KEY_DATA) || has(l, KEY_PATTERN);
}

static char *next_token(struct line *l)
{
	char *token;

	l->rest += strspn(l->rest, SPACE);
	if (!*l->rest || *l->rest == '#')
		return NULL;
	token = l->rest;
	l->rest += strcspn(l->rest, SPACE);
	if (*l->rest)
		*l->rest++ = '\0';
	return token;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Whether the next token is one byte in hex, as in a CDB with spaces between its bytes. */
static bool byte_follows(const struct line *l)
{
	const char *p = l->rest + strspn(l->rest, SPACE);

	return hex_digit(p[0]) >= 0 && hex_digit(p[1]) >= 0 && (!p[2] || strchr(SPACE, p[2]));
}

static bool add_bytes(struct line *l, const char *hex)
{
	struct command *cmd = l->cmd;
	size_t i, digits = strlen(hex), bytes = cmd->cdb_len + digits / 2;

	for (i = 0; i < digits; i++) {
		if (hex_digit(hex[i]) >= 0)
			continue;
		if (isprint((unsigned char)hex[i]))
			return fail(l, "CDB: '%c' is no hex digit", hex[i]);
		return fail(l, "CDB: byte %02Xh is no hex digit", (unsigned char)hex[i]);
	}
	if (digits % 2)
		return fail(l, "CDB: %zu hex digits, an even number is needed", digits);
	if (bytes > CDB_MAX)
		return fail(l, "CDB: %zu bytes, the limit is %d", bytes, CDB_MAX);
	for (i = 0; i < digits; i += 2)
		l->cdb[cmd->cdb_len++] = hex_digit(hex[i]) << 4 | hex_digit(hex[i + 1]);
	return true;
}

/* A CDB has no spaces, or a space after each byte, as the kernel and sg3_utils print it. */
static bool parse_cdb(struct line *l, const char *word)
{
	if (word[0] == '0' && (word[1] == 'x' || word[1] == 'X'))
		return fail(l, "CDB: hex digits without 0x");
	if (!add_bytes(l, word))
		return false;
	while (strlen(word) == 2 && byte_follows(l)) {
		word = next_token(l);
		if (!add_bytes(l, word))
			return false;
	}
	return true;
}

static bool parse_dir(struct line *l, const char *word)
{
	enum cdb_dir dir;

	if (!word)
		return fail(l, "direction missing: in, out or none");
	for (dir = DIR_NONE; dir <= DIR_OUT; dir++) {
		if (!strcmp(word, cdb_dir_name(dir))) {
			l->cmd->dir = dir;
			return true;
		}
	}
	if (strlen(word) > 1 && strspn(word, "0123456789abcdefABCDEF") == strlen(word))
		return fail(l, "direction '%.40s' is not in, out or none; a CDB has no spaces, or "
			    "one after each byte", word);
	return fail(l, "direction '%.40s' is not in, out or none", word);
}

static bool parse_bytes(struct line *l, const char *word)
{
	struct command *cmd = l->cmd;
	__u64 n;

	if (!word)
		return fail(l, "BYTES missing");
	switch (num_parse_size(word, 0, DATA_MAX, &n)) {
	case -EINVAL:
		return fail(l, "BYTES '%.40s' is no number", word);
	case -ERANGE:
		return fail(l, "BYTES %.40s is over the limit of %u", word, DATA_MAX);
	}
	if (cmd->dir == DIR_NONE && n)
		return fail(l, "BYTES is %llu but the direction is none", n);
	if (cmd->dir != DIR_NONE && !n)
		return fail(l, "BYTES is 0 but the direction is %s", cdb_dir_name(cmd->dir));
	cmd->bytes = n;
	return true;
}

static bool take_pattern(struct line *l, char *value)
{
	if (!pattern_parse(value, &l->spec.pattern, l->why, WHY_BYTES))
		return false;
	if (l->cmd->dir == DIR_IN && l->spec.pattern.kind == PATTERN_TAG)
		return fail(l, "pattern=tag: has the line that wrote a block, which a line that "
			    "reads it is not; sg_io verify knows it");
	return true;
}

static bool take_data(struct line *l, char *value)
{
	char *at = strrchr(value, '@');

	if (!at)
		return fail(l, "data=%.80s has no @OFFSET", value);
	*at++ = '\0';
	if (!*value)
		return fail(l, "data= has no file name before the @");
	if (num_parse_size(at, 0, INT64_MAX, &l->spec.offset))
		return fail(l, "data=FILE@OFFSET: '%.40s' is no offset in bytes", at);
	l->spec.file = value;
	return true;
}

static bool take_dev(struct line *l, char *value)
{
	l->dev = value;
	if (*value && strlen(value) <= FILE_DEVICE_NAME)
		return true;
	return fail(l, "dev= needs a name of 1 to %d characters", FILE_DEVICE_NAME);
}

static bool take_took(struct line *l, char *value)
{
	if (!num_parse_decimal(value, 1000, &l->took_ns) && l->took_ns <= TOOK_NS_MAX)
		return true;
	return fail(l, "took='%.40s' is no time in microseconds", value);
}

static bool take_expect(struct line *l, char *value)
{
	static const char * const names[] = {
		[EXPECT_GOOD] = "good", [EXPECT_CHECK] = "check", [EXPECT_ANY] = "any",
	};
	struct expect *e = &l->expect;

	for (e->status = EXPECT_GOOD; e->status <= EXPECT_ANY; e->status++)
		if (!strcmp(value, names[e->status]))
			return true;
	return fail(l, "expect='%.40s' is not good, check or any", value);
}

static bool take_sense(struct line *l, char *value)
{
	struct expect *e = &l->expect;
	int end = 0;

	e->has_sense = true;
	if (!value[strspn(value, "0123456789abcdefABCDEF/")] &&
	    sscanf(value, "%1hhx/%2hhx/%2hhx%n", &e->key, &e->asc, &e->ascq, &end) == 3 &&
	    !value[end])
		return true;
	return fail(l, "sense='%.40s' is not KEY/ASC/ASCQ in hex, as 5/24/00", value);
}

static bool take_until(struct line *l, char *value)
{
	l->expect.until_good = true;
	return !strcmp(value, "good") || fail(l, "until='%.40s' is not good", value);
}

#define NUMBER(field, low, high)	\
	.at = offsetof(struct line, field), .min = (low), .max = (high)

static const struct {
	const char *name;
	bool (*take)(struct line *l, char *value);	/* NULL: a number, as follows */
	size_t at;	/* of a __u64 in struct line */
	__u64 min;
	__u64 max;
} keys[] = {
	[KEY_DATA] = { "data", take_data },
	[KEY_PATTERN] = { "pattern", take_pattern },
	[KEY_TIMEOUT] = { "timeout", NUMBER(timeout_ms, 1, TIMEOUT_MS_MAX) },
	[KEY_AT] = { "at", NUMBER(at_us, 0, AT_US_MAX) },
	[KEY_CPU] = { "cpu", NUMBER(cpu, 0, CPU_SETSIZE - 1) },
	[KEY_DEV] = { "dev", take_dev },
	[KEY_TOOK] = { "took", take_took },
	[KEY_EXPECT] = { "expect", take_expect },
	[KEY_SENSE] = { "sense", take_sense },
	[KEY_RESID] = { "resid", NUMBER(expect.resid, 0, 0x7fffffff) },
	[KEY_REPEAT] = { "repeat", NUMBER(expect.tries, 1, REPEAT_MAX) },
	[KEY_UNTIL] = { "until", take_until },
	[KEY_WAIT] = { "wait", NUMBER(expect.wait_us, 1, WAIT_US_MAX) },
};

static bool parse_option(struct line *l, char *word)
{
	char *value = strchr(word, '=');
	enum key key;

	if (!value)
		return fail(l, "'%.40s' is not of the form KEY=VALUE", word);
	*value++ = '\0';
	for (key = 0; key < ARRAY_SIZE(keys) && strcmp(word, keys[key].name); key++)
		;
	if (key == ARRAY_SIZE(keys))
		return fail(l, "unknown key '%.40s': data, pattern, timeout, at, cpu, dev, took, "
			    "expect, sense, resid, repeat, until, wait are known", word);
	if (key <= KEY_PATTERN && has_source(l))
		return fail(l, "more than one data= or pattern=");
	if (key <= KEY_PATTERN && l->cmd->dir == DIR_NONE)
		return fail(l, "%s= needs data, but the direction is none", word);
	if (has(l, key))
		return fail(l, "%s= given twice", word);
	l->seen |= 1u << key;
	if (keys[key].take)
		return keys[key].take(l, value);
	if (!num_parse(value, keys[key].min, keys[key].max, (__u64 *)((char *)l + keys[key].at)))
		return true;
	return fail(l, "%s='%.40s' is no number from %llu to %llu", word, value, keys[key].min,
		    keys[key].max);
}

static bool build_data(struct line *l, bool make_later, struct dataset *ds)
{
	struct command *cmd = l->cmd;
	const struct cdb_op *op = cdb_find(cdb_of(cmd), cmd->cdb_len);
	struct data_spec *spec = &l->spec;
	const void *data;

	/* Data-in without data= or pattern= may be any. */
	if (cmd->dir == DIR_NONE || (cmd->dir == DIR_IN && !has_source(l)))
		return true;
	spec->bytes = cmd->bytes;
	if (op && op->lba_len) {
		spec->lba = cdb_lba(op, cdb_of(cmd));
		spec->block_size = cdb_block_size(op, cdb_of(cmd), cmd->bytes);
	} else if (!spec->file && (spec->pattern.kind == PATTERN_LBA ||
				   spec->pattern.kind == PATTERN_TAG)) {
		return fail(l, "pattern=%s: no LBA is known in a CDB with opcode %02Xh",
			    spec->pattern.kind == PATTERN_LBA ? "lba" : "tag", cdb_of(cmd)[0]);
	}
	if (!spec->file && spec->pattern.kind == PATTERN_TAG && spec->block_size < TAG_UNIT)
		return fail(l, "pattern=tag: blocks of %u bytes, at least %u are needed",
			    spec->block_size, TAG_UNIT);
	spec->line = cmd->line;
	if (make_later && cmd->dir == DIR_OUT && !spec->file && op && op->lba_len) {
		cmd->made = 1;
		cmd->data = dataset_pattern(ds, &spec->pattern);
		return cmd->data || fail(l, "no memory");
	}
	data = dataset_get(ds, spec, l->why, WHY_BYTES);
	if (cmd->dir == DIR_OUT)
		cmd->data = data;
	else
		l->expect.data = data;
	return data;
}

/* Return: false with l->why set. A line without a command leaves cdb_len 0. */
static bool parse_line(struct line *l, const struct cmdfile_options *opt)
{
	struct command *cmd = l->cmd;
	char *word = next_token(l);

	if (!word)
		return true;
	if (!parse_cdb(l, word) || !parse_dir(l, next_token(l)) ||
	    !parse_bytes(l, next_token(l)))
		return false;
	if (!cdb_check_length(l->cdb, cmd->cdb_len, l->why, WHY_BYTES))
		return false;
	if (!opt->unchecked && !cdb_check_data(l->cdb, cmd->cdb_len, cmd->dir,
					       cmd->bytes, l->why, WHY_BYTES)) {
		if (opt->names_unchecked)
			strcat(l->why, UNCHECKED_HINT);
		return false;
	}
	while ((word = next_token(l)))
		if (!parse_option(l, word))
			return false;
	cmd->timeout_ms = has(l, KEY_TIMEOUT) ? l->timeout_ms : TIMEOUT_MS_DEFAULT;
	cmd->cpu = has(l, KEY_CPU) ? (int)l->cpu : CPU_ANY;
	cmd->at_us = l->at_us;
	l->expect.has_resid = has(l, KEY_RESID);
	return expect_finish(&l->expect, cmd->bytes, cmd->dir == DIR_IN && has_source(l), l->why,
			     WHY_BYTES);
}

/* A CDB for which struct command has no room stays in the line until that is complete. */
static void set_cdb(struct line *l)
{
	if (l->cmd->cdb_len > CDB_INLINE)
		l->cmd->long_cdb = l->cdb;
	else
		memcpy(l->cmd->cdb, l->cdb, CDB_INLINE);
}

static bool keep_cdb(struct line *l)
{
	__u8 *copy;

	if (l->cmd->cdb_len <= CDB_INLINE)
		return true;
	copy = malloc(CDB_MAX);
	if (!copy)
		return fail(l, "no memory");
	l->cmd->long_cdb = memcpy(copy, l->cdb, CDB_MAX);
	return true;
}

/* Makes the array at @array, if it is there, larger. */
static bool grow(void *array, size_t size, size_t room)
{
	void *old, *bigger;

	memcpy(&old, array, sizeof(old));
	bigger = old ? reallocarray(old, room, size) : NULL;
	if (bigger)
		memcpy(array, &bigger, sizeof(bigger));
	return bigger || !old;
}

static bool make_room(struct cmdfile *file, size_t *room)
{
	if (file->nr < *room)
		return true;
	*room *= 2;
	return grow(&file->cmds, sizeof(*file->cmds), *room) &&
		grow(&file->took, sizeof(*file->took), *room) &&
		grow(&file->expects, sizeof(*file->expects), *room);
}

/* Sets the device of a command. Either all lines of a file have dev=, or none has. */
static bool set_device(struct line *l, const struct cmdfile_options *opt, struct cmdfile *file)
{
	unsigned int i;

	if (!file->nr && !l->dev)
		return true;
	if (file->nr && !l->dev != !file->nr_devs)
		return fail(l, "has %s, but the lines before have %s", l->dev ? "dev=" : "no dev=",
			    l->dev ? "none" : "it");
	if (!l->dev)
		return true;
	for (i = 0; i < file->nr_devs; i++)
		if (!strcmp(file->devs[i], l->dev))
			break;
	if (i == FILE_DEVICES)
		return fail(l, "dev=%s is one device more than %d", l->dev, FILE_DEVICES);
	if (i && !opt->many_devices)
		return fail(l, "dev=%s is a second device: 'sg_io replay %s %s FILE' sends each "
			    "its commands, 'sg_io replay --map %s=NEW --map %s=NEW FILE' sends "
			    "them elsewhere; so does sg_io verify", l->dev, file->devs[0], l->dev,
			    file->devs[0], l->dev);
	if (i == file->nr_devs) {
		file->devs[i] = strdup(l->dev);
		if (!file->devs[i])
			return fail(l, "no memory");
		file->nr_devs++;
	}
	l->cmd->dev = i;
	return true;
}

/* Sets the device of a command, and changes the command as --map says. */
static enum map_result place(struct line *l, const struct cmdfile_options *opt,
			     struct cmdfile *file)
{
	if (opt->maps && opt->maps->nr)
		return map_command(opt->maps, l->dev, l->cmd, l->why, WHY_BYTES);
	if (!set_device(l, opt, file))
		return MAP_FAIL;
	return opt->maps ? map_command(opt->maps, l->dev, l->cmd, l->why, WHY_BYTES) : MAP_KEEP;
}

/* See cmdfile_took(). */
static __u32 pack_took(__u64 ns)
{
	return ns >> 31 ? 1u << 31 | ns / 1000000 : ns;
}

/* The array of took= begins with the first line that has it; those before have 0. */
static bool set_took(struct line *l, struct cmdfile *file, size_t room)
{
	if (!file->took && !has(l, KEY_TOOK))
		return true;
	if (!file->took)
		file->took = calloc(room, sizeof(*file->took));
	if (!file->took)
		return fail(l, "no memory");
	file->took[file->nr] = pack_took(l->took_ns);
	return true;
}

/* The array of expectations begins in the same way. */
static bool set_expect(struct line *l, struct cmdfile *file, size_t room)
{
	if (!file->expects && !expect_is_used(&l->expect))
		return true;
	if (!file->expects)
		file->expects = calloc(room, sizeof(*file->expects));
	if (!file->expects)
		return fail(l, "no memory");
	file->expects[file->nr] = l->expect;
	if (l->expect.data)
		file->expects_data = true;
	file->in_order |= l->expect.tries || l->expect.wait_us;
	return true;
}

static void note_limits(struct cmdfile *file, const struct command *cmd)
{
	if (cmd->dir == DIR_IN && cmd->bytes > file->max_in)
		file->max_in = cmd->bytes;
	if (cmd->bytes > file->max_bytes)
		file->max_bytes = cmd->bytes;
	if (cmd->timeout_ms > file->max_timeout_ms)
		file->max_timeout_ms = cmd->timeout_ms;
}

/*
 * Reads one line, without its newline. Memory stays bounded: a line that is too long is an error.
 * Return: 1 for a line, 0 at the end of the file, -1 with @why set.
 */
static int read_line(FILE *in, char *text, const char **why)
{
	size_t len = 0;
	int c;

	while ((c = getc_unlocked(in)) != EOF && c != '\n') {
		if (len == LINE_BYTES) {
			*why = "longer than 4096 characters";
			return -1;
		}
		if (!c) {
			*why = "holds a NUL byte";
			return -1;
		}
		text[len++] = c;
	}
	text[len] = '\0';
	return len || c != EOF;
}

/* Times of lines for each CPU; index 0 is for lines without cpu=. */
struct times {
	struct {
		__u64 us;
		__u32 line;		/* 0: there is none */
	} last[CPU_SETSIZE + 1], kept[CPU_SETSIZE + 1];	/* of all lines; not left out by --map */
	__u64 latest;			/* of the previous line for any CPU */
};

/*
 * A line without at= gets the time of the previous line for its CPU. If there is none, it gets the
 * time of the previous line.
 */
static void set_time(struct times *t, struct command *cmd, bool has_at)
{
	unsigned int i = cmd->cpu - CPU_ANY;

	if (!has_at)
		cmd->at_us = t->last[i].line ? t->last[i].us : t->latest;
	t->last[i].us = cmd->at_us;
	t->last[i].line = cmd->line;
	t->latest = cmd->at_us;
}

/* A CPU's commands are issued in the order of the file, so their times must not decrease. */
static bool check_time(struct times *t, struct line *l)
{
	unsigned int i = l->cmd->cpu - CPU_ANY;

	if (t->kept[i].line && l->cmd->at_us < t->kept[i].us)
		return fail(l, "at=%llu is before at=%llu of line %u, which is issued first on "
			    "the same CPU", l->cmd->at_us, t->kept[i].us, t->kept[i].line);
	t->kept[i].us = l->cmd->at_us;
	t->kept[i].line = l->cmd->line;
	return true;
}

static int by_time(const void *a, const void *b, void *arg)
{
	const struct command *cmds = arg;
	__u32 x = *(const __u32 *)a, y = *(const __u32 *)b;

	if (cmds[x].at_us != cmds[y].at_us)
		return cmds[x].at_us < cmds[y].at_us ? -1 : 1;
	return x < y ? -1 : 1;
}

/* Brings the @nr elements of an array, of @size bytes, into an order. Return: the new array. */
static void *reorder(void *array, size_t nr, size_t size, const __u32 *order)
{
	char *new = calloc(nr, size), *old = array;
	size_t i;

	for (i = 0; new && i < nr; i++)
		memcpy(new + i * size, old + order[i] * size, size);
	free(array);
	return new;
}

/* Sorts the commands by time, and those of equal times by line. Return: false without memory. */
static bool sort_by_time(struct cmdfile *file)
{
	bool takes = file->took, expects = file->expects;
	__u32 *order;
	size_t i;

	for (i = 1; i < file->nr; i++)
		if (file->cmds[i].at_us < file->cmds[i - 1].at_us)
			break;
	if (i >= file->nr)
		return true;
	order = calloc(file->nr, sizeof(*order));
	if (!order)
		return false;
	for (i = 0; i < file->nr; i++)
		order[i] = i;
	qsort_r(order, file->nr, sizeof(*order), by_time, file->cmds);
	file->cmds = reorder(file->cmds, file->nr, sizeof(*file->cmds), order);
	if (takes)
		file->took = reorder(file->took, file->nr, sizeof(*file->took), order);
	if (expects)
		file->expects = reorder(file->expects, file->nr, sizeof(*file->expects), order);
	free(order);
	return file->cmds && (file->took || !takes) && (file->expects || !expects);
}

/* A recording does not have the ends of what was in flight when it ended. */
static bool end_all(struct cmdfile *file, const char *needs)
{
	__u64 last = 0, end, took;
	size_t i, open = 0;

	for (i = 0; file->took && i < file->nr; i++) {
		end = file->cmds[i].at_us * 1000 + cmdfile_took(file, i);
		last = end > last ? end : last;
		open += !file->took[i];
	}
	if (!file->took || open == file->nr) {
		warnx("%s: no line has took=, which %s needs", file->name, needs);
		return false;
	}
	for (i = 0; open && i < file->nr; i++) {
		took = last - file->cmds[i].at_us * 1000;
		if (!file->took[i])
			file->took[i] = pack_took(took > TOOK_NS_MAX ? TOOK_NS_MAX : took ?: 1);
	}
	if (open)
		warnx("%s: %zu of %zu commands have no took=: they count as ended last",
		      file->name, open, file->nr);
	return true;
}

/*
 * Adds the command of a line, if it has one. Return: MAP_DROP: its command is left out; MAP_FAIL:
 * l->why is set.
 */
static enum map_result add_line(struct line *l, __u32 number, const struct cmdfile_options *opt,
				struct times *times, struct cmdfile *file, size_t *room)
{
	enum map_result result;
	struct command *cmd;

	if (!make_room(file, room))
		return fail(l, "no memory for more commands");
	cmd = &file->cmds[file->nr];
	*cmd = (struct command){ .line = number };
	l->cmd = cmd;
	if (!parse_line(l, opt))
		return MAP_FAIL;
	if (!cmd->cdb_len)
		return MAP_KEEP;
	set_cdb(l);
	file->timed |= has(l, KEY_AT);
	set_time(times, cmd, has(l, KEY_AT));
	result = place(l, opt, file);
	if (result != MAP_KEEP)
		return result;
	if ((opt->by_time && !check_time(times, l)) ||
	    !build_data(l, opt->make_later, file->data) || !set_took(l, file, *room) ||
	    !set_expect(l, file, *room) || !keep_cdb(l))
		return MAP_FAIL;
	note_limits(file, cmd);
	if (++file->nr > MAX_COMMANDS)
		return fail(l, "more than %u commands", MAX_COMMANDS);
	return MAP_KEEP;
}

static int load_lines(FILE *in, const struct cmdfile_options *opt, struct cmdfile *file)
{
	char text[LINE_BYTES + 1];
	struct times times = {};
	unsigned int number = 0;
	const char *why;
	bool dropped = false;
	size_t room = FIRST_ROOM;
	struct line l;
	int got;

	while ((got = read_line(in, text, &why))) {
		number++;
		if (got < 0) {
			warnx("%s:%u: line %s", file->name, number, why);
			return -1;
		}
		l = (struct line){ .rest = text };
		switch (add_line(&l, number, opt, &times, file, &room)) {
		case MAP_FAIL:
			warnx("%s:%u: %s", file->name, number, l.why);
			return -1;
		case MAP_DROP:
			dropped = true;
			break;
		case MAP_KEEP:
			break;
		}
	}
	if (ferror(in)) {
		warn("%s", file->name);
		return -1;
	}
	if (!file->nr) {
		warnx("%s: holds no command%s", file->name,
		      dropped ? " from --from to --to" : "");
		return -1;
	}
	if (opt->needs_took && !end_all(file, opt->needs_took))
		return -1;
	if (opt->by_time && !sort_by_time(file)) {
		warnx("%s: no memory to sort %zu commands", file->name, file->nr);
		return -1;
	}
	return 0;
}

int cmdfile_load(const char *name, const struct cmdfile_options *opt,
		 struct cmdfile *file)
{
	bool is_stdin = !strcmp(name, "-");
	FILE *in = is_stdin ? stdin : fopen(name, "re");
	int ret;

	*file = (struct cmdfile){ .name = is_stdin ? "standard input" : name };
	if (!in) {
		warn("%s", name);
		return -1;
	}
	input_note_fd(fileno(in));
	file->data = dataset_new(is_stdin ? NULL : name, opt->memory);
	file->cmds = calloc(FIRST_ROOM, sizeof(*file->cmds));
	if (file->data && file->cmds) {
		ret = load_lines(in, opt, file);
	} else {
		warnx("%s: no memory", name);
		ret = -1;
	}
	if (!is_stdin)
		fclose(in);
	if (ret)
		cmdfile_free(file);
	return ret;
}

void cmdfile_fill(const struct command *cmd, void *buf)
{
	const struct cdb_op *op = cmd->made ? cdb_find(cdb_of(cmd), cmd->cdb_len) : NULL;

	if (op)
		pattern_fill(cmd->data, buf, cmd->bytes, cdb_lba(op, cdb_of(cmd)),
			     cdb_block_size(op, cdb_of(cmd), cmd->bytes), cmd->line);
	else
		memcpy(buf, cmd->data, cmd->bytes);
}

void cmdfile_free(struct cmdfile *file)
{
	size_t i;

	for (i = 0; i < file->nr; i++)
		if (file->cmds[i].cdb_len > CDB_INLINE)
			free(file->cmds[i].long_cdb);
	dataset_free(file->data);
	while (file->nr_devs)
		free(file->devs[--file->nr_devs]);
	free(file->took);
	free(file->expects);
	free(file->cmds);
	*file = (struct cmdfile){};
}
