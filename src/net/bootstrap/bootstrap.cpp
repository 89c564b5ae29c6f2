// SPDX-License-Identifier: Apache-2.0
// begin(), phases, the end of a job: see bootstrap.hpp. The ELF note below marks every program that is linked with the
// library, so that the launcher can tell before it starts several processes of it.
#include "net/bootstrap/bootstrap.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/format.hpp"
#include "base/identity.hpp"
#include "base/knobs.hpp"
#include "base/status.hpp"
#include "net/bootstrap/internal.hpp"

namespace ayatori::net::bootstrap {
namespace {

struct ElfNote {
  std::uint32_t name_bytes = 8;
  std::uint32_t description_bytes = 4;
  std::uint32_t type = kNoteType;
  char name[8] = "Ayatori";
  std::uint32_t version = kVersion;
};
[[gnu::used, gnu::section(".note.ayatori"), gnu::aligned(4)]] const ElfNote elf_note;

constexpr unsigned long kAskPersonality = 0xffffffff;

constinit internal::State the_state;

// "CONTROL_FD,SOCKET_FD"
bool parse_descriptors(std::string_view text, int& control_fd, int& socket_fd) noexcept {
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, control_fd);
  if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ',') return false;
  const auto second = std::from_chars(first.ptr + 1, end, socket_fd);
  return second.ec == std::errc{} && second.ptr == end;
}

// The launcher's control memory, or nullptr: what the variable names is not (or no longer) a hand-over to this process,
// as in a program started by another one that was launched.
JobControl* map_hand_over(int control_fd, int socket_fd) {
  struct stat control_stat{};
  struct stat socket_stat{};
  if (fstat(control_fd, &control_stat) != 0 || fstat(socket_fd, &socket_stat) != 0) return nullptr;
  if (!S_ISREG(control_stat.st_mode) || !S_ISSOCK(socket_stat.st_mode)) return nullptr;
  if (control_stat.st_size < static_cast<off_t>(offsetof(JobControl, flags))) return nullptr;
  void* const memory =
      mmap(nullptr, static_cast<std::size_t>(control_stat.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, control_fd, 0);
  if (memory == MAP_FAILED) internal::fail_start("cannot map the launcher's control memory", errno);
  auto* const control = static_cast<JobControl*>(memory);
  if (control->magic != kMagic) {
    munmap(memory, static_cast<std::size_t>(control_stat.st_size));
    return nullptr;
  }
  if (control->version != kVersion || control->bytes != sizeof(JobControl))
    internal::fail_start("this program is linked with another version of Ayatori than the launcher's");
  if ((control->flags & kDebugged) == 0 && control->launcher_pid != getppid()) {
    munmap(memory, static_cast<std::size_t>(control_stat.st_size));
    return nullptr;
  }
  return control;
}

JobControl* make_alone() {
  void* const memory = mmap(nullptr, sizeof(JobControl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) internal::fail_start("cannot make the control memory", errno);
  auto* const control = new (memory) JobControl;
  control->bytes = sizeof(JobControl);
  control->job_id = static_cast<std::uint64_t>(getpid());
  return control;
}

void die_with_launcher() {
  const JobControl& control = *the_state.job.control;
  if ((control.flags & kDebugged) != 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // gdb's end; gdb itself dies with the launcher
    return;
  }
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) internal::fail_start("cannot set the parent-death signal", errno);
  if (getppid() != control.launcher_pid) _exit(base::kStartFailureExit);  // it died before the call
}

// exit() inside the run: the launcher must know the status even if a destructor crashes or hangs while other threads
// still run. Registered when the run starts, hence called before the handlers of the program's static objects.
void on_exit_handler(int status, void*) {
  if (internal::is_stray() || phase() != Phase::kRunning) return;
  MemberControl& self = internal::self();
  self.exit_status.store(status & 0xff, std::memory_order_relaxed);
  self.called_exit.store(1, std::memory_order_release);  // publishes the status to the launcher's acquire load
  internal::notify_launcher();
  if (the_state.exit_hook != nullptr) the_state.exit_hook();
}

}  // namespace

namespace internal {

State& state() noexcept { return the_state; }

MemberControl& self() noexcept {
  return the_state.job.control->members[static_cast<std::size_t>(the_state.job.process_id)];
}

bool is_stray() noexcept { return self().pid.load(std::memory_order_relaxed) != getpid(); }

void notify_launcher() noexcept {
  if (the_state.socket_fd < 0) return;
  const Message message{MessageKind::kLook, the_state.job.process_id};
  // A full socket holds other messages already, which make the launcher look just as well (J4).
  send(the_state.socket_fd, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void fail_start(std::string_view what, int error_number) noexcept {
  char line[512];
  const std::span<char> room(line, sizeof line - 1);
  std::size_t bytes = base::print_to(room, "ayatori: {}", what);
  if (error_number != 0) {
    char text[128];
    bytes += base::print_to(room.subspan(bytes), ": {}", strerror_r(error_number, text, sizeof text));
  }
  line[bytes++] = '\n';
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line, bytes);
  _exit(base::kStartFailureExit);
}

}  // namespace internal

Job& job() noexcept { return the_state.job; }

void begin() {
  Job& job = the_state.job;
  if (job.control != nullptr) return;  // S1

  if (const char* const variable = std::getenv(kBootVariable)) {
    int control_fd = -1;
    int socket_fd = -1;
    if (parse_descriptors(variable, control_fd, socket_fd)) job.control = map_hand_over(control_fd, socket_fd);
    if (job.control != nullptr) {
      close(control_fd);
      fcntl(socket_fd, F_SETFD, FD_CLOEXEC);
      the_state.socket_fd = socket_fd;
      job.launched = true;
      job.launcher_pid = job.control->launcher_pid;
      job.process_count = job.control->process_count;
      // What the launcher has asked for this program (alike.hpp) is not meant for those that it starts.
      const int now = job.is_wide() ? personality(kAskPersonality) : -1;
      if (now >= 0) personality(static_cast<unsigned long>(now) & ~static_cast<unsigned long>(ADDR_NO_RANDOMIZE));
    }
    unsetenv(kBootVariable);
  }
  if (job.control == nullptr) job.control = make_alone();
  std::int32_t none = 0;
  if (!internal::self().pid.compare_exchange_strong(none, getpid(), std::memory_order_relaxed))
    internal::fail_start("a job starts once: leave gdb and call `ayatori run --gdb` again");
  internal::self().phase.store(static_cast<std::uint32_t>(Phase::kStarting), std::memory_order_seq_cst);
  base::set_identity(job.process_id, job.process_count);

  internal::check_stats_file();
  job.workers = static_cast<int>(base::knob_int("AYATORI_WORKERS"));
  if (job.launched) {
    die_with_launcher();
    setvbuf(stdout, nullptr, _IOLBF, 0);
  }
}

Phase phase() noexcept { return static_cast<Phase>(internal::self().phase.load(std::memory_order_relaxed)); }

void set_phase(Phase phase) {
  if (internal::is_stray()) return;
  JobControl& control = *the_state.job.control;
  internal::self().phase.store(static_cast<std::uint32_t>(phase), std::memory_order_seq_cst);  // J3
  if (phase != Phase::kRunning && phase != Phase::kJoining) return;
  if (const std::uint32_t early = control.left_early.load(std::memory_order_seq_cst)) {
    char why[160];
    const std::size_t bytes = base::print_to(why, "process {} exited without calling {}, which this one did", early - 1,
                                             phase == Phase::kRunning ? "ayatori::run" : "ayatori::net::open");
    end_job(control.left_early_status.load(std::memory_order_relaxed), {why, bytes});
  }
  // All members are born: the launcher notes their pids before the program's own code can overwrite them.
  if (the_state.job.process_id == 0 && the_state.job.process_count > 1) internal::notify_launcher();
  if (phase == Phase::kRunning && !the_state.exit_hooked) {
    the_state.exit_hooked = true;
    on_exit(on_exit_handler, nullptr);
  }
}

void set_exit_hook(void (*hook)() noexcept) noexcept { the_state.exit_hook = hook; }

void end_job(int status, std::string_view why) noexcept {
  if (the_state.job.control == nullptr || internal::is_stray()) _exit(status);
  JobControl& control = *the_state.job.control;
  EndControl& end = control.end;
  std::uint32_t none = EndControl::kNone;
  const bool first = end.state.compare_exchange_strong(none, EndControl::kClaimed, std::memory_order_relaxed);
  if (first) {
    end.process = the_state.job.process_id;
    end.pid = getpid();
    end.status = status;
    const std::size_t bytes = std::min(why.size(), sizeof end.why - 1);
    std::memcpy(end.why, why.data(), bytes);
    end.why[bytes] = '\0';
    end.state.store(EndControl::kWritten, std::memory_order_release);  // J2: pairs with the launcher's acquire load
  }
  control.ending.store(1, std::memory_order_release);  // pairs with job_ending()
  if (the_state.job.launched) {
    internal::notify_launcher();
  } else if (first) {
    char line[sizeof end.why + 16];
    std::size_t bytes = base::print_to({line, sizeof line - 1}, "ayatori: {}", std::string_view(end.why));
    line[bytes++] = '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line, bytes);
  } else {
    // The thread that was first prints and leaves with its status. If this is a signal handler that interrupted that
    // very thread, the nap ends.
    const timespec nap{0, 100'000'000};
    nanosleep(&nap, nullptr);
  }
  _exit(status);
}

bool job_ending() noexcept {
  // acquire: pairs with the stores of whoever ends the job.
  return the_state.job.control->ending.load(std::memory_order_acquire) != 0;
}

int set_result(int status) noexcept {
  constexpr std::uint64_t kSet = std::uint64_t{1} << 32;
  std::uint64_t word = 0;
  const std::uint64_t mine = kSet | static_cast<std::uint32_t>(status);
  // acq_rel: who reads the result also sees what its writer did before.
  if (the_state.job.control->result.compare_exchange_strong(word, mine, std::memory_order_acq_rel)) return status;
  return static_cast<int>(static_cast<std::uint32_t>(word));
}

bool get_result(int& status) noexcept {
  const std::uint64_t word = the_state.job.control->result.load(std::memory_order_acquire);  // pairs with set_result
  if (word == 0) return false;
  status = static_cast<int>(static_cast<std::uint32_t>(word));
  return true;
}

}  // namespace ayatori::net::bootstrap
