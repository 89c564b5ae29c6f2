// SPDX-License-Identifier: Apache-2.0
// fork() and the calls that start programs, from threads whose stack or strings lie in the space.
//
// F1. The space is shared memory: parent and child of a fork would run on one stack. So fork() leaves the thread's stack
//     for a private one, and the child gets a private copy of the used part of the stack before it returns, the rest of
//     the space privately too. The child sees what this process had; it can exec or end, it is no member of the job.
// F2. posix_spawn's child reads its strings without our handlers: they are copied out of the space before.
#include <spawn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dsm/fault/dispatch.hpp"
#include "dsm/fault/engines.hpp"
#include "dsm/fault/interpose.hpp"
#include "dsm/fault/shadow.hpp"
#include "dsm/fault/signals.hpp"
#include "dsm/fault/waiting.hpp"

extern "C" void ayt_call_on(void* stack_top, void (*function)(void* argument, void* caller_sp), void* argument);

namespace ayatori::dsm::fault {
namespace {

using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                  char* const*);

struct ProcessState {
  Hidden<pid_t()> fork{"fork"};
  Hidden<Spawn> spawn{"posix_spawn"};
  Hidden<Spawn> spawnp{"posix_spawnp"};
  Hidden<int(const char*)> system{"system"};
  Hidden<FILE*(const char*, const char*)> popen{"popen"};
  bool attached = false;          // Constant after bind_process_calls(): there is a space.
  bool has_private_view = false;  // written in the child of a fork alone, before it runs on
};
constinit ProcessState process;

constexpr std::size_t kForkStackBytes = 256 * 1024;  // atfork handlers run on it

struct Fork {
  pid_t result = 0;
  int error = 0;
};

// In the child, before user code runs: the space becomes its own (F1).
void make_private() {
  set_waiting_calls(nullptr);  // no worker goes on here
  process.has_private_view = true;
  forget_faults();
  const gas::Layout& l = gas::layout();
  shadow::make_private(l.base, l.bytes);
  void* base = reinterpret_cast<void*>(l.base);
  const int fd = gas::detail::tables.user_fd;
  if (fd < 0 ||
      mmap(base, l.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED)
    mprotect(base, l.bytes, PROT_READ | PROT_WRITE);
}

// Not memcpy: sanitizers would find the gaps between the frames' variables (and W3 of shadow.hpp).
void copy_stack(void* to, const void* from, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

// On the private stack; the caller's frames stand still from caller_sp upwards.
void fork_aside(void* argument, void* caller_sp) {
  auto* f = static_cast<Fork*>(argument);
  const auto low = reinterpret_cast<std::uintptr_t>(caller_sp) & ~(gas::kPageBytes - 1);
  const gas::SlotIndex slot = gas::slot_of(gas::page_of(caller_sp));
  const std::uintptr_t high = address_of(gas::slot_first(slot)) + bytes_of(gas::layout().slot_pages);
  const std::size_t bytes = high - low;
  const std::size_t shadow_bytes = shadow::bytes_for(bytes);  // behind the copy of the stack is that of its shadow
  void* copy = mmap(nullptr, bytes + shadow_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) {
    *f = {-1, ENOMEM};
    return;
  }
  copy_stack(copy, reinterpret_cast<void*>(low), bytes);
  void* const copied_shadow = static_cast<std::byte*>(copy) + bytes;
  if (shadow_bytes > 0) copy_stack(copied_shadow, shadow::address_for(low), shadow_bytes);
  const pid_t result = process.fork.get()();
  const int error = errno;
  if (result == 0) {
    make_private();
    // Below the used part: fresh memory, the lowest page for a guard.
    const std::uintptr_t bottom = address_of(gas::slot_first(slot)) + gas::kPageBytes;
    if (low > bottom)
      mmap(reinterpret_cast<void*>(bottom), low - bottom, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    mprotect(reinterpret_cast<void*>(bottom - gas::kPageBytes), gas::kPageBytes, PROT_NONE);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, low) == MAP_FAILED)
      base::fatal("the child of a fork cannot have its own stack: {}", std::strerror(errno));
    if (shadow_bytes > 0) copy_stack(shadow::address_for(low), copied_shadow, shadow_bytes);
  } else {
    munmap(copy, bytes + shadow_bytes);
  }
  *f = {result, error};
}

pid_t fork_private() {
  const void* here = __builtin_frame_address(0);
  if (!process.attached || !gas::contains(here) || !gas::is_stack(gas::page_of(here))) {
    const pid_t result = process.fork.get()();
    if (result == 0 && process.attached) make_private();
    return result;
  }
  void* stack = mmap(nullptr, kForkStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return -1;
  Fork f;
  ayt_call_on(static_cast<std::byte*>(stack) + kForkStackBytes, fork_aside, &f);
  munmap(stack, kForkStackBytes);
  if (f.result < 0) errno = f.error;
  return f.result;
}

// A private copy of a null-terminated array of strings (F2). Plain malloc: operator new may give memory of the space.
class Strings {
 public:
  explicit Strings(char* const* from) {
    if (!from) return;
    std::size_t count = 0, bytes = 0;
    for (; from[count]; ++count) bytes += std::strlen(from[count]) + 1;
    const std::size_t head = (count + 1) * sizeof(char*);
    copy_ = static_cast<char**>(std::malloc(head + bytes));
    if (!copy_) return;
    char* to = reinterpret_cast<char*>(copy_) + head;
    for (std::size_t i = 0; i < count; ++i) {
      copy_[i] = to;
      to = stpcpy(to, from[i]) + 1;
    }
    copy_[count] = nullptr;
  }
  ~Strings() { std::free(copy_); }
  Strings(const Strings&) = delete;
  Strings& operator=(const Strings&) = delete;
  char** get() const { return copy_; }

 private:
  char** copy_ = nullptr;
};

class Text {
 public:
  explicit Text(const char* from) : from_(from), copy_(from && gas::contains(from) ? strdup(from) : nullptr) {}
  ~Text() { std::free(copy_); }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  const char* get() const { return copy_ ? copy_ : from_; }

 private:
  const char* from_;
  char* copy_;
};

template <class F>
int spawn(F* real, pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
          const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  if (!process.attached) return real(pid, path, actions, attributes, argv, envp);
  const Text name(path);
  const Strings arguments(argv), environment(envp);
  if ((argv && !arguments.get()) || (envp && !environment.get())) return ENOMEM;
  return real(pid, name.get(), actions, attributes, arguments.get(), environment.get());
}

}  // namespace

void bind_process_calls() {
  process.fork.get();
  process.spawn.get();
  process.spawnp.get();
  process.system.get();
  process.popen.get();
  process.attached = true;
}

}  // namespace ayatori::dsm::fault

bool ayatori::dsm::has_private_view() noexcept { return fault::process.has_private_view; }

using namespace ayatori::dsm;

extern "C" {

pid_t fork() noexcept { return fault::fork_private(); }

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  return fault::spawn(fault::process.spawn.get(), pid, path, actions, attributes, argv, envp);
}
int posix_spawnp(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const argv[], char* const envp[]) {
  return fault::spawn(fault::process.spawnp.get(), pid, file, actions, attributes, argv, envp);
}
int system(const char* command) {
  const fault::Text text(command);
  return fault::process.system.get()(text.get());
}
FILE* popen(const char* command, const char* mode) {
  const fault::Text text(command), how(mode);
  return fault::process.popen.get()(text.get(), how.get());
}

}  // extern "C"
