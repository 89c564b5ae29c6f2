/* SPDX-License-Identifier: Apache-2.0
   A user's C program: one half of an array is summed by a thread, the other by its creator. */
#include <ayatori/ayatori.h>
#include <stdio.h>

struct half {
  const long *first, *last;
  long sum;
};

static void* add(void* argument) {
  struct half* half = argument;
  for (const long* value = half->first; value != half->last; ++value) half->sum += *value;
  return half;
}

static int program(int argc, char** argv) {
  (void)argc, (void)argv;
  long* values = ayatori_malloc(1000 * sizeof *values);
  if (values == NULL) return 1;
  for (long i = 0; i < 1000; ++i) values[i] = i;
  struct half low = {values, values + 500, 0}, high = {values + 500, values + 1000, 0};
  ayatori_thread_t thread;
  if (ayatori_thread_create(&thread, NULL, add, &low) != 0) return 1;
  add(&high);
  void* result = NULL;
  if (ayatori_thread_join(thread, &result) != 0 || result != &low) return 1;
  printf("sum %ld\n", low.sum + high.sum);
  ayatori_free(values);
  return 0;
}

int main(int argc, char** argv) { return ayatori_run(argc, argv, program); }
