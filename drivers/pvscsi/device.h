/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pvscsi device as a driver sees it: registers, commands, rings. Everything in memory is
 * little-endian. The length of a ring is a power of two. An index does not wrap at that length: the
 * entry's number is the index modulo the length.
 */
#ifndef SMQ_PVSCSI_DEVICE_H
#define SMQ_PVSCSI_DEVICE_H

#include <linux/bits.h>
#include <linux/types.h>

#define PV_VENDOR		0x15ad
#define PV_DEVICE		0x07c0
#define PV_PAGE_SHIFT		12

/* Registers, in the one memory BAR. */
#define PV_REG_COMMAND		0x0000
#define PV_REG_COMMAND_DATA	0x0004	/* the command's words, one after the other */
#define PV_REG_COMMAND_STATUS	0x0008
#define PV_REG_INTR_STATUS	0x100c	/* written back to acknowledge; INTx only */
#define PV_REG_INTR_MASK	0x2010	/* 1: enabled */
#define PV_REG_KICK_NON_RW	0x3014	/* doorbell: the device may read the ring later */
#define PV_REG_KICK_RW		0x4018	/* doorbell: the device reads the ring now */
#define PV_REG_BYTES		0x8000

#define PV_INTR_CMPL		(BIT(0) | BIT(1))
#define PV_INTR_MSG		(BIT(2) | BIT(3))

enum pv_command {
	PV_CMD_ADAPTER_RESET	= 1,
	PV_CMD_SETUP_RINGS	= 3,
	PV_CMD_RESET_BUS	= 4,
	PV_CMD_RESET_DEVICE	= 5,
	PV_CMD_ABORT		= 6,
	PV_CMD_SETUP_MSG_RING	= 8,
};

#define PV_STATUS_FAILED	0xffffffffu

struct pv_cmd_setup_rings {
	__le32 req_pages;
	__le32 cmp_pages;
	__le64 state_ppn;
	__le64 req_ppn[32];
	__le64 cmp_ppn[32];
} __packed;

struct pv_cmd_setup_msg_ring {
	__le32 pages;
	__le32 pad;
	__le64 ppn[16];
} __packed;

struct pv_cmd_reset_device {
	__le32 target;
	u8 lun[8];
} __packed;

struct pv_cmd_abort {
	__le64 context;
	__le32 target;
	__le32 pad;
} __packed;

/* Indices of the rings, in a page that has nothing else. */
struct pv_rings_state {
	__le32 req_prod;
	__le32 req_cons;
	__le32 req_log2;
	__le32 cmp_prod;
	__le32 cmp_cons;
	__le32 cmp_log2;
	u8 pad[104];
	__le32 msg_prod;
	__le32 msg_cons;
	__le32 msg_log2;
};

#define PV_REQ_SG_LIST		BIT(0)
#define PV_REQ_NO_DATA		BIT(2)
#define PV_REQ_TO_HOST		BIT(3)
#define PV_REQ_TO_DEVICE	BIT(4)

struct pv_req {
	__le64 context;		/* the completion returns it; not 0, 32 bits */
	__le64 data;		/* address of the data, or of the scatterlist */
	__le64 data_len;
	__le64 sense;
	__le32 sense_len;
	__le32 flags;
	u8 cdb[16];
	u8 cdb_len;
	u8 lun[8];
	u8 tag;			/* task attribute: 20h is SIMPLE */
	u8 bus;
	u8 target;
	u8 vcpu_hint;
	u8 unused[59];
} __packed;

struct pv_sge {
	__le64 addr;
	__le32 len;
	__le32 flags;
};

/* QEMU never sets data_len. */
struct pv_cmp {
	__le64 context;
	__le64 data_len;
	__le32 sense_len;
	__le16 host_status;
	__le16 scsi_status;
	__le32 pad[2];
};

enum pv_host_status {
	PV_HS_OK		= 0x00,
	PV_HS_LINKED_OK		= 0x0a,
	PV_HS_LINKED_FLAG_OK	= 0x0b,
	PV_HS_UNDERRUN		= 0x0c,
	PV_HS_NO_DEVICE		= 0x11,
	PV_HS_DATA_RUN		= 0x12,
	PV_HS_LUN_MISMATCH	= 0x17,
	PV_HS_BAD_PARAMETER	= 0x1a,
	PV_HS_SENT_RESET	= 0x22,
	PV_HS_RECEIVED_RESET	= 0x23,
	PV_HS_BUS_RESET		= 0x25,
	PV_HS_ABORTED		= 0x26,
};

#define PV_MSG_DEV_ADDED	0
#define PV_MSG_DEV_REMOVED	1

struct pv_msg {
	__le32 type;
	__le32 bus;
	__le32 target;
	u8 lun[8];
	u8 unused[108];
};

#endif /* SMQ_PVSCSI_DEVICE_H */
