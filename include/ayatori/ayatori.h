/* SPDX-License-Identifier: Apache-2.0 */
/* The public C interface. Functions have POSIX's parameters, return codes and semantics; no exception leaves them. */
#ifndef AYATORI_AYATORI_H
#define AYATORI_AYATORI_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- the job */

/* Starts the runtime in every process of the job and calls f(argc, argv) as the first thread, on process 0; returns
 * its result in every process. Callable once, from main's thread. */
int ayatori_run(int argc, char** argv, int (*f)(int argc, char** argv));

/* ------------------------------------------------------------------------------------------------- memory */

/* Memory of the space, on any OS thread. Any process may free or resize what another allocated. To free what is no
 * live allocation of these (or of operator new on a user-level thread) ends the job with an error.
 * Null and errno ENOMEM: no room; aligned_alloc: EINVAL when align is no power of two.
 * malloc(0) gives an address of its own; realloc(p, 0) frees p and gives null. ayatori_free keeps errno. */
void* ayatori_malloc(size_t bytes);
void* ayatori_calloc(size_t count, size_t bytes);
void* ayatori_realloc(void* address, size_t bytes);
void* ayatori_aligned_alloc(size_t align, size_t bytes);
void ayatori_free(void* address);

#ifdef __cplusplus
}
#endif

#endif /* AYATORI_AYATORI_H */
