/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's TCG plugin API that the plugins use: what the versions 1 (QEMU 4.2) to 7 (QEMU
 * 11.1) have in common. A plugin that is built once runs with all of them; api.c has the
 * differences. Tested with QEMU 7.2, 10.0 and 11.1. Debian ships no header for it: the prototypes
 * are restated here from the documented interface.
 */
#ifndef SMQ_BENCH_QEMU_PLUGIN_H
#define SMQ_BENCH_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLUGIN_EXPORT		__attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

typedef struct {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus;
			int max_vcpus;
		} system;
	};
} qemu_info_t;

enum qemu_plugin_cb_flags {
	QEMU_PLUGIN_CB_NO_REGS,
	QEMU_PLUGIN_CB_R_REGS,
	QEMU_PLUGIN_CB_RW_REGS,
};

enum qemu_plugin_mem_rw {
	QEMU_PLUGIN_MEM_R = 1,
	QEMU_PLUGIN_MEM_W,
	QEMU_PLUGIN_MEM_RW,
};

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;

typedef void (*qemu_plugin_vcpu_udata_cb_t)(unsigned int vcpu, void *data);
typedef void (*qemu_plugin_vcpu_mem_cb_t)(unsigned int vcpu,
					  qemu_plugin_meminfo_t info,
					  uint64_t vaddr, void *data);

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  qemu_plugin_vcpu_udata_cb_t cb,
					  enum qemu_plugin_cb_flags flags,
					  void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    qemu_plugin_vcpu_udata_cb_t cb,
					    enum qemu_plugin_cb_flags flags,
					    void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn,
				      qemu_plugin_vcpu_mem_cb_t cb,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *
qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *
qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *haddr);
uint64_t
qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *haddr);

/* For api.c: a function that versions before 2 lack; none of the plugins calls it. */
void qemu_plugin_scoreboard_new(void);
#pragma weak qemu_plugin_scoreboard_new
/* One function, which is of the first type before version 3 and of the second from then on. */
const void *insn_pointer(const struct qemu_plugin_insn *insn) __asm__("qemu_plugin_insn_data");
size_t insn_copy(const struct qemu_plugin_insn *insn, void *bytes, size_t size)
	__asm__("qemu_plugin_insn_data");
/* Three functions, each of the first type before version 7 and of the second from then on. */
void register_translation_id(qemu_plugin_id_t id,
			     void (*callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb))
	__asm__("qemu_plugin_register_vcpu_tb_trans_cb");
void register_translation_data(qemu_plugin_id_t id,
			       void (*callback)(struct qemu_plugin_tb *tb, void *data), void *data)
	__asm__("qemu_plugin_register_vcpu_tb_trans_cb");
void register_idle_id(qemu_plugin_id_t id,
		      void (*callback)(qemu_plugin_id_t id, unsigned int vcpu))
	__asm__("qemu_plugin_register_vcpu_idle_cb");
void register_idle_data(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t callback, void *data)
	__asm__("qemu_plugin_register_vcpu_idle_cb");
void register_resume_id(qemu_plugin_id_t id,
			void (*callback)(qemu_plugin_id_t id, unsigned int vcpu))
	__asm__("qemu_plugin_register_vcpu_resume_cb");
void register_resume_data(qemu_plugin_id_t id, qemu_plugin_vcpu_udata_cb_t callback, void *data)
	__asm__("qemu_plugin_register_vcpu_resume_cb");

typedef void translation_t(struct qemu_plugin_tb *tb);
typedef void vcpu_event_t(unsigned int vcpu);

/* api.c: qemu_plugin_install() of each plugin calls this first. */
void api_init(const qemu_info_t *info);
/* Copies up to @size bytes of an instruction. Returns how many. */
size_t insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *bytes, size_t size);
/* Has QEMU call @callback for each block that it translates. */
void on_translation(qemu_plugin_id_t id, translation_t *callback);
/* Has QEMU call these when a vCPU halts, and when it goes on. */
void on_idle_and_resume(qemu_plugin_id_t id, vcpu_event_t *idle_callback,
			vcpu_event_t *resume_callback);

#endif /* SMQ_BENCH_QEMU_PLUGIN_H */
