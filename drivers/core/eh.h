/* SPDX-License-Identifier: GPL-2.0 */
/* Error handling of a host. */
#ifndef SMQ_CORE_EH_H
#define SMQ_CORE_EH_H

#include <linux/atomic.h>
#include <linux/mutex.h>
#include <linux/types.h>

/**
 * struct smq_host_eh - error handling of a host
 * @lock: held during a reset, so that only one runs at a time; also taken by a failed abort, and by
 *	the removal of the host and of its LUNs; a mutex, because resets sleep
 * @removing: the host is being removed: no more resets by ioctl or changes of policy. Written
 *	under @lock, read under @lock or the policy lock. After removal has set this, it takes
 *	and drops the policy lock, to wait for a change of policy that did not see it
 * @timeouts: commands whose block timer expired. This and the following counters are atomic because
 *	any CPU may change them. They change rarely, so a shared cache line does no harm
 * @aborts: aborts that the mid-layer asked for
 * @lun_resets: LUN resets, by the error handler or an ioctl
 * @target_resets: target resets, likewise
 * @host_resets: host resets, likewise
 * @reset_cmds: commands completed with DID_RESET by a reset
 */
struct smq_host_eh {
	struct mutex lock;	/* one reset at a time */
	bool removing;
	atomic_t timeouts;
	atomic_t aborts;
	atomic_t lun_resets;
	atomic_t target_resets;
	atomic_t host_resets;
	atomic_t reset_cmds;
};

#endif /* SMQ_CORE_EH_H */
