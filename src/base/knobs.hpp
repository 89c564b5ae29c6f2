// SPDX-License-Identifier: Apache-2.0
// The settings of the runtime: one table (knobs.cpp), one row a knob; the value in force is the environment's, else the
// default. load_knobs() runs once, on the start-up thread, before the program's own initialisers; afterwards the table
// is read-only and every getter may be called on any OS thread.
//
// K1. A getter named with an unknown name or of the wrong kind is a programmer's error (check), a bad value in the
//     environment the user's (status that names knob, value and range).
// K2. Before load_knobs() the defaults are in force: nothing here needs a dynamic initialiser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace ayatori::base {

enum class KnobKind : std::uint8_t {
  kSize,    // bytes, or a number with K, M, G, T (powers of 1,024)
  kInt,     // a decimal number
  kBool,    // 0/1, on/off, yes/no, true/false
  kChoice,  // one of a list of words
  kText,    // anything
};

// What a size must be beyond its range.
enum class KnobShape : std::uint8_t { kAny, kPowerOfTwo, kGibibytes };

struct Knob {
  const char* name;
  KnobKind kind;
  const char* default_text;
  const char* unit;        // "bytes", "ns", "" ...
  std::int64_t min, max;   // kSize and kInt
  KnobShape shape;         // kSize
  const char* choices;     // kChoice: words with '|' between
  const char* simulation;  // what simulation may set it to, "-": nothing
  const char* help;
};

std::span<const Knob> knob_table() noexcept;
std::string knob_value_text(const Knob& knob);  // in force, as a user would write it
std::string knob_range_text(const Knob& knob);

// Reads the environment; a bad value leaves the table at its defaults. Warns (once, log_warn) of AYATORI_* variables that
// are no knob, with the nearest name; AYATORI__* (two underscores) are the runtime's own hand-overs between processes,
// AYATORI_TEST_* switches of tests: neither is looked at.
Status load_knobs();
Status load_knobs(const char* const* environment);

// Sets one knob as the environment would (options of a program, tests). Start-up thread only.
Status set_knob(std::string_view name, std::string_view value);
void reset_knobs() noexcept;  // back to the defaults (tests)

std::uint64_t knob_size(std::string_view name) noexcept;
std::int64_t knob_int(std::string_view name) noexcept;
bool knob_bool(std::string_view name) noexcept;
// kText and kChoice; the view lives until the knob is set again, that is after start-up for good.
std::string_view knob_string(std::string_view name) noexcept;

// "64K" -> 65536; nullopt: not a size, or over 2^63-1.
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;
std::string size_text(std::uint64_t bytes);  // 65536 -> "64K", 65537 -> "65537"

// Checks `value` against the knob's row without setting it (the launcher's options).
Status check_knob_value(const Knob& knob, std::string_view value);
const Knob* find_knob(std::string_view name) noexcept;  // nullptr: no such knob

}  // namespace ayatori::base
