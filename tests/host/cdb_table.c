// SPDX-License-Identifier: GPL-2.0
/*
 * smq_sg's functions that read and change a CDB, and its table of rights, in user space. Built by
 * test_sg_cdb.py with a kernel's scsi_proto.h. Answers each line of stdin with a line:
 *
 * rights TYPE OPCODE ACTION: whether the CDB needs CAP_SYS_RAWIO with a file open for reading, and
 *	with one open for writing, too.
 * ioctl NUMBER: the opcode of the command that the ioctl sends, or -1.
 * lba TYPE CDB LBA: what smqsg_lba_fits() returns, and the CDB with the LBA.
 */
#include <stdio.h>
#include <string.h>

#include "../../drivers/sg/cdb.c"

static unsigned int read_cdb(u8 *cdb, const char *hex)
{
	unsigned int size = strlen(hex) / 2, i;

	for (i = 0; i < size; i++) {
		if (sscanf(hex + 2 * i, "%2hhx", cdb + i) != 1)
			return 0;
	}
	return size;
}

int main(void)
{
	unsigned int type, opcode, action, number, size, bits, i;
	unsigned long long lba;
	char line[160], hex[65];
	int error;

	while (fgets(line, sizeof(line), stdin)) {
		u8 cdb[32] = {};

		if (sscanf(line, "rights %u %u %u", &type, &opcode, &action) == 3) {
			cdb[0] = opcode;
			/* The other bits of this byte have other meanings. */
			cdb[1] = action | 0xe0;
			printf("%d %d\n", smqsg_needs_rawio(cdb, type, false),
			       smqsg_needs_rawio(cdb, type, true));
		} else if (sscanf(line, "ioctl %x", &number) == 1) {
			printf("%d\n", smqsg_ioctl_opcode(number));
		} else if (sscanf(line, "lba %u %64s %llu", &type, hex, &lba) == 3) {
			const struct scsi_device sdev = { .type = type };

			size = read_cdb(cdb, hex);
			bits = smqsg_lba_bits(&sdev, cdb[0]);
			error = smqsg_lba_fits(bits, lba);
			if (!error)
				smqsg_lba_set(cdb, bits, lba);
			printf("%d ", -error);
			for (i = 0; i < size; i++)
				printf("%02x", cdb[i]);
			printf("\n");
		} else {
			return 2;
		}
	}
	return 0;
}
