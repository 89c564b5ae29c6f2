// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/library.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>

namespace ayatori::net::ucx {
namespace {

// What UCX reads when it is loaded, and the user cannot be let choose: handlers of SIGSEGV and SIGBUS would take this
// library's page faults, it would patch mmap and munmap of the C library, and of an error there is to be a status, not a dead
// process. `if_unset`: the user may.
struct Variable {
  const char* name;
  const char* value;
  bool if_unset;
};
constexpr Variable kEnvironment[] = {
    {"UCX_ERROR_SIGNALS", "", false},        {"UCX_HANDLE_ERRORS", "none", false}, {"UCX_LOG_LEVEL", "fatal", true},
    {"UCX_WARN_UNUSED_ENV_VARS", "n", true}, {"UCX_VFS_ENABLE", "n", true},        {"UCX_MEM_EVENTS", "n", false},
};

// Sets them, and puts back what was there: children of this process are not concerned.
class Environment {
 public:
  Environment() {
    for (std::size_t i = 0; i < std::size(kEnvironment); ++i) {
      const char* const before = std::getenv(kEnvironment[i].name);
      was_set_[i] = before != nullptr;
      if (was_set_[i]) before_[i] = before;
      ::setenv(kEnvironment[i].name, kEnvironment[i].value, kEnvironment[i].if_unset ? 0 : 1);
    }
  }
  ~Environment() {
    for (std::size_t i = 0; i < std::size(kEnvironment); ++i) {
      if (was_set_[i])
        ::setenv(kEnvironment[i].name, before_[i].c_str(), 1);
      else
        ::unsetenv(kEnvironment[i].name);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::array<bool, std::size(kEnvironment)> was_set_{};
  std::array<std::string, std::size(kEnvironment)> before_;
};

template <class Function>
bool find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(::dlsym(library, name));
  return *function != nullptr;
}

base::Status load(Library* library) {
  const Environment environment;
  // Never unloaded: UCX has threads and handlers at exit of its own.
  void* const ucp = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (ucp == nullptr)
    return base::error_status(base::Code::kUnavailable,
                              "ucx: UCX is not installed on this machine: install libucx0 (Debian's name): {}",
                              ::dlerror());
  Library& l = *library;
  const bool complete =
      find(ucp, "ucp_get_version_string", &l.get_version_string) && find(ucp, "ucp_config_read", &l.config_read) &&
      find(ucp, "ucp_config_modify", &l.config_modify) && find(ucp, "ucp_config_release", &l.config_release) &&
      find(ucp, "ucp_init_version", &l.init_version) && find(ucp, "ucp_cleanup", &l.cleanup) &&
      find(ucp, "ucp_worker_create", &l.worker_create) && find(ucp, "ucp_worker_destroy", &l.worker_destroy) &&
      find(ucp, "ucp_worker_query", &l.worker_query) &&
      find(ucp, "ucp_worker_release_address", &l.worker_release_address) &&
      find(ucp, "ucp_worker_get_efd", &l.worker_get_efd) && find(ucp, "ucp_worker_arm", &l.worker_arm) &&
      find(ucp, "ucp_worker_progress", &l.worker_progress) &&
      find(ucp, "ucp_worker_set_am_recv_handler", &l.worker_set_am_recv_handler) &&
      find(ucp, "ucp_ep_create", &l.ep_create) && find(ucp, "ucp_ep_close_nbx", &l.ep_close_nbx) &&
      find(ucp, "ucp_am_send_nbx", &l.am_send_nbx) && find(ucp, "ucp_context_query", &l.context_query) &&
      find(ucp, "ucp_mem_map", &l.mem_map) && find(ucp, "ucp_mem_query", &l.mem_query) &&
      find(ucp, "ucp_mem_unmap", &l.mem_unmap) && find(ucp, "ucp_rkey_pack", &l.rkey_pack) &&
      find(ucp, "ucp_rkey_buffer_release", &l.rkey_buffer_release) &&
      find(ucp, "ucp_ep_rkey_unpack", &l.ep_rkey_unpack) && find(ucp, "ucp_rkey_destroy", &l.rkey_destroy) &&
      find(ucp, "ucp_put_nbx", &l.put_nbx) && find(ucp, "ucp_get_nbx", &l.get_nbx) &&
      find(ucp, "ucp_atomic_op_nbx", &l.atomic_op_nbx) && find(ucp, "ucp_ep_flush_nbx", &l.ep_flush_nbx) &&
      find(ucp, "ucp_request_free", &l.request_free) &&
      find(ucp, "ucs_status_string", &l.status_string);  // of libucs, which libucp needs
  if (!complete)
    return base::error_status(base::Code::kUnavailable, "ucx: UCX is too old on this machine, 1.13 is needed: {}",
                              ::dlerror());
  return base::ok_status();
}

}  // namespace

base::Status load_library(const Library** library) {
  static std::mutex mutex;
  static Library loaded;
  static bool done = false;
  std::lock_guard lock(mutex);
  if (!done) {
    if (base::Status status = load(&loaded); !status) return status;
    done = true;
  }
  *library = &loaded;
  return base::ok_status();
}

}  // namespace ayatori::net::ucx
