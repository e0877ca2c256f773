// SPDX-License-Identifier: GPL-2.0
#include "target.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MODULE	"scsi_mod"

/* Types of the kernel itself, and of the mid-layer where that is a module. */
static struct btf *kernel, *module;
static int module_fd;

/* Opens the types of the module; 0 if there are none. */
static void open_module(void)
{
	__u32 id = 0;

	while (!module && !bpf_btf_get_next_id(id, &id)) {
		char name[64] = "";
		struct bpf_btf_info info = { .name = (__u64)name, .name_len = sizeof(name) };
		__u32 size = sizeof(info);
		int fd = bpf_btf_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.kernel_btf &&
		    !strcmp(name, MODULE))
			module = btf__load_from_kernel_by_id_split(id, kernel);
		if (module)
			module_fd = fd;
		else
			close(fd);
	}
}

static int find(const char *name, __u32 kind)
{
	struct btf *btf = module ?: kernel;
	__u32 id;

	for (id = module ? btf__type_cnt(kernel) : 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		if (btf_kind(type) == kind &&
		    !strcmp(btf__name_by_offset(btf, type->name_off), name))
			return id;
	}
	return -ENOENT;
}

/* Called by libbpf before it loads a program. @kind: of the type that stands for the target. */
static int prepare(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long kind)
{
	const char *target = strchr(bpf_program__section_name(prog), '/') + 1;
	char name[128];
	int id;

	snprintf(name, sizeof(name), "%s%s", kind == BTF_KIND_TYPEDEF ? "btf_trace_" : "", target);
	id = find(name, kind);
	if (id < 0)
		return id;
	opts->attach_btf_obj_fd = module_fd;
	opts->attach_btf_id = id;
	return 0;
}

static int attach(const struct bpf_program *prog, long kind, struct bpf_link **link)
{
	(void)kind;
	*link = bpf_program__attach_trace(prog);
	return *link ? 0 : -errno;
}

static void add_section(const char *name, enum bpf_attach_type type, long kind)
{
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = kind, .prog_prepare_load_fn = prepare,
		    .prog_attach_fn = attach);

	libbpf_register_prog_handler(name, BPF_PROG_TYPE_TRACING, type, &opts);
}

bool target_begin(void)
{
	static bool added;

	if (!added) {
		add_section("scsi_tp/", BPF_TRACE_RAW_TP, BTF_KIND_TYPEDEF);
		add_section("scsi_fn/", BPF_TRACE_FENTRY, BTF_KIND_FUNC);
		added = true;
	}
	kernel = btf__load_vmlinux_btf();
	if (kernel)
		open_module();
	return kernel;
}

void target_end(void)
{
	btf__free(module);
	btf__free(kernel);
	if (module_fd)
		close(module_fd);
	module = NULL;
	kernel = NULL;
	module_fd = 0;
}
