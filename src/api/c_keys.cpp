// SPDX-License-Identifier: Apache-2.0
// Thread-specific data, as include/ayatori/ayatori.h declares it, over tasks::keys.
#include <cerrno>

#include "api/start.hpp"
#include "ayatori/ayatori.h"
#include "tasks/keys.hpp"

namespace keys = ayatori::tasks::keys;

static_assert(AYATORI_KEYS_MAX == keys::kKeys && AYATORI_DESTRUCTOR_ITERATIONS == keys::kRounds);

extern "C" {

int ayatori_key_create(ayatori_key_t* key, void (*destructor)(void*)) {
  ayatori::api::ensure_started();  // an initialiser may be earlier than the library's own
  const keys::Key made = keys::create(key, destructor);
  if (made == 0) return EAGAIN;
  *key = made;
  return 0;
}

int ayatori_key_delete(ayatori_key_t key) { return keys::erase(key) ? 0 : EINVAL; }

void* ayatori_getspecific(ayatori_key_t key) { return keys::get(key); }

int ayatori_setspecific(ayatori_key_t key, const void* value) {
  switch (keys::set(key, const_cast<void*>(value))) {  // NOLINT: POSIX's parameter
    case keys::Set::kDone: return 0;
    case keys::Set::kNoKey: return EINVAL;
    case keys::Set::kNoMemory: break;
  }
  return ENOMEM;
}

}  // extern "C"
