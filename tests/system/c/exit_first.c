/* SPDX-License-Identifier: Apache-2.0 */
/* The first thread ends by ayatori_thread_exit: the job goes on until its threads have ended, then ends with status 0. */
#include <stdio.h>

#include "cases.h"

enum { kThreads = 5 };
static ayatori_barrier_t all;

static void* late(void* argument) {
  migrate();
  ayatori_barrier_wait(&all); /* the first thread comes here, too, so nobody ends before */
  for (int i = 0; i < 3; ++i) migrate();
  int* ended = argument;
  static ayatori_mutex_t mutex = AYATORI_MUTEX_INITIALIZER;
  ayatori_mutex_lock(&mutex);
  if (++*ended == kThreads) {
    printf("check: ok\n");
    fflush(stdout);
  }
  ayatori_mutex_unlock(&mutex);
  return NULL;
}

static int program(int argc, char** argv) {
  (void)argc, (void)argv;
  ayatori_thread_t thread;
  int* ended = ayatori_calloc(1, sizeof *ended);
  ayatori_barrier_init(&all, NULL, kThreads + 1);
  for (int i = 0; i < kThreads; ++i) {
    if (ayatori_thread_create(&thread, NULL, late, ended) != 0) return 2;
    if (i % 2) ayatori_thread_detach(thread);
  }
  ayatori_barrier_wait(&all);
  ayatori_thread_exit(NULL);
}

int main(int argc, char** argv) { return ayatori_run(argc, argv, program); }
