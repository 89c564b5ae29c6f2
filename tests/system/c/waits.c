/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of wait for one mutex and one condition at the same time, from every worker and process: with and without a time,
 * signalled one by one or all, cancelled. Whoever were forgotten would wait for ever. */
#include <errno.h>

#include "cases.h"

enum { kWaiters = 12, kVictims = 4, kPutters = 3, kPuts = 120 };

struct game {
  ayatori_mutex_t mutex;
  ayatori_cond_t cond;
  int items, put, taken, over; /* as all that follows: under the mutex */
  int inside, timeouts, cleaned;
  unsigned processes;
};
struct player {
  struct game* game;
  int number;
};

/* What only one may do at a time; now and then others get to run meanwhile, and find the mutex locked. */
static void be_inside(struct game* g, int yields) {
  CHECK(g->inside == 0);
  g->inside = 1;
  if (yields) ayatori_thread_yield();
  g->processes |= 1u << here();
  CHECK(g->inside == 1);
  g->inside = 0;
}

static void leave(void* argument) {
  struct game* g = argument;
  ++g->cleaned;
  be_inside(g, 0);
  CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
}

/* Until the game is over; the first kVictims until they are cancelled. */
static void* wait_and_take(void* argument) {
  const struct player* me = argument;
  struct game* g = me->game;
  if (me->number % 2 == 1) migrate();
  for (int alone = process_count() > 1 && me->number == kVictims; alone;) { /* until it was held on two processes */
    migrate();
    CHECK(ayatori_mutex_lock(&g->mutex) == 0);
    be_inside(g, 0);
    alone = (g->processes & (g->processes - 1)) == 0;
    CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
  }
  for (int round = 0, over = 0; !over || me->number < kVictims; ++round) {
    const int how = (me->number + round) % 4;
    ayatori_thread_testcancel();
    if (how == 0) {
      const struct timespec until = in_ms(CLOCK_REALTIME, 1);
      const int error = ayatori_mutex_timedlock(&g->mutex, &until);
      CHECK(error == 0 || error == ETIMEDOUT);
      if (error == ETIMEDOUT) {
        note(1);
        continue;
      }
    } else {
      CHECK(ayatori_mutex_lock(&g->mutex) == 0);
    }
    ayatori_thread_cleanup_push(leave, g);
    be_inside(g, round % 8 == 0);
    if (how == 1)
      while (g->items == 0 && !g->over) CHECK(ayatori_cond_wait(&g->cond, &g->mutex) == 0);
    if (how == 2) {
      const struct timespec until = in_ms(CLOCK_REALTIME, round % 3);
      int error = 0;
      while (g->items == 0 && !g->over && error == 0) error = ayatori_cond_timedwait(&g->cond, &g->mutex, &until);
      CHECK(error == 0 || error == ETIMEDOUT);
      g->timeouts += error == ETIMEDOUT;
    }
    be_inside(g, 0);
    if (g->items > 0) {
      --g->items;
      ++g->taken;
    }
    over = g->over;
    ayatori_thread_cleanup_pop(0);
    CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
    if (over) ayatori_thread_yield();
  }
  return g;
}

static void* put(void* argument) {
  const struct player* me = argument;
  struct game* g = me->game;
  if (me->number % 2 == 1) migrate();
  for (int i = 0; i < kPuts; ++i) {
    CHECK(ayatori_mutex_lock(&g->mutex) == 0);
    be_inside(g, i % 16 == 0);
    ++g->items;
    ++g->put;
    if (i % 2 == 0) CHECK(ayatori_cond_signal(&g->cond) == 0);
    CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
    if (i % 2 == 1) CHECK((i % 10 == 9 ? ayatori_cond_broadcast(&g->cond) : ayatori_cond_signal(&g->cond)) == 0);
    if (i % 4 == 0) ayatori_thread_yield();
  }
  return g;
}

/* Waits until *value, which is under the mutex, is at least `least`. */
static void until_at_least(struct game* g, const int* value, int least) {
  for (int reached = 0; !reached; ayatori_thread_yield()) {
    CHECK(ayatori_mutex_lock(&g->mutex) == 0);
    reached = *value >= least;
    CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
  }
}

void waits_all_at_once(void) {
  struct game* g = ayatori_calloc(1, sizeof *g);
  struct player players[kWaiters + kPutters];
  ayatori_thread_t threads[kWaiters + kPutters];
  CHECK(ayatori_mutex_init(&g->mutex, NULL) == 0 && ayatori_cond_init(&g->cond, NULL) == 0);
  const int before = noted();
  CHECK(ayatori_mutex_lock(&g->mutex) == 0);
  for (int i = 0; i < kWaiters; ++i) {
    players[i] = (struct player){g, i};
    CHECK(ayatori_thread_create(&threads[i], NULL, wait_and_take, &players[i]) == 0);
  }
  while (noted() == before) ayatori_thread_yield(); /* a wait for the mutex was too long */
  CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
  until_at_least(g, &g->timeouts, 3); /* nobody signals yet */
  for (int i = kWaiters; i < kWaiters + kPutters; ++i) {
    players[i] = (struct player){g, i};
    CHECK(ayatori_thread_create(&threads[i], NULL, put, &players[i]) == 0);
  }
  for (int i = 0; i < kVictims; ++i) {
    until_at_least(g, &g->put, (i + 1) * kPutters * kPuts / (kVictims + 1));
    CHECK(ayatori_thread_cancel(threads[i]) == 0);
  }
  for (int i = 0; i < kVictims; ++i) {
    void* result = NULL;
    CHECK(ayatori_thread_join(threads[i], &result) == 0 && result == AYATORI_CANCELED);
  }
  for (int i = kWaiters; i < kWaiters + kPutters; ++i) CHECK(ayatori_thread_join(threads[i], NULL) == 0);
  CHECK(ayatori_mutex_lock(&g->mutex) == 0);
  g->over = 1;
  CHECK(ayatori_cond_broadcast(&g->cond) == 0);
  CHECK(ayatori_mutex_unlock(&g->mutex) == 0);
  for (int i = kVictims; i < kWaiters; ++i) {
    void* result = NULL;
    CHECK(ayatori_thread_join(threads[i], &result) == 0 && result == g);
  }
  CHECK(g->put == kPutters * kPuts && g->items + g->taken == g->put && g->taken > 0);
  CHECK(g->inside == 0 && g->cleaned <= kVictims);
  if (process_count() > 1) CHECK((g->processes & (g->processes - 1)) != 0);
  CHECK(ayatori_cond_destroy(&g->cond) == 0 && ayatori_mutex_destroy(&g->mutex) == 0);
  ayatori_free(g);
}
