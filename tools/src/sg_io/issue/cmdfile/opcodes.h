/* SPDX-License-Identifier: GPL-2.0 */
/* How many commands of each kind there were. */
#ifndef SG_IO_OPCODES_H
#define SG_IO_OPCODES_H

#include <json-c/json.h>
#include <stdio.h>

#include "cdb.h"

#define MAX_OPCODES	512	/* 256 opcodes, and the service actions that have a name */

struct opcodes {
	struct {
		const struct cdb_op *op;	/* NULL: the opcode is not known */
		__u8 opcode;
		__u64 count;
	} kinds[MAX_OPCODES];
	unsigned int nr;
};

/* Adds @count commands of the kind of @cdb. */
void opcodes_add(struct opcodes *o, const __u8 *cdb, unsigned int len, __u64 count);

/* Prints "READ(10) 5, WRITE(10) 3", in the order in which the kinds first occurred. */
void opcodes_print(const struct opcodes *o, FILE *out);
struct json_object *opcodes_json(const struct opcodes *o);

#endif
