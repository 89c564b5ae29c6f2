// SPDX-License-Identifier: Apache-2.0
// The doctor's side of --hosts: calls all hosts at once, gathers what they find, has them try to reach each other. A host that
// fails is a finding; the others go on.
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "doctor.hpp"
#include "frames.hpp"
#include "host_command.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

constexpr std::int64_t kSlackNs = 10 * base::kNsPerSecond;  // beyond what the connections may take
constexpr std::int64_t kEndNs = 3 * base::kNsPerSecond;     // for the commands to end by themselves

class Call {
 public:
  Call(const Hosts& hosts, std::string name)
      : name_(std::move(name)), command_(command_for(hosts.rsh, name_, "doctor-agent")) {
    if (const base::Status status = start_command(command_, &pid_, &to_, &from_); !status.ok())
      give_up(status.message());
  }
  Call(Call&&) = default;

  void send(FrameKind kind, std::string_view body) { writer_.add(kind, body); }
  // Is an answer of this kind still to come?
  bool awaits(FrameKind kind) const { return from_ && answered_ != kind; }
  pollfd to_read() const { return {from_.get(), POLLIN, 0}; }
  pollfd to_write() const { return {writer_.empty() ? -1 : to_.get(), POLLOUT, 0}; }

  void write() {
    if (!writer_.flush(to_.get())) to_.reset();  // its output's end says what there is to say
  }

  void read() {
    const FrameReader::Arrived arrived = reader_.fill(from_.get());
    Frame frame;
    while (reader_.greeted() && from_ && reader_.next(&frame)) on_frame(frame);
    if (reader_.broken()) give_up("what its agent says makes no sense");
    if (from_ && arrived == FrameReader::Arrived::kEnd) on_silence();
  }

  void give_up(std::string why) {
    if (report.version.empty())
      why_ = std::move(why);
    else
      report.checks.push_back(problem("answers", std::move(why), advice()));
    from_.reset();
    to_.reset();
  }

  void hang_up() { to_.reset(); }
  // True: the command has ended. `kills`: now.
  bool ends(bool kills) {
    if (pid_ <= 1) return true;
    if (kills) kill(-pid_, SIGKILL);
    if (waitpid(pid_, nullptr, kills ? 0 : WNOHANG) == pid_) pid_ = -1;
    return pid_ < 0;
  }

  // The findings, or that there are none.
  HostReport take_report() {
    if (!report.version.empty()) return std::move(report);
    HostReport silent;
    silent.name = name_;
    silent.checks.push_back(problem("answers", why_.empty() ? "no" : why_, advice()));
    return silent;
  }
  const std::string& name() const { return name_; }

  HostReport report;              // version empty: none has come
  std::vector<std::string> whys;  // by host: why it was not reached

 private:
  void on_frame(const Frame& frame) {
    if (frame.kind == FrameKind::kFindings) {
      std::optional<HostReport> findings = unpack_host_report(frame.body);
      if (!findings || findings->version.empty() || findings->name != name_)
        return give_up("what its agent says makes no sense");
      report = std::move(*findings);
    } else if (frame.kind == FrameKind::kReached) {
      Unpacker fields(frame.body);
      for (std::uint64_t left = fields.number(); left != 0 && fields.ok(); --left) whys.emplace_back(fields.text());
      if (!fields.ended()) whys.clear();
    }
    answered_ = frame.kind;
  }

  // The command has closed its output.
  void on_silence() {
    int status = 0;
    for (int tries = 0; tries < 100 && pid_ > 1; ++tries) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return give_up(base::formatted("`{}` {}", command_, status_text(status)));
      }
      poll(nullptr, 0, 5);
    }
    give_up(base::formatted("`{}` closed its output", command_));
  }

  std::string advice() const {
    return base::formatted("Make this command reach {}, without a question, and install the same {} there.", name_,
                           own_path());
  }

  std::string name_;
  std::string command_;
  std::string why_;
  pid_t pid_ = -1;
  Fd to_, from_;
  FrameWriter writer_;
  FrameReader reader_;
  FrameKind answered_ = FrameKind::kExamine;
};

using Calls = std::vector<Call>;

// Until each host that is there has given this answer, or the time is over.
void gather(Calls& calls, FrameKind kind, std::int64_t timeout_ns, const std::string& late) {
  const std::int64_t deadline_ns = base::real_now_ns() + timeout_ns;
  const auto awaits = [kind](const Call& call) { return call.awaits(kind); };
  while (std::any_of(calls.begin(), calls.end(), awaits)) {
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    if (left_ns <= 0) break;
    std::vector<pollfd> polls;
    for (const Call& call : calls) {
      polls.push_back(call.to_read());
      polls.push_back(call.to_write());
    }
    if (poll(polls.data(), polls.size(), static_cast<int>(left_ns / base::kNsPerMs) + 1) <= 0) continue;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (polls[2 * i + 1].revents != 0) calls[i].write();
      if (polls[2 * i].revents != 0) calls[i].read();
    }
  }
  for (Call& call : calls)
    if (call.awaits(kind)) call.give_up(late);
}

void end(Calls& calls) {
  for (Call& call : calls) call.hang_up();
  const std::int64_t deadline_ns = base::real_now_ns() + kEndNs;
  const auto all_end = [&calls] {
    bool all = true;
    for (Call& call : calls) all = call.ends(false) && all;
    return all;
  };
  while (!all_end() && base::real_now_ns() < deadline_ns) poll(nullptr, 0, 5);
  for (Call& call : calls) call.ends(true);
}

std::vector<HostReport> reports_of(const Calls& calls) {
  std::vector<HostReport> reports;
  for (const Call& call : calls) reports.push_back(call.report);
  return reports;
}

// Every host that answered connects to every one; loopback, where that is what a job would use.
std::vector<Check> check_reach(Calls& calls) {
  const std::vector<HostReport> reports = reports_of(calls);
  const bool loopback = share_loopback(reports);
  Packer packer;
  packer.number(reports.size());
  for (const HostReport& report : reports)
    packer.text(loopback ? "127.0.0.1" : report.address).number(loopback ? report.loopback_port : report.port);
  for (Call& call : calls) call.send(FrameKind::kReach, packer.body());
  gather(calls, FrameKind::kReached, kReachNs + kSlackNs, "no answer when it was to connect to the others");
  std::vector<std::vector<std::string>> whys;
  for (const Call& call : calls) whys.push_back(call.whys);
  return judge_reach(reports, loopback, whys);
}

}  // namespace

Diagnosis examine_hosts(const Hosts& hosts, const std::string& program) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
  Errand errand;
  errand.folder = working_folder();
  errand.program = program;
  errand.knobs = knobs_of_environment();
  Calls calls;
  calls.reserve(hosts.hosts.size());
  for (const std::string& name : hosts.hosts) {
    errand.host = name;
    calls.emplace_back(hosts, name).send(FrameKind::kExamine, pack(errand));
  }
  gather(calls, FrameKind::kFindings, hosts.start_timeout_ns,
         base::formatted("no answer within {} s (AYATORI_START_TIMEOUT)", hosts.start_timeout_ns / base::kNsPerSecond));
  Diagnosis diagnosis;
  diagnosis.between = compare(reports_of(calls), program);
  for (Check& check : check_reach(calls)) diagnosis.between.push_back(std::move(check));
  end(calls);
  for (Call& call : calls) diagnosis.hosts.push_back(call.take_report());
  return diagnosis;
}

}  // namespace ayatori::tool
