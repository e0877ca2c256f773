// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/config/target/smq/WWN/tpgt_N/{nexus,address,lun/lun_N}: each directory WWN is a SCSI
 * host, and tpgt_N in it is target N of that host. A LUN becomes a disk once it is linked to a
 * backstore and its target has a nexus; the order does not matter.
 */
#define pr_fmt(fmt) "smq_lio: " fmt

#include <linux/configfs.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "lio.h"

struct device *lio_root;

struct smq_host_config lio_config = {
	.max_id = LIO_MAX_TPGS,
	.max_lun = LIO_MAX_LUNS,
};

static bool lio_name_ok(const char *name)
{
	unsigned int i;

	if (strlen(name) != LIO_NAME_LEN || strncmp(name, "naa.", 4))
		return false;
	for (i = 4; i < LIO_NAME_LEN; i++) {
		if (!isxdigit(name[i]))
			return false;
	}
	return true;
}

/* Waits until all scans and device removals that are under way have ended. */
static void lio_scans_end(struct Scsi_Host *shost)
{
	mutex_lock(&shost->scan_mutex);
	mutex_unlock(&shost->scan_mutex);
}

/*
 * Takes lio_host.lock for a change during which memory is allocated, by this driver or by LIO. No
 * allocation under the lock may wait for a disk of this host, because the disk's error handling
 * may be waiting for the lock. Return: the flags for lio_unlock_noio().
 */
static unsigned int lio_lock_noio(struct lio_host *lio)
{
	mutex_lock(&lio->lock);
	return memalloc_noio_save();
}

static void lio_unlock_noio(struct lio_host *lio, unsigned int flags)
{
	memalloc_noio_restore(flags);
	mutex_unlock(&lio->lock);
}

/* Context: lio_host.lock must not be held, because probing the device takes it. */
static void lio_attach(struct lio_tpg *tpg, u64 number)
{
	int err = scsi_add_device(tpg->lio->smq->shost, 0, tpg->number, number);

	if (err)
		pr_err("%s/tpgt_%u/lun_%llu: no device was added: %pe\n", tpg->lio->name,
		       tpg->number, number, ERR_PTR(err));
}

/* Adds a device for a newly linked LUN if there is a nexus. LIO ignores the return value. */
int lio_post_link(struct se_portal_group *se_tpg, struct se_lun *se_lun)
{
	struct lio_tpg *tpg = lio_se_to_tpg(se_tpg);
	u64 number = se_lun->unpacked_lun;
	unsigned int flags;
	bool nexus;
	int err;

	if (number >= LIO_MAX_LUNS) {
		pr_err("%s/tpgt_%u: lun_%llu is outside lun_0..lun_%u and gets no device\n",
		       tpg->lio->name, tpg->number, number, LIO_MAX_LUNS - 1);
		return -EINVAL;
	}
	flags = lio_lock_noio(tpg->lio);
	err = xa_err(xa_store(&tpg->luns, number, se_lun, GFP_KERNEL));
	nexus = tpg->sess;
	lio_unlock_noio(tpg->lio, flags);
	if (err)
		pr_err("%s/tpgt_%u: no memory for lun_%llu, which gets no device\n",
		       tpg->lio->name, tpg->number, number);
	else if (nexus)
		lio_attach(tpg, number);
	return err;
}

/* Removes the device, even with commands in flight. Until it is gone, resets find the LUN. */
void lio_pre_unlink(struct se_portal_group *se_tpg, struct se_lun *se_lun)
{
	struct lio_tpg *tpg = lio_se_to_tpg(se_tpg);
	struct Scsi_Host *shost = tpg->lio->smq->shost;
	u64 number = se_lun->unpacked_lun;
	struct scsi_device *sdev;

	if (number >= LIO_MAX_LUNS)
		return;
	mutex_lock(&tpg->lio->lock);
	xa_set_mark(&tpg->luns, number, LIO_GOING);
	mutex_unlock(&tpg->lio->lock);

	lio_scans_end(shost);
	sdev = scsi_device_lookup(shost, 0, tpg->number, number);
	if (sdev) {
		scsi_remove_device(sdev);
		scsi_device_put(sdev);
	}
	/* Wait for a removal through sysfs that may be under way. */
	lio_scans_end(shost);

	mutex_lock(&tpg->lio->lock);
	xa_erase(&tpg->luns, number);
	mutex_unlock(&tpg->lio->lock);
}

static int lio_make_nexus(struct lio_tpg *tpg, const char *name)
{
	struct se_session *sess;
	struct se_lun *se_lun;
	unsigned long number;
	unsigned int flags;
	int err = 0;

	flags = lio_lock_noio(tpg->lio);
	if (tpg->sess) {
		pr_err("%s/tpgt_%u: nexus is already %s; write NULL to end it\n", tpg->lio->name,
		       tpg->number, tpg->sess->se_node_acl->initiatorname);
		err = -EEXIST;
	} else {
		sess = target_setup_session(&tpg->se, 0, 0,
					    TARGET_PROT_DIN_PASS | TARGET_PROT_DOUT_PASS, name,
					    tpg, NULL);
		err = PTR_ERR_OR_ZERO(sess);
		if (!err)
			tpg->sess = sess;
	}
	lio_unlock_noio(tpg->lio, flags);
	if (err)
		return err;
	xa_for_each(&tpg->luns, number, se_lun)
		lio_attach(tpg, number);
	return 0;
}

/* No scan may run: a scan uses the nexus of a target without LUNs, too. */
static int lio_drop_nexus(struct lio_tpg *tpg)
{
	struct Scsi_Host *shost = tpg->lio->smq->shost;
	int err = 0;

	mutex_lock(&shost->scan_mutex);
	mutex_lock(&tpg->lio->lock);
	if (!tpg->sess) {
		pr_err("%s/tpgt_%u: no nexus to end\n", tpg->lio->name, tpg->number);
		err = -ENODEV;
	} else if (!xa_empty(&tpg->luns)) {
		pr_err("%s/tpgt_%u: nexus is in use by its LUNs\n", tpg->lio->name, tpg->number);
		err = -EBUSY;
	} else {
		/* LIO counts a command until after release_cmd: wait until the count is 0. */
		target_stop_session(tpg->sess);
		target_wait_for_sess_cmds(tpg->sess);
		target_remove_session(tpg->sess);
		tpg->sess = NULL;
	}
	mutex_unlock(&tpg->lio->lock);
	mutex_unlock(&shost->scan_mutex);
	return err;
}

static ssize_t lio_tpg_nexus_show(struct config_item *item, char *page)
{
	struct lio_tpg *tpg = lio_se_to_tpg(to_tpg(item));
	ssize_t ret = -ENODEV;

	mutex_lock(&tpg->lio->lock);
	if (tpg->sess)
		ret = sysfs_emit(page, "%s\n", tpg->sess->se_node_acl->initiatorname);
	mutex_unlock(&tpg->lio->lock);
	return ret;
}

static ssize_t lio_tpg_nexus_store(struct config_item *item, const char *page, size_t count)
{
	struct lio_tpg *tpg = lio_se_to_tpg(to_tpg(item));
	char buf[LIO_NAME_LEN + 8], *name;
	int err;

	strscpy(buf, page, sizeof(buf));
	name = strim(buf);
	if (!strcmp(name, "NULL")) {
		err = lio_drop_nexus(tpg);
	} else if (!lio_name_ok(name)) {
		pr_err("nexus=%s is neither 'naa.' and 16 hexadecimal digits nor NULL\n", name);
		err = -EINVAL;
	} else {
		err = lio_make_nexus(tpg, name);
	}
	return err ?: count;
}
CONFIGFS_ATTR(lio_tpg_, nexus);

static ssize_t lio_tpg_address_show(struct config_item *item, char *page)
{
	struct lio_tpg *tpg = lio_se_to_tpg(to_tpg(item));

	return sysfs_emit(page, "%u:0:%u\n", tpg->lio->smq->shost->host_no, tpg->number);
}
CONFIGFS_ATTR_RO(lio_tpg_, address);

struct configfs_attribute *lio_tpg_attrs[] = {
	&lio_tpg_attr_nexus,
	&lio_tpg_attr_address,
	NULL,
};

struct se_portal_group *lio_make_tpg(struct se_wwn *wwn, const char *name)
{
	struct lio_host *lio = container_of(wwn, struct lio_host, wwn);
	struct lio_tpg *tpg;
	unsigned int flags;
	u16 number;
	int err;

	if (strncmp(name, "tpgt_", 5) || kstrtou16(name + 5, 10, &number) ||
	    number >= LIO_MAX_TPGS) {
		pr_err("%s: %s is none of tpgt_0..tpgt_%u\n", lio->name, name, LIO_MAX_TPGS - 1);
		return ERR_PTR(-EINVAL);
	}
	tpg = kzalloc(sizeof(*tpg), GFP_KERNEL);
	if (!tpg)
		return ERR_PTR(-ENOMEM);
	tpg->lio = lio;
	tpg->number = number;
	xa_init(&tpg->luns);

	flags = lio_lock_noio(lio);
	if (lio->tpg[number]) {
		pr_err("%s: %s exists already under another spelling\n", lio->name, name);
		err = -EEXIST;
	} else {
		err = core_tpg_register(wwn, &tpg->se, SCSI_PROTOCOL_SAS);
		if (!err)
			lio->tpg[number] = tpg;
	}
	lio_unlock_noio(lio, flags);
	if (err) {
		kfree(tpg);
		return ERR_PTR(err);
	}
	return &tpg->se;
}

/* Context: all LUNs of the target have been removed: their directories were inside this one. */
void lio_drop_tpg(struct se_portal_group *se_tpg)
{
	struct lio_tpg *tpg = lio_se_to_tpg(se_tpg);

	if (tpg->sess)
		lio_drop_nexus(tpg);
	mutex_lock(&tpg->lio->lock);
	tpg->lio->tpg[tpg->number] = NULL;
	mutex_unlock(&tpg->lio->lock);
	core_tpg_deregister(se_tpg);
	kfree(tpg);
}

struct se_wwn *lio_make_wwn(struct target_fabric_configfs *tf, struct config_group *group,
			    const char *name)
{
	struct smq_host *host;
	struct lio_host *lio;
	int err;

	if (!lio_name_ok(name)) {
		pr_err("%s is not 'naa.' and 16 hexadecimal digits\n", name);
		return ERR_PTR(-EINVAL);
	}
	host = lio_host_alloc(&lio_config);
	if (IS_ERR(host))
		return ERR_CAST(host);
	lio = smq_host_priv(host);
	lio->smq = host;
	mutex_init(&lio->lock);
	strscpy(lio->name, name, sizeof(lio->name));
	err = smq_host_add(host, lio_root);
	if (err) {
		smq_host_free(host);
		return ERR_PTR(err);
	}
	return &lio->wwn;
}

void lio_drop_wwn(struct se_wwn *wwn)
{
	struct smq_host *host = container_of(wwn, struct lio_host, wwn)->smq;

	smq_host_remove(host);
	smq_host_free(host);
}
