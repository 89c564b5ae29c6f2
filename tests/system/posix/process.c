/* SPDX-License-Identifier: Apache-2.0 */
/* fork, exec, posix_spawn and system from threads, on every process. The child of a fork has its parent's memory as it was,
 * and execs or ends. */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

enum { kThreads = 6 };

static int status_of(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) != child)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

static void* forks(void* argument) {
  int number = *(int*)argument, before[200];
  char text[32];
  migrate();
  for (int i = 0; i < 200; ++i) before[i] = i * number;
  snprintf(text, sizeof text, "exit %d", number);
  /* Its strings lie on this thread's stack. */
  pid_t child = fork();
  if (child == 0) {
    char* const arguments[] = {(char*)"sh", (char*)"-c", text, NULL};
    execv("/bin/sh", arguments);
    _exit(99);
  }
  CHECK(child > 0 && status_of(child) == number);
  /* What the child writes is its own. */
  child = fork();
  if (child == 0) {
    int right = 1;
    for (int i = 0; i < 200; ++i) right &= before[i] == i * number;
    memset(before, 0, sizeof before);
    _exit(right ? number : 98);
  }
  CHECK(child > 0 && status_of(child) == number);
  for (int i = 0; i < 200; ++i) CHECK(before[i] == i * number);
  CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
  return NULL;
}

/* Each in its own thread, all at once. */
void fork_exec(void) {
  ayatori_thread_t threads[kThreads];
  int numbers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i + 3;
    CHECK(ayatori_thread_create(&threads[i], NULL, forks, &numbers[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
}

static volatile int order[8], told; /* of one process */
static void note_order(int n) {
  if (told < 8) order[told++] = n;
}
static void prepare_first(void) { note_order(1); }
static void prepare_last(void) { note_order(2); }
static void parent_first(void) { note_order(3); }
static void parent_last(void) { note_order(4); }
static void child_first(void) { note_order(5); }
static void child_last(void) { note_order(6); }

/* The last that was told of prepares first, the first comes first afterwards. The thread stays, with the handlers, in one
 * process, as nothing here waits. */
void fork_handlers(void) {
  CHECK(ayatori_thread_atfork(prepare_first, parent_first, child_first) == 0);
  CHECK(ayatori_thread_atfork(prepare_last, parent_last, child_last) == 0);
  told = 0;
  const pid_t child = fork();
  if (child == 0) _exit(told == 4 && order[0] == 2 && order[1] == 1 && order[2] == 5 && order[3] == 6 ? 0 : 1);
  CHECK(told == 4 && order[0] == 2 && order[1] == 1 && order[2] == 3 && order[3] == 4);
  CHECK(child > 0 && status_of(child) == 0);
}

extern char** environ;

static void* spawns_one(void* argument) {
  const int number = *(int*)argument;
  char text[64], name[] = "sh", flag[] = "-c";
  char* arguments[] = {name, flag, text, NULL};
  pid_t child;
  migrate();
  snprintf(text, sizeof text, "exit %d", number);
  CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0 && status_of(child) == number);
  CHECK(posix_spawnp(&child, "sh", NULL, NULL, arguments, environ) == 0 && status_of(child) == number);
  CHECK(posix_spawn(&child, "/no/such/program", NULL, NULL, arguments, environ) == ENOENT);
  const int status = system(text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == number);
  FILE* pipe = popen("echo from the pipe", "r");
  CHECK(pipe != NULL);
  char line[32] = "";
  CHECK(fgets(line, sizeof line, pipe) != NULL && strcmp(line, "from the pipe\n") == 0 && pclose(pipe) == 0);
  return NULL;
}

void spawns(void) {
  ayatori_thread_t threads[kThreads];
  int numbers[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    numbers[i] = i + 3;
    CHECK(ayatori_thread_create(&threads[i], NULL, spawns_one, &numbers[i]) == 0);
  }
  for (int i = 0; i < kThreads; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
}
