/* SPDX-License-Identifier: GPL-2.0 */
/* Rows as JSON. */
#ifndef SMQTOP_SHOW_H
#define SMQTOP_SHOW_H

#include "frame.h"

/* An object for some rows of an interval; what is not known is null. */
struct json_object *show_json(const struct frame *frame, const struct rows *rows);

#endif
