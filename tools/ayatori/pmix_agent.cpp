// SPDX-License-Identifier: Apache-2.0
// `ayatori pmix-agent FILE ARGV0 ARGS...`: what a program with threads becomes that srun --mpi=pmix or mpirun has started
// (src/net/bootstrap/refusal.cpp). It joins in the program's place and runs it as its part of a job of several hosts: an
// ordinary job of one process (job.hpp) that is told of the others. PMIx knows this process; the program never talks to it.
//
// X1. Two threads: this one is the launcher, the other talks to PMIx and is, for the launcher, its agent (wide.hpp). Signals are
//     the first one's business.
// X2. All give one card, the program's, or word that it ended without one: so nobody waits for a card that never comes.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/knobs.hpp"
#include "commands.hpp"
#include "frames.hpp"
#include "job.hpp"
#include "net/bootstrap/pmix.hpp"
#include "net/bootstrap/surroundings.hpp"
#include "program.hpp"
#include "system.hpp"
#include "wide.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

// What goes by PMIx: plain data, as all run one version.
struct Given {
  std::uint32_t version = boot::kVersion;
  std::int32_t left = 0;  // 1: it ended without having called ayatori::run, with this status
  std::int32_t status = 0;
  boot::Card card;
};

// The next frame; false at the end of the launcher's part.
bool wait_for(Uplink& uplink, FrameKind* kind, std::string* body) {
  while (!uplink.receive(kind, body)) {
    if (uplink.ended()) return false;
    pollfd polled{uplink.fd(), POLLIN, 0};
    poll(&polled, 1, -1);
  }
  return true;
}

enum class Exchange { kNone, kUnderWay, kDone, kOver };       // of X2; kOver: there will be none any more
constexpr std::int64_t kExchangeNs = 5 * base::kNsPerSecond;  // after the part's end

// The agent (X1), until the part has ended.
void attend(Uplink& uplink, boot::PmixSession& session, const boot::PmixJob& job, std::atomic<Exchange>& exchange) {
  FrameKind kind;
  std::string body;
  bool given = false;
  while (wait_for(uplink, &kind, &body)) {
    Unpacker fields(body);
    if ((kind != FrameKind::kCard && kind != FrameKind::kLeft) || std::exchange(given, true)) continue;
    Given mine;
    fields.number();
    if (kind == FrameKind::kCard) {
      const std::string_view card = fields.text();
      std::memcpy(&mine.card, card.data(), std::min(card.size(), sizeof mine.card));
    } else {
      mine.left = 1;
      mine.status = static_cast<std::int32_t>(fields.number());
    }
    exchange.store(Exchange::kUnderWay, std::memory_order_release);  // pairs with the launcher's loads, as below
    std::vector<std::string> all;
    if (const base::Status status = session.exchange({reinterpret_cast<const char*>(&mine), sizeof mine}, &all);
        !status.ok()) {
      say(status.message());
      exchange.store(Exchange::kOver, std::memory_order_release);
      uplink.send(FrameKind::kEnd);
      continue;
    }
    exchange.store(Exchange::kDone, std::memory_order_release);
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (p == static_cast<std::size_t>(job.self)) continue;
      Given other;
      std::memcpy(&other, all[p].data(), sizeof other);
      if (other.version != mine.version) {
        say(base::formatted("process {} on host {} has another version of Ayatori", p, job.hosts[p]));
        uplink.send(FrameKind::kEnd);
        break;
      }
      Packer packer;
      packer.number(p);
      if (other.left != 0)
        uplink.send(FrameKind::kLeft, packer.number(static_cast<std::uint64_t>(other.status)).body());
      else
        uplink.send(FrameKind::kCard,
                    packer.text({reinterpret_cast<const char*>(&other.card), sizeof other.card}).body());
    }
  }
  if (!given) exchange.store(Exchange::kOver, std::memory_order_release);
}

int run_alone(const RunOptions& options, const Program& program) {
  Job job(options, program);
  return job.run();
}

}  // namespace

int pmix_agent_command(int argc, char** argv) {
  if (argc < 3) return fail(kExitStart, "pmix-agent is for programs that a PMIx launcher has started");
  if (const base::Status knobs = base::load_knobs(); !knobs.ok()) return fail(kExitStart, "{}", knobs.message());
  const Program program{argv[1], true};
  RunOptions options;
  options.command.assign(argv + 2, argv + argc);
  const boot::Surroundings around = boot::surroundings();

  boot::PmixSession session;
  boot::PmixJob known;
  if (const base::Status status = session.enter(base::knob_int("AYATORI_START_TIMEOUT") * base::kNsPerSecond, &known);
      !status.ok()) {
    // A server that does not answer belongs to somebody else, whose environment was inherited.
    if (around.processes == 0) return run_alone(options, program);
    return fail(kExitStart, "{}", status.message());
  }
  if (known.processes == 1) {
    session.leave();
    return run_alone(options, program);
  }
  // What the program starts is no part of this job.
  for (const char* const name : {"PMIX_NAMESPACE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "OMPI_COMM_WORLD_SIZE"})
    unsetenv(name);
  WideJob wide;
  wide.processes = known.processes;
  wide.first = known.self;
  wide.job_id = known.job;
  wide.secret = known.secret;
  wide.loopback = known.loopback;
  wide.hosts = known.hosts;
  wide.has_launcher = false;
  Uplink agents_end;
  if (!open_uplink(wide.uplink, agents_end)) return fail(kExitStart, "cannot make a socket: {}", error_text(errno));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // X1
  std::atomic<Exchange> exchange{Exchange::kNone};
  std::thread agent([&] { attend(agents_end, session, known, exchange); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  {
    Job job(options, program, &wide);
    status = job.run();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);  // the launcher's part is over
  wide.uplink = Uplink();
  // A part that failed before the exchange tells the others so, if they come; PMIx' launcher ends those that do not when this
  // process ends without a word.
  const std::int64_t end_ns = base::real_now_ns() + kExchangeNs;
  while (status != 0 && exchange.load(std::memory_order_acquire) != Exchange::kDone) {
    if (exchange.load(std::memory_order_acquire) == Exchange::kOver || base::real_now_ns() > end_ns) _exit(status);
    const timespec nap{0, 10'000'000};
    nanosleep(&nap, nullptr);
  }
  agent.join();
  session.leave();
  return status;
}

}  // namespace ayatori::tool
