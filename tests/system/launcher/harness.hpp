// SPDX-License-Identifier: Apache-2.0
// Runs the launcher as a user does, with pipes at its standard descriptors. The test process is a subreaper: what a
// dead launcher leaves comes to it and is seen.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace launcher_test {

struct Setting {
  std::string input;          // standard input's content
  bool close_output = false;  // standard output is not open
  bool merge = false;         // standard error goes where standard output goes
  int files = 0;              // RLIMIT_NOFILE
  int ignored_signal = 0;     // as in a shell's background job, or under nohup
  std::vector<std::pair<std::string, std::string>> environment;
};

// A launcher that runs. Its output is collected while wait() or read_pids() are called.
class Launch {
 public:
  explicit Launch(std::vector<std::string> arguments, const Setting& setting = {});
  ~Launch();  // kills what still runs
  Launch(const Launch&) = delete;

  pid_t pid() const { return pid_; }
  // Process number -> pid, from `pid P PID` lines; waits until there are `count`.
  std::map<int, pid_t> read_pids(std::size_t count);
  // Waits until `text` has come on standard output `times` times.
  void await_output(const std::string& text, int times);
  // Waits for the end; 128+S when a signal killed the launcher, -1 when it took longer than 30 s.
  int wait();
  // Closes our end of the launcher's standard output.
  void close_output();

  std::string out, err;
  double seconds = 0;  // from the start, or the last mark(), to the end
  void mark() { since_ = std::chrono::steady_clock::now(); }

 private:
  bool pump(int timeout_ms);  // false: both ends are closed
  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1;
  bool ended_ = false;
  std::chrono::steady_clock::time_point since_;
};

struct Result {
  int status;
  std::string out, err;
  double seconds;
};
// `ayatori` with these arguments, to its end.
Result ayatori(std::vector<std::string> arguments, const Setting& setting = {});
// ayatori run [options] PROBE act...
Result run(std::vector<std::string> options, std::vector<std::string> act, const Setting& setting = {});
std::vector<std::string> run_arguments(std::vector<std::string> options, std::vector<std::string> act);

std::vector<std::string> lines_of(const std::string& text);
int count_of(const std::string& text, const std::string& part);
// Waits up to 2 s until none of the processes exists.
bool all_gone(const std::map<int, pid_t>& pids);

}  // namespace launcher_test
