/* SPDX-License-Identifier: GPL-2.0 */
/* Rows as text of 80 columns, and as JSON. */
#ifndef SMQTOP_SHOW_H
#define SMQTOP_SHOW_H

#include <json-c/json.h>

#include "rows.h"

#define SHOW_LINE	(ROW_NAME + ROW_TEXT + 64)

/* The names of the columns, without a newline. */
void show_head(enum view view, char *line, size_t size);
void show_row(enum view view, const struct row *row, double seconds, char *line, size_t size);

/* An object for one interval; what is not known is null. */
struct json_object *show_json(const struct rows *rows, double seconds, const struct watch *w);

#endif
