/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of the C interface that waits in a call of the C library is cancelled there, on whatever process it waits, and its
   cleanup handlers run. None of the calls would ever end by itself. The last line is `check: ok` or `check: FAILED`. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../c/cases.h"

enum { kCalls = 12, kRounds = 3 };

struct shared {
  ayatori_sem_t begun;
  ayatori_mutex_t mutex;
  int handlers, went_on;
};
struct one {
  struct shared* shared;
  int which;
};

static void handler(void* argument) {
  struct shared* s = argument;
  CHECK(ayatori_mutex_lock(&s->mutex) == 0);
  ++s->handlers;
  CHECK(ayatori_mutex_unlock(&s->mutex) == 0);
}

static void* wait_in(void* argument) {
  const struct one one = *(struct one*)argument;
  struct shared* s = one.shared;
  migrate();
  ayatori_thread_cleanup_push(handler, s);
  /* Where the semaphore is another process's, the thread waits for that one, and may go on elsewhere: no descriptor yet. */
  CHECK(ayatori_sem_post(&s->begun) == 0);
  const int process = here();
  int ends[2], pair[2];
  char bytes[1 << 16];
  CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  CHECK(here() == process);
  const struct timespec time = {1000000, 0};
  struct pollfd fds[] = {{ends[0], POLLIN, 0}, {pair[0], POLLIN, 0}};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(ends[0], &set);
  switch (one.which) {
    case 0: CHECK(read(ends[0], bytes, 1) == 0); break;
    case 1:
      memset(bytes, 0, sizeof bytes);
      while (write(ends[1], bytes, sizeof bytes) > 0) {
      }
      break;
    case 2: CHECK(recv(pair[0], bytes, 1, 0) == 0); break;
    case 3: {
      struct iovec part = {bytes, 1};
      struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
      CHECK(recvmsg(pair[0], &m, 0) == 0);
      break;
    }
    case 4: CHECK(poll(fds, 2, -1) == 0); break;
    case 5: CHECK(poll(NULL, 0, -1) == 0); break;
    case 6: CHECK(select(ends[0] + 1, &set, NULL, NULL, NULL) == 0); break;
    case 7: CHECK(nanosleep(&time, NULL) == 1); break;
    case 8: CHECK(sleep(1000000) == 1); break;
    case 9: {
      const int ep = epoll_create1(0);
      struct epoll_event event;
      CHECK(epoll_wait(ep, &event, 1, -1) == 0);
      break;
    }
    case 10: {
      const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
      CHECK(listen(fd, 1) == 0 || errno == EINVAL);
      struct sockaddr at = {.sa_family = AF_UNIX};
      CHECK(bind(fd, &at, sizeof(sa_family_t)) == 0 && listen(fd, 1) == 0);
      CHECK(accept(fd, NULL, NULL) == 0);
      break;
    }
    default: CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL) == 1); break;
  }
  ayatori_thread_cleanup_pop(0);
  ++s->went_on;
  return NULL;
}

/* Half of them are cancelled when they wait, as far as anybody can know; the others perhaps before. */
static int program(int argc, char** argv) {
  (void)argc;
  (void)argv;
  struct shared* s = ayatori_calloc(1, sizeof *s);
  CHECK(ayatori_sem_init(&s->begun, 0, 0) == 0 && ayatori_mutex_init(&s->mutex, NULL) == 0);
  struct one* ones = ayatori_calloc(kCalls, sizeof *ones);
  for (int round = 0; round < kRounds; ++round) {
    ayatori_thread_t threads[kCalls];
    for (int i = 0; i < kCalls; ++i) {
      ones[i] = (struct one){s, i};
      CHECK(ayatori_thread_create(&threads[i], NULL, wait_in, &ones[i]) == 0);
    }
    for (int i = 0; i < kCalls; ++i) CHECK(ayatori_sem_wait(&s->begun) == 0);
    for (int i = 0; round == 1 && i < 100; ++i) ayatori_thread_yield();
    for (int i = 0; i < kCalls; ++i) CHECK(ayatori_thread_cancel(threads[i]) == 0);
    for (int i = 0; i < kCalls; ++i) {
      void* result = NULL;
      CHECK(ayatori_thread_join(threads[i], &result) == 0);
      CHECK(result == AYATORI_CANCELED);
    }
    CHECK(s->handlers == (round + 1) * kCalls);
  }
  CHECK(s->went_on == 0);
  const int ok = failures() == 0;
  printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

int main(int argc, char** argv) { return ayatori_run(argc, argv, program); }
