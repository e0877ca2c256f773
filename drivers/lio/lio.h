/* SPDX-License-Identifier: GPL-2.0 */
/* smq_lio: LIO's backstores as local SCSI disks on smq. Declarations for all its files. */
#ifndef SMQ_LIO_H
#define SMQ_LIO_H

#include <linux/mutex.h>
#include <linux/xarray.h>
#include <smq/lld.h>
#include <smq/target.h>

/* Target port group N of a WWN is target N of the WWN's host. */
#define LIO_MAX_TPGS	32
/* The number of LUNs that flat space addressing reaches (SAM-6, 4.7.7.3). */
#define LIO_MAX_LUNS	16384
/* Length of a port's name, without the NUL: "naa." and 16 hexadecimal digits, as in SAS. */
#define LIO_NAME_LEN	20

struct lio_host;

/* Marks a LUN in lio_tpg.luns as being removed: scans no longer find the LUN. */
#define LIO_GOING	XA_MARK_0

/**
 * struct lio_tpg - a target port group: one target port, one I_T nexus
 * @se: LIO's part
 * @lio: its host
 * @number: the N of tpgt_N, and the target's number in the host
 * @sess: the nexus, NULL while there is none; ends only while @luns is empty and no scan runs
 * @luns: LIO's LUNs that are linked, by number; marked LIO_GOING before they are removed
 *
 * Lifetime: as long as its directory. lio_host.lock protects @sess and @luns.
 */
struct lio_tpg {
	struct se_portal_group se;
	struct lio_host *lio;
	u16 number;
	struct se_session *sess;
	struct xarray luns;
};

/**
 * struct lio_host - a WWN, which is a SCSI host
 * @wwn: LIO's part
 * @smq: the layer's part
 * @name: the WWN
 * @lock: protects @tpg, and lio_tpg.sess and lio_tpg.luns. Changes of the configuration, scans
 *	and resets take it; all of them sleep. A reset holds it while LIO executes the reset, so
 *	that no LUN or nexus is removed meanwhile. Lock order: the mid-layer's scan_mutex first,
 *	then this lock. Allocations under this lock must not cause I/O, because resets take it
 * @tpg: target port groups by number
 *
 * Lifetime: as long as the directory and the smq_host, whose private area this is.
 */
struct lio_host {
	struct se_wwn wwn;
	struct smq_host *smq;
	char name[LIO_NAME_LEN + 1];
	struct mutex lock;	/* see above */
	struct lio_tpg *tpg[LIO_MAX_TPGS];
};

/**
 * struct lio_lun - a LUN as commands see it, in the layer's private area
 * @sess: the nexus
 * @attrib: the backstore's attributes; NULL for a LUN 0 that is not linked, which scans ask for the
 *	target's LUNs
 * @copies: the backstore only copies memory, so it executes READ and WRITE without sleeping
 *
 * lun_init sets all fields. Both pointers are valid while the LUN has commands: the LUN's link to
 * its backstore keeps backstore and nexus from being freed, and is removed after the scsi_device.
 * A LUN 0 that is not linked exists only during a scan, and the nexus ends only between scans.
 */
struct lio_lun {
	struct se_session *sess;
	const struct se_dev_attrib *attrib;
	bool copies;
};

/**
 * struct lio_cmd - a command, in the layer's private area
 * @se: LIO's part; LIO owns it until release_cmd
 */
struct lio_cmd {
	struct se_cmd se;
};

static inline struct smq_cmd *lio_to_smq_cmd(struct lio_cmd *lc)
{
	return container_of((void *)lc, struct smq_cmd, priv);
}

static inline struct lio_tpg *lio_se_to_tpg(struct se_portal_group *se_tpg)
{
	return container_of(se_tpg, struct lio_tpg, se);
}

/* fabric.c */
extern const struct target_core_fabric_ops lio_ops;

/* configfs.c; all hosts use lio_root and lio_config, which main.c sets before the first host */
extern struct device *lio_root;
extern struct smq_host_config lio_config;
extern struct configfs_attribute *lio_tpg_attrs[];
struct se_wwn *lio_make_wwn(struct target_fabric_configfs *tf, struct config_group *group,
			    const char *name);
void lio_drop_wwn(struct se_wwn *wwn);
struct se_portal_group *lio_make_tpg(struct se_wwn *wwn, const char *name);
void lio_drop_tpg(struct se_portal_group *se_tpg);
int lio_post_link(struct se_portal_group *se_tpg, struct se_lun *se_lun);
void lio_pre_unlink(struct se_portal_group *se_tpg, struct se_lun *se_lun);

/* queue.c */
struct smq_host *lio_host_alloc(const struct smq_host_config *cfg);

/* tmf.c */
int lio_abort(struct smq_hwq *hwq, struct smq_cmd *cmd);
int lio_lun_reset(struct smq_host *host, struct scsi_device *sdev);
int lio_target_reset(struct smq_host *host, struct scsi_target *starget);
int lio_host_reset(struct smq_host *host);
void lio_tmf_answered(struct se_cmd *se, int response);
void lio_tmf_released(struct se_cmd *se);

#endif /* SMQ_LIO_H */
