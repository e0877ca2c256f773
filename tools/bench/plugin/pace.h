/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keeps two vCPUs in step, however the host schedules their threads: neither runs more than a
 * window of instructions ahead of the other. So they share cache lines as two real CPUs would.
 * Their relative speed varies at random, so that they do not stay at a fixed distance.
 */
#ifndef SMQ_BENCH_PACE_H
#define SMQ_BENCH_PACE_H

#include <stdint.h>

#include "qemu-plugin.h"

#define PACED_VCPUS	2

/* Takes a window= (instructions) or seed= argument. */
bool pace_option(const char *arg);

void pace_init(qemu_plugin_id_t id);
void pace_start(void);
void pace_wait(unsigned int vcpu, uint32_t insns);

/* How often a vCPU ran ahead because the host did not run the other one. */
uint64_t pace_slips(void);

#endif /* SMQ_BENCH_PACE_H */
