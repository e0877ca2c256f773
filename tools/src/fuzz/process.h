/* SPDX-License-Identifier: GPL-2.0 */
/* The process: its privileges, and the signals that interrupt its sleeps. */
#ifndef FUZZ_PROCESS_H
#define FUZZ_PROCESS_H

#define NOBODY		65534
/* The bytes that a process of the user NOBODY may lock: less than AREA_SIZE. */
#define NOBODY_LOCKS	(256 << 10)

/* Drops root's privileges. */
void become_nobody(void);

/* Makes SIGALRM and SIGUSR1 interrupt sleeps, without other effect. */
void handle_signals(void);

/* Start and stop a timer whose signals make sleeping system calls end with EINTR. */
void interrupt_soon(unsigned int usec);
void interrupt_no_more(void);

#endif /* FUZZ_PROCESS_H */
