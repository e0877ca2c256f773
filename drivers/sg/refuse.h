/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Refusals of callers' requests. A caller's mistake is no kernel error, so nothing is logged by
 * default: the caller's structure gets the number of the field at fault, and a debug message names
 * the limit.
 */
#ifndef SMQSG_REFUSE_H
#define SMQSG_REFUSE_H

#include <linux/printk.h>
#include <linux/string.h>
#include <smq/uring.h>
#include <uapi/scsi/smq_sg.h>

/**
 * smqsg_refuse() - refuses the value of a field
 * @at: gets the number of the field at fault; a pointer to u32
 * @name: name of the field, as in SMQ_SG_FIELD_name
 * @error: an errno, below 0
 * @format: format of the debug message; its arguments follow
 *
 * Return: @error. Any context.
 */
#define smqsg_refuse(at, name, error, format, ...)	\
({							\
	pr_debug(format "\n", ##__VA_ARGS__);		\
	*(at) = SMQ_SG_FIELD_##name;			\
	(error);					\
})

/**
 * smqsg_sqe_unused() - whether the unused part of an SQE is 0
 * @ioucmd: the SQE
 * @used: how many bytes of its payload are used
 * @issue_flags: as io_uring passed them to the handler
 *
 * Return: false if a byte behind @used is not 0, or a flag of the command is set. Any context.
 */
static inline bool smqsg_sqe_unused(const struct io_uring_cmd *ioucmd, size_t used,
				    unsigned int issue_flags)
{
	const size_t payload = 2 * sizeof(struct io_uring_sqe) - offsetof(struct io_uring_sqe, cmd);

	if (ioucmd->flags & SMQ_URING_CMD_FLAGS)
		return false;
	return !(issue_flags & IO_URING_F_SQE128) ||
	       !memchr_inv(smq_uring_payload(ioucmd) + used, 0, payload - used);
}

#endif /* SMQSG_REFUSE_H */
