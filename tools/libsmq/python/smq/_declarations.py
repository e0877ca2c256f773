# SPDX-License-Identifier: GPL-2.0
"""The declarations of <libsmq.h> and <scsi/smq_sg.h>, as cffi reads them, without
inline functions. tests/host/test_libsmq.py compares them with the headers."""

CDEF = """
#define SMQ_SG_BUFFER_READONLY 1
#define SMQ_SG_BATCH_RANGE 1
#define SMQ_SG_RUN_LBA 1
#define SMQ_SG_RUN_BUFFER 2
#define SMQ_RING_COMMANDS 1
#define SMQ_RING_POLL 2
struct smq_sg_info {
    uint64_t features; uint32_t slots; uint32_t depth; uint32_t max_transfer;
    uint32_t max_segments; uint32_t alignment; uint32_t slot_bytes; uint32_t max_waiting;
    uint32_t max_held; uint32_t reserved[22];
};
struct smq_sg_slot {
    uint8_t cdb[32]; uint8_t cdb_len; uint8_t direction; uint16_t buffer; uint32_t length;
    uint64_t offset; uint32_t timeout_ms; uint32_t flags; uint64_t reserved;
};
struct smq_sg_run { uint32_t slot; uint16_t buffer; uint16_t flags; uint64_t lba; };
struct smq_sg_batch { uint64_t list; uint32_t count; uint32_t flags; };
struct smq_sg_uring_cmd {
    uint64_t request; uint32_t request_len; uint32_t protocol; uint32_t subprotocol;
    uint32_t max_response_len; uint64_t response; uint64_t dout_xferp; uint32_t dout_xfer_len;
    uint32_t dout_iovec_count; uint64_t din_xferp; uint32_t din_xfer_len;
    uint32_t din_iovec_count; uint32_t timeout_ms; uint8_t reserved[12];
};
struct smq_event { uint64_t tag; int32_t result; uint32_t reserved; uint64_t more; };
struct smq_outcome {
    int error; uint8_t status; uint8_t host; uint8_t key; uint8_t asc; uint8_t ascq;
    uint8_t sense_len; uint32_t resid; const uint8_t *sense;
};
const char *smq_library_version(void);
int smq_open(const char *node, struct smq_device **dev);
void smq_close(struct smq_device *dev);
int smq_fd(const struct smq_device *dev);
int smq_info(const struct smq_device *dev, struct smq_sg_info *info);
int smq_setup(struct smq_device *dev, uint32_t slots, uint32_t sense_size);
int smq_lend(struct smq_device *dev, uint32_t index, const void *memory, size_t length,
             uint32_t flags);
int smq_take_back(struct smq_device *dev, uint32_t index);
int smq_prepare(struct smq_device *dev, uint32_t first, const struct smq_sg_slot *slots,
                uint32_t count, uint32_t *done, uint32_t *field);
int smq_cdb_blocks(uint8_t *cdb, uint8_t opcode, uint64_t lba, uint32_t blocks);
int smq_execute(struct smq_device *dev, struct smq_sg_batch batch, uint32_t *failed);
int smq_cancel(struct smq_device *dev, uint32_t slot);
int smq_cancel_all(struct smq_device *dev);
int smq_ring_new(unsigned int entries, unsigned int flags, struct smq_ring **ring);
void smq_ring_free(struct smq_ring *ring);
int smq_ring_add(struct smq_ring *ring, struct smq_device *dev);
int smq_ring_remove(struct smq_ring *ring, struct smq_device *dev);
int smq_queue_run(struct smq_ring *ring, struct smq_device *dev, uint32_t slot, uint64_t tag);
int smq_queue_run_with(struct smq_ring *ring, struct smq_device *dev,
                       const struct smq_sg_run *run, uint64_t tag);
int smq_queue_batch(struct smq_ring *ring, struct smq_device *dev, struct smq_sg_batch batch,
                    uint64_t tag);
int smq_queue_command(struct smq_ring *ring, struct smq_device *dev,
                      const struct smq_sg_uring_cmd *command, uint64_t tag);
int smq_submit(struct smq_ring *ring);
int smq_reap(struct smq_ring *ring, struct smq_event *events, unsigned int most,
             unsigned int least, int64_t wait_ns);
void smq_slot_outcome(const struct smq_device *dev, uint32_t slot, struct smq_outcome *outcome);
void smq_command_outcome(const struct smq_event *event, const struct smq_sg_uring_cmd *command,
                         struct smq_outcome *outcome);
bool smq_good(const struct smq_outcome *outcome);
const char *smq_outcome_text(const struct smq_outcome *outcome, char *text, size_t size);
const char *smq_strerror(unsigned int call, int error);
const char *smq_field_name(unsigned int field);
"""
