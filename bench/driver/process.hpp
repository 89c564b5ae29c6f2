// SPDX-License-Identifier: Apache-2.0
// Runs a command and keeps what it printed. Called by the driver's only thread; several children may run at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

struct Command {
  std::vector<std::string> words;                                     // words[0] is a path
  std::vector<std::pair<std::string, std::string>> environment = {};  // on top of the driver's own
};

struct Outcome {
  int status = 0;  // exit status; 128 + signal; -1: it took too long and was ended
  std::string out, err;
  std::int64_t started_ns = 0, ended_ns = 0;  // CLOCK_MONOTONIC
  bool ok() const { return status == 0; }
};

class Child {
 public:
  explicit Child(const Command& command);  // starts it; a failure to is status 127
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();
  Outcome wait(int timeout_s);

 private:
  int pid_ = -1, out_ = -1, err_ = -1;
  std::int64_t started_ns_ = 0;
};

Outcome run(const Command& command, int timeout_s);
std::string text_of(const Command& command);  // as typed in a shell
std::string own_folder();                     // of this executable
std::string launcher_path();                  // of the `ayatori` that belongs to this executable
bool executable(const std::string& path);
void progress(const std::string& text);  // the line on a terminal that says what runs; "" wipes it

}  // namespace bench
