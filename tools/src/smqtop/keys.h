/* SPDX-License-Identifier: GPL-2.0 */
/* What each key does. */
#ifndef SMQTOP_KEYS_H
#define SMQTOP_KEYS_H

#include "state.h"

/* Returns whether the user ends smqtop. */
bool keys_press(struct screen *s, int key);

#endif
