/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A marker in a measured program that tells a counting plugin where the measured part begins or
 * ends: a seven-byte NOP whose displacement contains an operation and "SMQ". Without a plugin it
 * costs one instruction.
 */
#ifndef SMQ_BENCH_MARKER_H
#define SMQ_BENCH_MARKER_H

#define MARKER_START	1
#define MARKER_STOP	2

/* nopl disp32(%rax), the displacement's lowest byte is the operation */
#define MARKER_LEN	7
#define MARKER_OP_BYTE	3
#define MARKER_HEAD	{ 0x0f, 0x1f, 0x80 }
#define MARKER_TAIL	{ 'S', 'M', 'Q' }

/* The plugins count on x86-64 only: elsewhere there is nothing to tell them. */
#ifdef __x86_64__
#define marker(op)							\
	({								\
		asm volatile(".byte 0x0f, 0x1f, 0x80, %c0, 0x53, 0x4d, 0x51" \
			     : : "i" (op) : "memory");			\
	})
#else
#define marker(op)	((void)(op))
#endif

#endif /* SMQ_BENCH_MARKER_H */
