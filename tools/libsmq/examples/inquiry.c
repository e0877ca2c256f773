// SPDX-License-Identifier: GPL-2.0
/* inquiry /dev/smqsgN: one command, sent without a slot. */
#include <err.h>
#include <libsmq.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	static uint8_t cdb[6] = { 0x12, 0, 0, 0, 36, 0 }, data[36], sense[96];
	struct smq_sg_uring_cmd command = {
		.request = (uintptr_t)cdb, .request_len = sizeof(cdb),
		.response = (uintptr_t)sense, .max_response_len = sizeof(sense),
		.din_xferp = (uintptr_t)data, .din_xfer_len = sizeof(data),
		.timeout_ms = 5000,
	};
	struct smq_outcome outcome;
	struct smq_device *dev;
	struct smq_event event;
	struct smq_ring *ring;
	char text[256];
	int ret;

	if (argc != 2)
		errx(2, "usage: inquiry /dev/smqsgN");
	ret = smq_open(argv[1], &dev);
	if (ret)
		errx(1, "%s: %s", argv[1], smq_strerror(SMQ_CALL_OPEN, ret));
	ret = smq_ring_new(1, SMQ_RING_COMMANDS, &ring);
	if (ret)
		errx(1, "io_uring: %s", smq_strerror(SMQ_CALL_RING, ret));

	smq_queue_command(ring, dev, &command, 0);
	if (smq_reap(ring, &event, 1, 1, -1) != 1)
		errx(1, "io_uring gave no completion");
	smq_command_outcome(&event, &command, &outcome);
	if (!smq_good(&outcome))
		errx(1, "INQUIRY: %s", smq_outcome_text(&outcome, text, sizeof(text)));
	printf("%.8s %.16s %.4s\n", data + 8, data + 16, data + 32);
	smq_ring_free(ring);
	smq_close(dev);
	return 0;
}
