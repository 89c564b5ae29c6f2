/* SPDX-License-Identifier: Apache-2.0 */
/* Between the kinds of the C interface, in C, and their callers. */
#ifndef TESTS_SOAK_THREADS_C_MIX_H
#define TESTS_SOAK_THREADS_C_MIX_H

#include <ayatori/ayatori.h>

#ifdef __cplusplus
extern "C" {
#endif

void soak_c_objects(uint64_t seed, int each);
void soak_c_cancel(uint64_t seed, int rounds);

uint64_t soak_mix(uint64_t a, uint64_t b);
void soak_expect(uint64_t got, uint64_t want, const char* what, uint64_t where);

#ifdef __cplusplus
}
#endif

#endif
