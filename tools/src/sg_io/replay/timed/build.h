/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SG_IO_BUILD_H
#define SG_IO_BUILD_H

#include "chunk.h"

/**
 * timed_build() - fill the next chunk with commands
 * @t: has a free chunk, and commands that are in none
 *
 * Return: false after one message.
 */
bool timed_build(struct timed *t);

#endif
