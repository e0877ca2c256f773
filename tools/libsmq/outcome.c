// SPDX-License-Identifier: GPL-2.0
/* How commands ended: from the mapped array or from a completion, and as text. */
#include <errno.h>
#include <scsi/sg_lib.h>
#include <stdio.h>
#include <string.h>

#include "device.h"

#define STATUS_MASK	0x7e

void smq_timed_outcome(const struct smq_sg_timed_result *result, struct smq_outcome *outcome)
{
	*outcome = (struct smq_outcome){};
	if (result->result < 0) {
		outcome->error = -result->result;
		return;
	}
	outcome->status = SMQ_SG_RESULT_STATUS(result->result);
	outcome->host = SMQ_SG_RESULT_HOST(result->result);
	outcome->resid = result->resid;
	if (!(result->result & SMQ_SG_RESULT_SENSE))
		return;
	outcome->key = result->sense_key;
	outcome->asc = result->asc;
	outcome->ascq = result->ascq;
}

void smq_slot_outcome(const struct smq_device *dev, uint32_t slot, struct smq_outcome *outcome)
{
	const struct smq_sg_status *s = smq_status(dev, slot);
	struct smq_sg_timed_result result = { .result = -EINVAL };

	if (s)
		result = (struct smq_sg_timed_result){
			.result = s->result, .resid = s->resid, .sense_key = s->sense_key,
			.asc = s->asc, .ascq = s->ascq,
		};
	smq_timed_outcome(&result, outcome);
	if (result.result < 0 || !(result.result & SMQ_SG_RESULT_SENSE))
		return;
	outcome->sense_len = s->sense_len;
	outcome->sense = s->sense;
}

void smq_command_outcome(const struct smq_event *event, const struct smq_sg_uring_cmd *command,
			 struct smq_outcome *outcome)
{
	struct sg_scsi_sense_hdr sense;

	*outcome = (struct smq_outcome){};
	if (event->result < 0) {
		outcome->error = -event->result;
		return;
	}
	/* From bit 0: status, driver byte, host byte, sense length, 8 bits each; residual. */
	outcome->status = event->more & 0xff;
	outcome->host = event->more >> 16 & 0xff;
	outcome->resid = event->more >> 32;
	outcome->sense_len = event->more >> 24 & 0xff;
	if (!outcome->sense_len)
		return;
	outcome->sense = (const uint8_t *)(uintptr_t)command->response;
	if (sg_scsi_normalize_sense(outcome->sense, outcome->sense_len, &sense)) {
		outcome->key = sense.sense_key;
		outcome->asc = sense.asc;
		outcome->ascq = sense.ascq;
	}
}

bool smq_good(const struct smq_outcome *outcome)
{
	unsigned int status = outcome->status & STATUS_MASK;

	return !outcome->error && !outcome->host &&
	       (status == SAM_STAT_GOOD || status == SAM_STAT_CONDITION_MET);
}

const char *smq_status_name(unsigned int status, char *text, size_t size)
{
	char *c;

	if (!size)
		return text;
	sg_get_scsi_status_str(status, size, text);
	/* sgutils writes "Check Condition"; the standards use capitals. */
	for (c = text; *c; c++)
		if (*c >= 'a' && *c <= 'z')
			*c -= 'a' - 'A';
	return text;
}

const char *smq_host_name(unsigned int host, char *text, size_t size)
{
	static const char * const names[] = {
		"DID_OK", "DID_NO_CONNECT", "DID_BUS_BUSY", "DID_TIME_OUT",
		"DID_BAD_TARGET", "DID_ABORT", "DID_PARITY", "DID_ERROR",
		"DID_RESET", "DID_BAD_INTR", "DID_PASSTHROUGH", "DID_SOFT_ERROR",
		"DID_IMM_RETRY", "DID_REQUEUE", "DID_TRANSPORT_DISRUPTED",
		"DID_TRANSPORT_FAILFAST", "DID_TARGET_FAILURE", "DID_NEXUS_FAILURE",
		"DID_ALLOC_FAILURE", "DID_MEDIUM_ERROR", "DID_TRANSPORT_MARGINAL",
	};

	if (host < sizeof(names) / sizeof(names[0]))
		snprintf(text, size, "%s", names[host]);
	else
		snprintf(text, size, "host %#x", host);
	return text;
}

const char *smq_sense_text(unsigned int key, unsigned int asc, unsigned int ascq, char *text,
			   size_t size)
{
	static const char heading[] = "Additional sense: ";
	char key_text[64], asc_text[256];
	const char *what = asc_text;

	sg_get_sense_key_str(key, sizeof(key_text), key_text);
	sg_get_asc_ascq_str(asc, ascq, sizeof(asc_text), asc_text);
	if (!strncmp(what, heading, sizeof(heading) - 1))
		what += sizeof(heading) - 1;
	snprintf(text, size, "%s (%Xh): %s (%02Xh/%02Xh)", key_text, key, what, asc, ascq);
	return text;
}

const char *smq_outcome_text(const struct smq_outcome *outcome, char *text, size_t size)
{
	char status[64] = "", host[64] = "", sense[384] = "", resid[32] = "";

	if (outcome->error) {
		snprintf(text, size, "%s: %s", strerrorname_np(outcome->error) ?: "errno",
			 smq_strerror(SMQ_CALL_RUN, outcome->error));
		return text;
	}
	/* GOOD beside a host byte says nothing: the device has often sent no status. */
	if ((outcome->status & STATUS_MASK) || !outcome->host)
		smq_status_name(outcome->status & STATUS_MASK, status, sizeof(status));
	if (outcome->host)
		smq_host_name(outcome->host, host, sizeof(host));
	/* With a sense_size of 0 only key, asc and ascq are known. */
	if (outcome->sense_len || outcome->key || outcome->asc || outcome->ascq)
		smq_sense_text(outcome->key, outcome->asc, outcome->ascq, sense, sizeof(sense));
	if (outcome->resid)
		snprintf(resid, sizeof(resid), ", %u bytes short", outcome->resid);
	snprintf(text, size, "%s%s%s%s%s%s", status, *status && *host ? ", " : "", host,
		 *sense ? ": " : "", sense, resid);
	return text;
}
