/* SPDX-License-Identifier: GPL-2.0 */
/* The direction of a CDB's data, by its opcode (SPC-5, SBC-4, SSC-5, SMC-3). */
#ifndef SMQ_CDB_DIRECTION_H
#define SMQ_CDB_DIRECTION_H

#include <linux/dma-direction.h>
#include <linux/types.h>
#include <scsi/scsi_proto.h>
#include <smq/rw_cdb.h>

/*
 * An opcode is left out if its data may have either direction (ATA PASS-THROUGH), if it has another
 * meaning for another type of device (UNMAP is MMC's READ SUB-CHANNEL), if it is a vendor's, or if
 * it has no data.
 */
static const u8 smq_cdb_directions[256] = {
	[REQUEST_SENSE]		= DMA_FROM_DEVICE,
	[READ_6]		= DMA_FROM_DEVICE,
	[INQUIRY]		= DMA_FROM_DEVICE,
	[MODE_SENSE]		= DMA_FROM_DEVICE,
	[RECEIVE_DIAGNOSTIC]	= DMA_FROM_DEVICE,
	[READ_CAPACITY]		= DMA_FROM_DEVICE,
	[READ_10]		= DMA_FROM_DEVICE,
	[READ_DEFECT_DATA]	= DMA_FROM_DEVICE,
	[READ_BUFFER]		= DMA_FROM_DEVICE,
	[READ_LONG]		= DMA_FROM_DEVICE,
	[LOG_SENSE]		= DMA_FROM_DEVICE,
	[MODE_SENSE_10]		= DMA_FROM_DEVICE,
	[PERSISTENT_RESERVE_IN]	= DMA_FROM_DEVICE,
	[RECEIVE_COPY_RESULTS]	= DMA_FROM_DEVICE,
	[READ_16]		= DMA_FROM_DEVICE,
	[READ_ATTRIBUTE]	= DMA_FROM_DEVICE,
	[SERVICE_ACTION_IN_16]	= DMA_FROM_DEVICE,
	[REPORT_LUNS]		= DMA_FROM_DEVICE,
	[SECURITY_PROTOCOL_IN]	= DMA_FROM_DEVICE,
	[READ_12]		= DMA_FROM_DEVICE,
	[READ_ELEMENT_STATUS]	= DMA_FROM_DEVICE,

	[FORMAT_UNIT]		= DMA_TO_DEVICE,
	[REASSIGN_BLOCKS]	= DMA_TO_DEVICE,
	[WRITE_6]		= DMA_TO_DEVICE,
	[MODE_SELECT]		= DMA_TO_DEVICE,
	[SEND_DIAGNOSTIC]	= DMA_TO_DEVICE,
	[WRITE_10]		= DMA_TO_DEVICE,
	[WRITE_VERIFY]		= DMA_TO_DEVICE,
	[VERIFY]		= DMA_TO_DEVICE,
	[WRITE_BUFFER]		= DMA_TO_DEVICE,
	[WRITE_LONG]		= DMA_TO_DEVICE,
	[WRITE_SAME]		= DMA_TO_DEVICE,
	[LOG_SELECT]		= DMA_TO_DEVICE,
	[MODE_SELECT_10]	= DMA_TO_DEVICE,
	[PERSISTENT_RESERVE_OUT] = DMA_TO_DEVICE,
	[EXTENDED_COPY]		= DMA_TO_DEVICE,
	[COMPARE_AND_WRITE]	= DMA_TO_DEVICE,
	[WRITE_16]		= DMA_TO_DEVICE,
	[SMQ_WRITE_ATOMIC_16]	= DMA_TO_DEVICE,
	[WRITE_ATTRIBUTE]	= DMA_TO_DEVICE,
	[WRITE_VERIFY_16]	= DMA_TO_DEVICE,
	[VERIFY_16]		= DMA_TO_DEVICE,
	[WRITE_SAME_16]		= DMA_TO_DEVICE,
	[WRITE_12]		= DMA_TO_DEVICE,
	[WRITE_VERIFY_12]	= DMA_TO_DEVICE,
	[VERIFY_12]		= DMA_TO_DEVICE,
	[SECURITY_PROTOCOL_OUT]	= DMA_TO_DEVICE,
};

/**
 * smq_cdb_misdirected() - whether an opcode never has data in a direction
 * @opcode: the CDB's first byte
 * @dir: DMA_TO_DEVICE or DMA_FROM_DEVICE, of a command with data
 *
 * Context: any.
 * Return: false also for an opcode that is not in the table.
 */
static inline bool smq_cdb_misdirected(u8 opcode, enum dma_data_direction dir)
{
	/* The two directions are separate bits. */
	return smq_cdb_directions[opcode] & ~dir;
}

#endif /* SMQ_CDB_DIRECTION_H */
