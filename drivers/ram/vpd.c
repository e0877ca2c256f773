// SPDX-License-Identifier: GPL-2.0
/* Vital product data (SPC-5, 7.7; SBC-4, 6.6). */
#include <linux/mm.h>
#include <linux/string.h>

#include "ram.h"

static unsigned int vpd_supported(const struct ram_lun *lun, u8 *p)
{
	static const u8 pages[] = { 0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2 };

	memcpy(p, pages, sizeof(pages));
	return sizeof(pages);
}

static unsigned int vpd_serial(const struct ram_lun *lun, u8 *p)
{
	return scnprintf(p, 32, "SMQRAM%04x%04x", lun->ram->index, lun->number);
}

static unsigned int vpd_identification(const struct ram_lun *lun, u8 *p)
{
	unsigned int n;

	/* NAA 3h, locally assigned: "SMQ", host and LUN */
	p[0] = 0x01;			/* binary */
	p[1] = 0x03;			/* of the logical unit, NAA */
	p[3] = 8;
	put_unaligned_be64(0x3534d51000000000ULL | (u64)lun->ram->index << 16 | lun->number,
			   p + 4);
	/* T10 vendor ID based */
	p[12] = 0x02;			/* ASCII */
	p[13] = 0x01;
	memcpy(p + 16, "SMQ     ", 8);
	n = vpd_serial(lun, p + 24);
	p[15] = 8 + n;
	return 24 + n;
}

static unsigned int vpd_block_limits(const struct ram_lun *lun, u8 *p)
{
	p -= 4;				/* offsets as in SBC-4, table 252 */
	p[4] = 0x01;			/* WSNZ */
	put_unaligned_be32(U32_MAX, p + 20);
	put_unaligned_be32(RAM_MAX_UNMAP_DESCRIPTORS, p + 24);
	put_unaligned_be32(PAGE_SIZE >> lun->shift, p + 28);
	put_unaligned_be64(RAM_MAX_WRITE_SAME_BYTES >> lun->shift, p + 36);
	return 0x3c;
}

static unsigned int vpd_characteristics(const struct ram_lun *lun, u8 *p)
{
	put_unaligned_be16(1, p);	/* non-rotating medium */
	return 0x3c;
}

static unsigned int vpd_provisioning(const struct ram_lun *lun, u8 *p)
{
	/* LBPU, LBPWS, LBPWS10, LBPRZ 001b: unmapped blocks read as zeroes */
	p[1] = 0x80 | 0x40 | 0x20 | 0x04;
	p[2] = 0x02;			/* thin provisioned */
	return 4;
}

void ram_vpd(struct ram_lun *lun, struct scsi_cmnd *scmd, unsigned int alloc)
{
	u8 data[80] = { [0] = 0, [1] = scmd->cmnd[2] };
	u8 *p = data + 4;
	unsigned int n;

	switch (scmd->cmnd[2]) {
	case 0x00:
		n = vpd_supported(lun, p);
		break;
	case 0x80:
		n = vpd_serial(lun, p);
		break;
	case 0x83:
		n = vpd_identification(lun, p);
		break;
	case 0xb0:
		n = vpd_block_limits(lun, p);
		break;
	case 0xb1:
		n = vpd_characteristics(lun, p);
		break;
	case 0xb2:
		n = vpd_provisioning(lun, p);
		break;
	default:
		ram_invalid_cdb(scmd, 2, -1);
		return;
	}
	put_unaligned_be16(n, data + 2);
	ram_data_in(scmd, data, 4 + n, alloc);
}
