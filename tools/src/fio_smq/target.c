// SPDX-License-Identifier: GPL-2.0
/*
 * fio's setup: before a job begins, opens its files to find their sizes, and checks that the job
 * can run on them.
 */
#include "engine.h"

#include <scsi/sg_cmds_basic.h>
#include <scsi/sg_lib.h>
#include <scsi/sg_unaligned.h>

#include "issue/device/device.h"
#include "issue/device/inuse.h"

#define VPD_BLOCK_LIMITS	0xb0
#define VPD_PROVISIONING	0xb2
#define VPD_BYTES	64	/* of a page that are read */
#define LBPU		0x80	/* page B2h, byte 5: the disk has UNMAP */
#define ATTENTIONS	8	/* how many unit attentions are ignored at most */

/* A disk that this process keeps open exclusively, until the end of all jobs. */
struct taken_disk {
	struct taken_disk *next;
	char sysfs[sizeof(((struct device *)0)->sysfs)];
	int fd;
};

/* The main process sets up one job after the other, so no lock is needed. */
static struct taken_disk *taken_disks;

__attribute__((destructor)) static void close_taken_disks(void)
{
	struct taken_disk *c;

	while ((c = taken_disks)) {
		taken_disks = c->next;
		if (c->fd >= 0)
			close(c->fd);
		free(c);
	}
}

static int ask_capacity(int fd, struct target *t)
{
	uint8_t data[32] = {};
	int ret;

	ret = sg_ll_readcap_16(fd, false, 0, data, sizeof(data), false, 0);
	if (!ret) {
		t->blocks = sg_get_unaligned_be64(data) + 1;
		t->block = sg_get_unaligned_be32(data + 8);
		return 0;
	}
	if (ret != SG_LIB_CAT_INVALID_OP && ret != SG_LIB_CAT_ILLEGAL_REQ)
		return ret;
	ret = sg_ll_readcap_10(fd, false, 0, data, 8, false, 0);
	t->blocks = (uint64_t)sg_get_unaligned_be32(data) + 1;
	t->block = sg_get_unaligned_be32(data + 4);
	return ret;
}

static int read_limits(const char *name, struct target *t)
{
	char why[128];
	int ret, left = ATTENTIONS;

	ret = smq_info(t->dev, &t->info);
	if (ret) {
		log_err("fio: smq: %s: %s\n", name, smq_strerror(SMQ_CALL_OPEN, ret));
		return ret;
	}
	do
		ret = ask_capacity(smq_fd(t->dev), t);
	while (ret == SG_LIB_CAT_UNIT_ATTENTION && left--);
	if (ret) {
		sg_get_category_sense_str(ret, sizeof(why), why, 0);
		log_err("fio: smq: %s: READ CAPACITY: %s\n", name, why);
		return -EIO;
	}
	if (!t->block || t->block & (t->block - 1)) {
		log_err("fio: smq: %s: logical blocks of %u bytes: not a power of 2\n", name,
			t->block);
		return -ENOTSUP;
	}
	return 0;
}

int target_open(const char *name, struct target *t)
{
	int ret = smq_open(name, &t->dev);

	if (ret) {
		log_err("fio: smq: %s: %s\n", name, smq_strerror(SMQ_CALL_OPEN, ret));
		return ret;
	}
	ret = read_limits(name, t);
	if (ret)
		target_close(t);
	return ret;
}

void target_close(struct target *t)
{
	smq_close(t->dev);
	t->dev = NULL;
}

static bool fits(const char *name, const struct target *t, const char *option,
		 unsigned long long bytes)
{
	if (!(bytes % t->block))
		return true;
	log_err("fio: smq: %s: %s=%llu is no multiple of its logical blocks, %u bytes\n", name,
		option, bytes, t->block);
	return false;
}

/* Checks all block sizes that the job may use in one direction. */
static bool direction_fits(const struct thread_options *o, enum fio_ddir ddir, const char *name,
			   const struct target *t)
{
	unsigned int i;

	if (!fits(name, t, "bs", o->min_bs[ddir]) || !fits(name, t, "bs", o->max_bs[ddir]) ||
	    !fits(name, t, "blockalign", o->ba[ddir]))
		return false;
	for (i = 0; i < o->bssplit_nr[ddir]; i++)
		if (!fits(name, t, "bssplit", o->bssplit[ddir][i].bs))
			return false;
	if (o->bs_unaligned && o->min_bs[ddir] != o->max_bs[ddir]) {
		log_err("fio: smq: %s: bs_unaligned: the disk takes only whole logical blocks\n",
			name);
		return false;
	}
	return true;
}

static bool one_command(const struct thread_options *o, enum fio_ddir ddir, const char *name,
			const struct target *t)
{
	if (o->max_bs[ddir] <= t->info.max_transfer)
		return true;
	log_err("fio: smq: %s: bs=%llu is over the limit of one command, %u bytes\n", name,
		o->max_bs[ddir], t->info.max_transfer);
	return false;
}

static bool cdb_fits(const struct thread_data *td, enum fio_ddir ddir, const char *name,
		     const struct target *t)
{
	if (cdb_reaches(td->eo, t, td->o.max_bs[ddir]))
		return true;
	log_err("fio: smq: %s: cdb_len=10 cannot have all LBAs of the disk, or bs=%llu\n", name,
		td->o.max_bs[ddir]);
	return false;
}

/* Reads a VPD page. Return: whether the disk has it, with at least @least bytes. */
static bool read_page(const struct target *t, int page, uint8_t *data, unsigned int least)
{
	uint8_t buf[VPD_BYTES] = {};

	if (sg_ll_inquiry(smq_fd(t->dev), false, true, page, buf, sizeof(buf), false, 0) ||
	    buf[1] != page || sg_get_unaligned_be16(buf + 2) + 4U < least)
		return false;
	memcpy(data, buf, sizeof(buf));
	return true;
}

/* Checks that the disk has UNMAP, and takes one as large as the job's trims. */
static bool trim_fits(const struct thread_options *o, const char *name, const struct target *t)
{
	uint8_t page[VPD_BYTES];
	uint32_t most;

	/* Without the page B2h the disk says neither yes nor no. */
	if (read_page(t, VPD_PROVISIONING, page, 6) && !(page[5] & LBPU)) {
		log_err("fio: smq: %s: trim: the disk has no UNMAP (VPD page B2h)\n", name);
		return false;
	}
	if (!read_page(t, VPD_BLOCK_LIMITS, page, 28))
		return true;
	most = sg_get_unaligned_be32(page + 20);
	if (!most || o->max_bs[DDIR_TRIM] / t->block <= most)
		return true;
	log_err("fio: smq: %s: bs=%llu is over the limit of one UNMAP, %u blocks of %u bytes\n",
		name, o->max_bs[DDIR_TRIM], most, t->block);
	return false;
}

bool target_takes(struct thread_data *td, const char *name, const struct target *t)
{
	const struct thread_options *o = &td->o;

	/* Each buffer of fio is lent whole. It is as large as the largest block, even of a trim. */
	if ((td_read(td) || td_write(td)) && td_max_bs(td) > SMQ_SG_MAX_BUFFER) {
		log_err("fio: smq: %s: bs=%llu is over the limit of a buffer, %u bytes\n", name,
			td_max_bs(td), SMQ_SG_MAX_BUFFER);
		return false;
	}
	return (!td_read(td) || (one_command(o, DDIR_READ, name, t) &&
				 cdb_fits(td, DDIR_READ, name, t))) &&
	       (!td_write(td) || (one_command(o, DDIR_WRITE, name, t) &&
				  cdb_fits(td, DDIR_WRITE, name, t))) &&
	       (!td_trim(td) || trim_fits(o, name, t));
}

/* Checks where the job begins. fio itself rounds an offset that is given in percent. */
static bool start_fits(const struct thread_data *td, const char *name, const struct target *t)
{
	const struct thread_options *o = &td->o;

	return fits(name, t, "offset", o->start_offset) &&
	       fits(name, t, "offset_increment", o->offset_increment * td->subjob_number);
}

static bool job_fits(struct thread_data *td, const char *name, const struct target *t)
{
	const struct thread_options *o = &td->o;

	return target_takes(td, name, t) && start_fits(td, name, t) &&
	       (!td_read(td) || direction_fits(o, DDIR_READ, name, t)) &&
	       (!td_write(td) || direction_fits(o, DDIR_WRITE, name, t)) &&
	       (!td_trim(td) || direction_fits(o, DDIR_TRIM, name, t));
}

static bool wants_disk(const struct thread_data *td)
{
	const struct engine_options *o = td->eo;
	bool writes = td_write(td) && o->write_mode == WRITES_WRITE;

	return !td->o.allow_mounted_write && (writes || td_trim(td));
}

/* @fd: as in inuse_try(). Return: true, or false after one message if the disk is in use. */
static bool take_disk(const char *name, const struct device *dev, int *fd)
{
	char why[INUSE_REASON] = "";

	if (inuse_try(dev, why, fd))
		return true;
	log_err("fio: smq: %s: %s; allow_mounted_write=1 allows writes\n", name, why);
	return false;
}

bool target_may_write(const struct thread_data *td, const char *name)
{
	struct device dev;

	return !wants_disk(td) || (!device_find(name, &dev) && take_disk(name, &dev, NULL));
}

/*
 * If the job writes: refuses a disk that is in use; with create_serialize opens the disk
 * exclusively, and keeps it open until all jobs end.
 */
static bool keep_disk(struct thread_data *td, const char *name)
{
	/* Without create_serialize each job runs setup: the first job would exclude the others. */
	bool keep = td->o.create_serialize;
	struct device dev;
	struct taken_disk *c;

	if (!wants_disk(td))
		return true;
	if (device_find(name, &dev))
		return false;
	for (c = taken_disks; c; c = c->next)
		if (!strcmp(c->sysfs, dev.sysfs))
			return true;
	c = keep ? calloc(1, sizeof(*c)) : NULL;
	if (keep && !c) {
		log_err("fio: smq: no memory\n");
		return false;
	}
	if (!take_disk(name, &dev, c ? &c->fd : NULL)) {
		free(c);
		return false;
	}
	if (c) {
		memcpy(c->sysfs, dev.sysfs, sizeof(c->sysfs));
		c->next = taken_disks;
		taken_disks = c;
	}
	return true;
}

static bool setup_file(struct thread_data *td, struct fio_file *f)
{
	struct target t = {};
	bool fine;

	if (target_open(f->file_name, &t))
		return false;
	fine = job_fits(td, f->file_name, &t) && keep_disk(td, f->file_name);
	if (fine) {
		f->real_file_size = t.blocks * t.block;
		fio_file_set_size_known(f);
	}
	target_close(&t);
	return fine;
}

int target_setup(struct thread_data *td)
{
	struct fio_file *f;
	unsigned int i;

	/* Checked before any access to struct thread_data, whose layout depends on the version. */
	if (strcmp(fio_version_string, FIO_BUILT_FOR)) {
		log_err("fio: smq: this is %s, the engine was built for " FIO_BUILT_FOR "\n",
			fio_version_string);
		return 1;
	}
	for_each_file(td, f, i)
		if (!setup_file(td, f))
			return 1;
	return 0;
}
