/* SPDX-License-Identifier: GPL-2.0 */
/* Draws the screen. */
#ifndef SMQTOP_DRAW_H
#define SMQTOP_DRAW_H

#include "state.h"

/* Chooses the colours of the terminal, or none. */
void draw_begin(void);
void draw(struct screen *s);

#endif
