// SPDX-License-Identifier: GPL-2.0
/*
 * smq_zero: the smallest LLD. It has one disk of 64 MiB: READ returns zeroes, WRITE is ignored. It
 * finishes every command inside queue_cmd, so there is nothing to abort or reset.
 */
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <linux/sizes.h>
#include <scsi/scsi_proto.h>
#include <smq/lld.h>

static void zero_answer(struct scsi_cmnd *scmd, const void *data, unsigned int len)
{
	len = min(len, scsi_bufflen(scmd));
	sg_copy_from_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), data, len);
	scsi_set_resid(scmd, scsi_bufflen(scmd) - len);
}

static enum smq_status zero_queue_cmd(struct smq_hwq *hwq, struct smq_cmd *cmd)
{
	static const u8 inquiry[36] = "\0\0\5\2\37\0\0\2SMQ     ZERO            1";
	__be32 capacity[2] = { cpu_to_be32(SZ_64M / 512 - 1), cpu_to_be32(512) };
	struct scsi_cmnd *scmd = smq_cmd_to_scmd(cmd);

	scmd->result = SAM_STAT_GOOD;
	if (scmd->cmnd[0] == INQUIRY && !(scmd->cmnd[1] & 1))
		zero_answer(scmd, inquiry, sizeof(inquiry));
	else if (scmd->cmnd[0] == READ_CAPACITY)
		zero_answer(scmd, capacity, sizeof(capacity));
	else if (scmd->cmnd[0] == READ_10)
		sg_zero_buffer(scsi_sglist(scmd), scsi_sg_count(scmd), scsi_bufflen(scmd), 0);
	else if (scmd->cmnd[0] != WRITE_10 && scmd->cmnd[0] != TEST_UNIT_READY)
		scsi_build_sense(scmd, 0, ILLEGAL_REQUEST, 0x20, 0);
	return SMQ_DONE;
}

static const struct smq_lld zero_lld = {
	.name		= "smq_zero",
	.max_cmd_len	= 16,
	.sg_tablesize	= 128,
	.max_sectors	= 1024,
	.queue_cmd	= zero_queue_cmd,
};

SMQ_LLD_TEMPLATE(zero_template, zero_lld);

static struct smq_host *zero_host;

static int __init zero_init(void)
{
	const struct smq_host_config cfg = {
		.hw_queues = num_online_cpus(), .depth = 64, .max_id = 1, .max_lun = 1,
	};
	int err;

	zero_host = smq_host_alloc(&zero_lld, &zero_template, &cfg);
	if (IS_ERR(zero_host))
		return PTR_ERR(zero_host);
	err = smq_host_add(zero_host, NULL);
	if (err)
		smq_host_free(zero_host);
	else
		scsi_scan_host(zero_host->shost);
	return err;
}
module_init(zero_init);

static void __exit zero_exit(void)
{
	smq_host_remove(zero_host);
	smq_host_free(zero_host);
}
module_exit(zero_exit);

MODULE_DESCRIPTION("The smallest LLD on smq");
MODULE_LICENSE("GPL");
