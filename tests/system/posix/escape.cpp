// SPDX-License-Identifier: Apache-2.0
// `posix_escape detached|joined`: an exception leaves the routine of a thread of the C interface, on the last process.
#include <ayatori/ayatori.h>

#include <ayatori/ayatori.hpp>
#include <stdexcept>
#include <string_view>

namespace {

void* throws(void*) { throw std::runtime_error("left a thread of the C interface"); }

int program(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  ayatori::thread(ayatori::on(ayatori::process_count() - 1), [how] {
    ayatori_thread_attr_t attr;
    ayatori_thread_t thread = 0;
    ayatori_thread_attr_init(&attr);
    if (how == "detached") ayatori_thread_attr_setdetachstate(&attr, AYATORI_THREAD_CREATE_DETACHED);
    ayatori_thread_create(&thread, &attr, throws, nullptr);
    if (how == "joined") ayatori_thread_join(thread, nullptr);
    ayatori::this_thread::sleep_for(std::chrono::seconds(60));  // the job ends meanwhile
  }).join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return ayatori_run(argc, argv, program); }
