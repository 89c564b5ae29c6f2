/* SPDX-License-Identifier: Apache-2.0 */
/* As pthread.h, which has both. */
#include <pthread.h>
