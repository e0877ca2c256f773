/* SPDX-License-Identifier: GPL-2.0 */
/* After a read that returned wrong data: reports details that help to find the cause. */
#ifndef FUZZ_EVIDENCE_H
#define FUZZ_EVIDENCE_H

#include "task.h"
#include "way.h"

static inline const struct smq_sg_status *own_status(const struct own *own, unsigned int slot)
{
	return (const struct smq_sg_status *)(own->status + slot * own->status_stride);
}

/* @transfer should have read @expected, the contents of block @lba. Its memory holds @found. */
void own_evidence(struct task *task, const struct transfer *transfer, uint32_t lba,
		  const unsigned char *found, const unsigned char *expected);

#endif /* FUZZ_EVIDENCE_H */
