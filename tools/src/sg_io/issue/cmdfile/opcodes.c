// SPDX-License-Identifier: GPL-2.0
#include "opcodes.h"

void opcodes_add(struct opcodes *o, const __u8 *cdb, unsigned int len, __u64 count)
{
	const struct cdb_op *op = cdb_find(cdb, len);
	unsigned int i;

	if (!count)
		return;
	for (i = 0; i < o->nr; i++)
		if (o->kinds[i].op == op && o->kinds[i].opcode == cdb[0])
			break;
	if (i == o->nr) {
		if (o->nr == MAX_OPCODES)
			return;
		o->kinds[o->nr].op = op;
		o->kinds[o->nr++].opcode = cdb[0];
	}
	o->kinds[i].count += count;
}

static const char *kind_name(const struct opcodes *o, unsigned int i, char *buf, size_t size)
{
	if (o->kinds[i].op)
		return o->kinds[i].op->name;
	snprintf(buf, size, "opcode %02Xh", o->kinds[i].opcode);
	return buf;
}

void opcodes_print(const struct opcodes *o, FILE *out)
{
	char name[32];
	unsigned int i;

	for (i = 0; i < o->nr; i++)
		fprintf(out, "%s%s %llu", i ? ", " : "", kind_name(o, i, name, sizeof(name)),
			o->kinds[i].count);
}

struct json_object *opcodes_json(const struct opcodes *o)
{
	struct json_object *all = json_object_new_object();
	char name[32];
	unsigned int i;

	for (i = 0; i < o->nr; i++)
		json_object_object_add(all, kind_name(o, i, name, sizeof(name)),
				       json_object_new_uint64(o->kinds[i].count));
	return all;
}
