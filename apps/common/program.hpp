// SPDX-License-Identifier: Apache-2.0
// What the programs of apps/ share around their algorithm: the command line, the last two lines of output, the start in
// one of the two modes.
//
// 1. Arguments are parsed in main, that is in every process of the job; only process 0 prints about them.
// 2. The parsed options are a trivially copyable struct, captured by value: valid on every process.
#pragma once

#include "mode.hpp"

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace common {

// A word of the command line, stored in place (2).
struct Text {
  char text[4096] = "";
  bool empty() const { return text[0] == '\0'; }
};

class Arguments {
 public:
  // `about` is one line; `name` the program's.
  Arguments(const char* name, const char* about);

  // The first argument: a number, or a word (of `choices`, if there are any). `required`: without a default.
  void size(const char* name, std::int64_t* value, std::int64_t min, std::int64_t max, const char* help);
  void word(const char* name, Text* value, bool required, const char* help,
            std::initializer_list<const char*> choices = {});

  void flag(const char* name, bool* value, const char* help);
  void number(const char* name, std::int64_t* value, std::int64_t min, std::int64_t max, const char* help);
  void real(const char* name, double* value, double min, double max, const char* help);
  void text(const char* name, Text* value, const char* meta, const char* help);

  // The status to return at once (--help, bad arguments), or nothing.
  std::optional<int> parse(int argc, char** argv);

 private:
  struct Option {
    std::string name, meta, help;
    bool* flag = nullptr;
    std::int64_t* number = nullptr;
    double* real = nullptr;
    Text* text = nullptr;
    double min = 0, max = 0;  // beyond 2^53 no limit is meant to be exact
    bool required = false;
    std::vector<std::string> choices = {};
  };
  std::string usage() const;
  std::string assign(const Option& option, const char* value) const;  // what is wrong, or ""
  int complain(const std::string& message) const;

  std::string name_, about_;
  std::optional<Option> first_;
  std::vector<Option> options_;
};

// Prints the two lines that end every program's output; returns its exit status: 1 too when output was lost. Call it in
// on_process_0.
int finish(double seconds, bool ok, std::FILE* out = stdout);

// Runs body(mode, options) as the first thread of the job or, with --serial, as plain code on process 0.
template <class Options, class Body>
int start(int argc, char** argv, const Options& options, bool serial, Body body) {
  static_assert(std::is_trivially_copyable_v<Options>);
  if (serial) return ayatori::process_id() == 0 ? body(Serial{}, options) : 0;
  return ayatori::run(argc, argv, [options, body](auto&&) { return body(Parallel{}, options); });
}

// As start(), with --hints.
template <class Options, class Body>
int start(int argc, char** argv, const Options& options, bool serial, bool hints, Body body) {
  if (serial || !hints) return start(argc, argv, options, serial, body);
  return ayatori::run(argc, argv, [options, body](auto&&) { return body(Hinted{}, options); });
}

}  // namespace common
