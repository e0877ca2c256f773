// SPDX-License-Identifier: GPL-2.0
/*
 * Error handling: sends abort and reset commands to the device, then waits until the device has
 * returned the SCSI commands. The device returns them on the completion ring, like all others.
 */
#include <linux/delay.h>

#include "pvscsi.h"

#define PV_WAIT_MS	2000

/* The commands that error handling is to end: one, all of a LUN, all of a target, or all. */
struct pv_scope {
	struct scsi_cmnd *scmd;
	struct scsi_device *sdev;
	struct scsi_target *starget;
};

static bool pv_in_scope(const struct pv_scope *scope, struct scsi_cmnd *scmd)
{
	return (!scope->scmd || scope->scmd == scmd) &&
	       (!scope->sdev || scope->sdev == scmd->device) &&
	       (!scope->starget || scope->starget == scsi_target(scmd->device));
}

static bool pv_device_has(struct pv_dev *pv, const struct pv_scope *scope)
{
	unsigned int tag;
	bool found = false;

	spin_lock_irq(&pv->cmp_lock);
	pv_ring_complete_locked(pv);
	for (tag = 0; tag < PV_DEPTH && !found; tag++) {
		/* pv_ring_put() sets the pointer without cmp_lock, once the slot is filled in. */
		struct pv_slot *slot = READ_ONCE(pv->slot[tag]);

		found = slot && pv_in_scope(scope, slot->scmd);
	}
	spin_unlock_irq(&pv->cmp_lock);
	return found;
}

/*
 * Waits until the device has returned all commands in the scope. The device first answers the abort
 * or reset, and may return the commands later.
 */
static int pv_wait_returned(struct pv_dev *pv, const struct pv_scope *scope)
{
	unsigned int ms;

	for (ms = 0; pv_device_has(pv, scope); ms += 2) {
		if (ms >= PV_WAIT_MS)
			return -ETIMEDOUT;
		usleep_range(1000, 2000);
	}
	return 0;
}

/*
 * Returns true, and ends all commands, after a surprise removal or after pv_shutdown() has stopped
 * the device: in-flight commands will never complete, and the device no longer accesses them.
 */
static bool pv_is_gone(struct pv_dev *pv)
{
	lockdep_assert_held(&pv->cmd_lock);
	if (!pv->shut_down && pci_device_is_present(pv->pdev))
		return false;
	spin_lock_irq(&pv->req_lock);
	WRITE_ONCE(pv->gone, true);
	WRITE_ONCE(pv->stopped, true);
	spin_unlock_irq(&pv->req_lock);
	spin_lock_irq(&pv->cmp_lock);
	pv_fail_all(pv, DID_NO_CONNECT << 16);
	spin_unlock_irq(&pv->cmp_lock);
	return true;
}

/*
 * Sends an abort or reset, and waits until the device has returned the commands in its scope.
 * Return: 0 or a negative errno.
 */
static int pv_end(struct pv_dev *pv, const struct pv_scope *scope, enum pv_command cmd,
		  const void *data, size_t len)
{
	int err = 0;

	mutex_lock(&pv->cmd_lock);
	if (!pv_is_gone(pv)) {
		/* The device cannot end a command that it has not read from the ring yet. */
		pv_doorbell(pv);
		if (pv_command(pv, cmd, data, len) == PV_STATUS_FAILED)
			err = -EIO;
		else
			err = pv_wait_returned(pv, scope);
		if (err)
			dev_warn(&pv->pdev->dev, "command %u of error handling: %s\n", cmd,
				 err == -EIO ? "refused" : "the device still has commands");
	}
	mutex_unlock(&pv->cmd_lock);
	return err;
}

int pv_abort(struct pv_dev *pv, struct scsi_cmnd *scmd)
{
	const struct pv_scope scope = { .scmd = scmd };
	const struct pv_cmd_abort abort = {
		.context = cpu_to_le64(pv_tag(scmd) + 1),
		.target = cpu_to_le32(scmd->device->id),
	};

	return pv_end(pv, &scope, PV_CMD_ABORT, &abort, sizeof(abort));
}

static int pv_reset_device(struct pv_dev *pv, const struct pv_scope *scope, u32 target, u64 number)
{
	struct pv_cmd_reset_device reset = { .target = cpu_to_le32(target) };
	struct scsi_lun lun;

	int_to_scsilun(number, &lun);
	memcpy(reset.lun, &lun, sizeof(reset.lun));
	return pv_end(pv, scope, PV_CMD_RESET_DEVICE, &reset, sizeof(reset));
}

int pv_reset_lun(struct pv_dev *pv, struct scsi_device *sdev)
{
	const struct pv_scope scope = { .sdev = sdev };

	return pv_reset_device(pv, &scope, sdev->id, sdev->lun);
}

/* A target has only LUN 0, so a reset of that LUN resets the target. */
int pv_reset_target(struct pv_dev *pv, struct scsi_target *starget)
{
	const struct pv_scope scope = { .starget = starget };

	return pv_reset_device(pv, &scope, starget->id, 0);
}

int pv_reset_bus(struct pv_dev *pv)
{
	const struct pv_scope scope = {};

	return pv_end(pv, &scope, PV_CMD_RESET_BUS, NULL, 0);
}

/*
 * After the call no command is put on the ring, and queuecommand and commit ring no doorbell: the
 * device must get none while it has no rings. This function waits for queuecommand and commit: at
 * stage 0 queuecommand holds host_lock, and at later stages both run inside RCU read-side sections.
 */
void pv_stop(struct pv_dev *pv)
{
	spin_lock_irq(pv->shost->host_lock);
	spin_lock(&pv->req_lock);
	WRITE_ONCE(pv->stopped, true);
	spin_unlock(&pv->req_lock);
	spin_unlock_irq(pv->shost->host_lock);
	synchronize_rcu();
}

/*
 * The last step: resets the device, and ends all commands that it has not returned, because it
 * no longer has them after the reset.
 */
int pv_reset_host(struct pv_dev *pv)
{
	const struct pv_scope scope = {};

	mutex_lock(&pv->cmd_lock);
	if (pv_is_gone(pv)) {
		mutex_unlock(&pv->cmd_lock);
		return 0;
	}
	pv_stop(pv);

	pv_doorbell(pv);
	pv_command(pv, PV_CMD_RESET_BUS, NULL, 0);
	pv_wait_returned(pv, &scope);

	/* The device may take long to cancel its commands: do not hold cmp_lock meanwhile. */
	pv_device_quiet(pv);
	spin_lock_irq(&pv->cmp_lock);
	pv_ring_complete_locked(pv);
	pv_fail_all(pv, DID_RESET << 16);
	pv_device_start(pv);
	spin_unlock_irq(&pv->cmp_lock);

	spin_lock_irq(&pv->req_lock);
	WRITE_ONCE(pv->stopped, false);
	spin_unlock_irq(&pv->req_lock);
	mutex_unlock(&pv->cmd_lock);
	return 0;
}
