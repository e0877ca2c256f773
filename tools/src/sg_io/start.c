// SPDX-License-Identifier: GPL-2.0
/* Starts the Python part of sg_io, for the commands that only read and write files. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "columns.h"
#include "commands.h"
#include "util.h"

#define SELF	"/proc/self/exe"
/* The one that has the system's packages, which may not be the first in PATH. */
#define PYTHON	"/usr/bin/python3"

/* Where it is, from the program's folder: in the source tree, and where make install puts it. */
static const char * const folders[] = {
	"src/sg_io/judge", "../../../tools/src/sg_io/judge", "../share/smq/judge",
};

int cmd_judge(int argc, char **argv)
{
	char self[PATH_MAX], folder[PATH_MAX + 64];
	/* python3 -IB FOLDER PROGRAM COMMAND ARGUMENTS... */
	char **words = calloc(argc + 5, sizeof(*words));
	ssize_t len = readlink(SELF, self, sizeof(self) - 1);
	unsigned int i;

	if (!words || len <= 0) {
		warn(SELF);
		return EXIT_DEVICE;
	}
	self[len] = '\0';
	for (i = 0; i < ARRAY_SIZE(folders); i++) {
		snprintf(folder, sizeof(folder), "%.*s/%s/__main__.py",
			 (int)(strrchr(self, '/') - self), self, folders[i]);
		if (!access(folder, R_OK))
			break;
	}
	if (i == ARRAY_SIZE(folders)) {
		warn("the Python part of sg_io: %s", folder);
		return EXIT_DEVICE;
	}
	*strrchr(folder, '/') = '\0';
	words[0] = (char *)PYTHON;
	words[1] = (char *)"-IB";
	words[2] = folder;
	words[3] = self;
	words[4] = strchr(argv[0], ' ') + 1;
	memcpy(words + 5, argv + 1, (argc - 1) * sizeof(*words));
	execv(PYTHON, words);
	execvp("python3", words);
	warnx("python3: %s; '%s' needs it", strerror(errno), argv[0]);
	return EXIT_DEVICE;
}

int judge_run(char *const *argv, int in, char **out)
{
	posix_spawn_file_actions_t actions;
	int fds[2] = { -1, -1 }, status = -1, error;
	size_t room = 0;
	FILE *from;
	pid_t pid;

	fflush(stdout);
	lseek(in, 0, SEEK_SET);
	if (out && pipe2(fds, O_CLOEXEC)) {
		warn("starting sg_io");
		return EXIT_DEVICE;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (out)
		posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	error = posix_spawn(&pid, SELF, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (out) {
		close(fds[1]);
		from = fdopen(fds[0], "r");
		if (!from || getdelim(out, &room, '\0', from) < 0)
			*out = NULL;
		if (from)
			fclose(from);
	}
	errno = error;
	if (error)
		warn("starting sg_io");
	else if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		return WEXITSTATUS(status);
	return EXIT_DEVICE;
}
