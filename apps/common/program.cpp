// SPDX-License-Identifier: Apache-2.0
// The command line of the programs; see program.hpp. Called from main's thread before the job starts.
#include "program.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace common {
namespace {

std::string show(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

}  // namespace

Arguments::Arguments(const char* name, const char* about) : name_(name), about_(about) {}

void Arguments::size(const char* name, std::int64_t* value, std::int64_t min, std::int64_t max, const char* help) {
  first_ = Option{.name = name, .meta = "", .help = help, .number = value};
  first_->min = static_cast<double>(min);
  first_->max = static_cast<double>(max);
}

void Arguments::word(const char* name, Text* value, bool required, const char* help,
                     std::initializer_list<const char*> choices) {
  first_ = Option{.name = name, .meta = "", .help = help, .text = value, .required = required};
  first_->choices.assign(choices.begin(), choices.end());
}

void Arguments::flag(const char* name, bool* value, const char* help) {
  options_.push_back({.name = name, .meta = "", .help = help, .flag = value});
}

void Arguments::number(const char* name, std::int64_t* value, std::int64_t min, std::int64_t max, const char* help) {
  options_.push_back({.name = name, .meta = "N", .help = help, .number = value});
  options_.back().min = static_cast<double>(min);
  options_.back().max = static_cast<double>(max);
}

void Arguments::real(const char* name, double* value, double min, double max, const char* help) {
  options_.push_back({.name = name, .meta = "X", .help = help, .real = value, .min = min, .max = max});
}

void Arguments::text(const char* name, Text* value, const char* meta, const char* help) {
  options_.push_back({.name = name, .meta = meta, .help = help, .text = value});
}

std::string Arguments::usage() const {
  std::string text = "usage: " + name_;
  if (first_) text += first_->required ? " " + first_->name : " [" + first_->name + "]";
  text += " [OPTIONS]\n" + about_ + "\n\n";
  const auto line = [&text](std::string left, const Option& option) {
    left.resize(std::max<std::size_t>(left.size() + 2, 18), ' ');
    text += "  " + left + option.help;
    for (std::size_t i = 0; i < option.choices.size(); ++i) text += (i ? ", " : ": ") + option.choices[i];
    if (option.number) text += " [" + show(static_cast<double>(*option.number)) + "]";
    if (option.real) text += " [" + show(*option.real) + "]";
    if (option.text && !option.text->empty()) text += std::string(" [") + option.text->text + "]";
    text += "\n";
  };
  if (first_) line(first_->name, *first_);
  for (const Option& option : options_)
    line(option.meta.empty() ? option.name : option.name + " " + option.meta, option);
  Option help;
  help.help = "this text";
  line("--help", help);
  return text;
}

int Arguments::complain(const std::string& message) const {
  if (ayatori::process_id() == 0)
    std::fprintf(stderr, "%s: %s (see %s --help)\n", name_.c_str(), message.c_str(), name_.c_str());
  return 2;
}

std::string Arguments::assign(const Option& option, const char* value) const {
  const std::string range = " takes a number from " + show(option.min) + " to " + show(option.max);
  char* end = nullptr;
  errno = 0;
  if (option.number) {
    const long long number = std::strtoll(value, &end, 10);
    if (end == value || *end || errno || static_cast<double>(number) < option.min ||
        static_cast<double>(number) > option.max)
      return option.name + range + ", not '" + value + "'";
    *option.number = number;
  } else if (option.real) {
    const double number = std::strtod(value, &end);
    if (end == value || *end || !std::isfinite(number) || number < option.min || number > option.max)
      return option.name + range + ", not '" + value + "'";
    *option.real = number;
  } else if (option.text) {
    if (std::strlen(value) >= sizeof option.text->text) return option.name + " is too long";
    bool known = option.choices.empty();
    for (const std::string& choice : option.choices) known |= choice == value;
    if (!known) return "unknown " + option.name + " '" + value + "'";
    std::strcpy(option.text->text, value);
  }
  return "";
}

std::optional<int> Arguments::parse(int argc, char** argv) {
  bool first_seen = false, only_words = false;
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    const bool negative = word[0] == '-' && first_ && first_->number && word[1] >= '0' && word[1] <= '9';
    if (only_words || word[0] != '-' || word[1] == '\0' || negative) {
      if (!first_ || first_seen) return complain(std::string("too many arguments: '") + word + "'");
      first_seen = true;
      if (const std::string wrong = assign(*first_, word); !wrong.empty()) return complain(wrong);
      continue;
    }
    if (!std::strcmp(word, "--")) {
      only_words = true;
      continue;
    }
    if (!std::strcmp(word, "--help") || !std::strcmp(word, "-h")) {
      if (ayatori::process_id() == 0) std::fputs(usage().c_str(), stdout);
      return 0;
    }
    const char* equals = std::strchr(word, '=');
    const std::string name = equals ? std::string(word, equals) : std::string(word);
    const Option* found = nullptr;
    for (const Option& option : options_)
      if (option.name == name) found = &option;
    if (!found) return complain("unknown option '" + name + "'");
    if (found->flag) {
      if (equals) return complain(name + " takes no value");
      *found->flag = true;
      continue;
    }
    if (!equals && ++i == argc) return complain(name + " needs a value");
    if (const std::string wrong = assign(*found, equals ? equals + 1 : argv[i]); !wrong.empty()) return complain(wrong);
  }
  if (first_ && first_->required && !first_seen) return complain(first_->name + " is missing");
  return std::nullopt;
}

int finish(double seconds, bool ok, std::FILE* out) {
  std::fprintf(out, "time: %.6f s\ncheck: %s\n", seconds, ok ? "ok" : "FAILED");
  if (std::fflush(out) != 0 || std::ferror(out) != 0) {
    std::fputs("the output could not be written\n", stderr);
    return 1;
  }
  return ok ? 0 : 1;
}

}  // namespace common
