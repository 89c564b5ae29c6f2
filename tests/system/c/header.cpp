// SPDX-License-Identifier: Apache-2.0
// The C header in a C++ program, together with the C++ one; initialisers; a thread whose frames have destructors.
#include <ayatori/ayatori.h>

#include <ayatori/ayatori.hpp>

namespace {

ayatori_mutex_t mutex = AYATORI_MUTEX_INITIALIZER;
ayatori_cond_t cond = AYATORI_COND_INITIALIZER;
ayatori_once_t once = AYATORI_ONCE_INIT;

struct Count {
  int& n;
  ~Count() { ++n; }
};

void* leave(void* argument) {
  int& n = *static_cast<int*>(argument);
  const Count outer{n};
  try {
    const Count inner{n};
    ayatori_thread_exit(&n);
  } catch (...) {  // passes it on, as after pthread_exit
    ++n;
    throw;
  }
}

int program(int, char**) {
  int n = 0;
  ayatori_thread_t thread = 0;
  void* result = nullptr;
  ayatori_mutex_lock(&mutex);
  ayatori_once(&once, [] {});
  ayatori_cond_signal(&cond);
  ayatori_mutex_unlock(&mutex);
  if (ayatori_thread_create(&thread, nullptr, leave, &n) != 0) return 1;
  if (ayatori_thread_join(thread, &result) != 0 || result != &n || n != 3) return 2;
  ayatori::thread([&n] { ++n; }).join();
  return n == 4 ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) { return ayatori_run(argc, argv, program); }
