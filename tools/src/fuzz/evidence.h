/* SPDX-License-Identifier: GPL-2.0 */
/* Finds out why a read did not return what was written. */
#ifndef FUZZ_EVIDENCE_H
#define FUZZ_EVIDENCE_H

#include "life.h"
#include "way.h"

static inline const struct smq_sg_status *own_status(const struct own *own, unsigned int slot)
{
	return (const struct smq_sg_status *)(own->status + slot * own->status_stride);
}

/* After a fault: @transfer should have read @expected into its data, which holds @found. */
void own_evidence(struct life *life, const struct transfer *transfer, uint32_t lba,
		  const unsigned char *found, const unsigned char *expected);

#endif /* FUZZ_EVIDENCE_H */
