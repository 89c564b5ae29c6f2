// SPDX-License-Identifier: Apache-2.0
// Which variables of the program did processes change differently? Each member takes a fingerprint of every variable in
// the symbol tables when the run starts and when it has ended, in memory shared by all; process 0 compares.
//
// V1. A variable that no process changed during the run is not looked at, whatever main made of it before.
// V2. Variables of the runtime, the C and the C++ library are not the program's.
// V3. A function-local static counts when those processes that initialised it hold different values: a constant table
//     that each process makes for itself is no mistake.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/check_parts.hpp"
#include "base/format.hpp"
#include "gas/space.hpp"

namespace ayatori::api::check_mode {
namespace {

struct Print {                  // of one variable in one process
  std::uint64_t before, after;  // hashes
  std::uint64_t value;          // its first 8 bytes at the end
};

struct Variable {
  base::Symbol symbol;
  const std::string* library;    // "" for the program
  std::size_t guard = SIZE_MAX;  // number of its guard variable
  bool is_guard = false;
};

struct Globals {
  std::vector<Variable> variables;
  Print* prints = nullptr;  // [process][variable]
  int processes = 1;
  bool stripped = false;
};
Globals* globals = nullptr;

}  // namespace

bool is_ours(std::string_view name) {
  for (const std::string_view prefix : {"_ZN7ayatori",
                                        "_ZZN7ayatori",
                                        "_ZGVN7ayatori",
                                        "_ZGVZN7ayatori",
                                        "_ZZNK7ayatori",
                                        "_ZL7ayatori",
                                        "ayt_",
                                        "ayatori_",
                                        "_ZN3fmt",
                                        "_ZGVN3fmt",
                                        "_ZZN3fmt",
                                        "_ZGVZN3fmt",
                                        "_ZSt",
                                        "_ZNSt",
                                        "_ZZNSt",
                                        "_ZGVNSt",
                                        "_ZGVZNSt",
                                        "_ZGVSt",
                                        "_ZN9__gnu_cxx",
                                        "_ZN10__cxxabiv1",
                                        "__",
                                        "completed.",
                                        "DW.ref",
                                        "_ZTI",
                                        "_ZTV",
                                        "_ZTS",
                                        ".L"})
    if (name.starts_with(prefix)) return true;
  // The library's wrappers of C functions keep the function behind them in a static `hidden` (dsm/fault/interpose.hpp).
  return name.starts_with("_ZZ") && name.ends_with("E6hidden");
}

namespace {

// A variable of a system library that the linker has copied into the program: stdout, std::cout.
bool is_copy_of_system(const base::Symbol& symbol) {
  if (!symbol.copied) return false;
  for (const char* library : {"libc.so.6", "libstdc++.so.6", "libm.so.6"}) {
    void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    const bool found = dlsym(handle, symbol.name) != nullptr;
    dlclose(handle);
    if (found) return true;
  }
  return false;
}

// Sanitizers put guards between variables, which some compilers count in their sizes: these two may read them.
// A hash and no copy to compare with: the variables may be large.
__attribute__((no_sanitize("address"))) std::uint64_t fingerprint(const base::Symbol& symbol) {
  const auto* at = reinterpret_cast<const unsigned char*>(symbol.address);  // NOLINT
  std::uint64_t hash = 0xcbf29ce484222325;
  std::size_t left = symbol.bytes;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, at, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  for (; left > 0; --left, ++at) hash = (hash ^ *at) * 0x100000001b3;
  return hash;
}

__attribute__((no_sanitize("address"))) std::uint64_t first_bytes(const base::Symbol& symbol) {
  const auto* at = reinterpret_cast<const volatile unsigned char*>(symbol.address);  // NOLINT
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8 && i < symbol.bytes; ++i) value |= std::uint64_t{at[i]} << (8 * i);
  return value;
}

void add_image(base::Symbols& symbols, base::Symbols::Image& image) {
  symbols.load(image);
  for (std::size_t i = 0; i < image.symbols.size(); ++i) {
    const base::Symbol& s = image.symbols[i];
    if (s.code || s.bytes == 0 || is_ours(s.name)) continue;
    // Of aliases the last one (base::Symbols, N2).
    if (i + 1 < image.symbols.size() && image.symbols[i + 1].address == s.address && !image.symbols[i + 1].code)
      continue;
    const bool writable = std::any_of(image.writable.begin(), image.writable.end(), [&s](const auto& range) {
      return s.address >= range.begin && s.address + s.bytes <= range.end;
    });
    if (!writable || is_copy_of_system(s)) continue;
    Variable v;
    v.symbol = s;
    v.library = &image.path;
    v.is_guard = std::string_view(s.name).starts_with("_ZGV");
    globals->variables.push_back(v);
  }
}

Print& print_of(int process, std::size_t variable) {
  return globals->prints[static_cast<std::size_t>(process) * globals->variables.size() + variable];
}

std::uint64_t changers(std::size_t variable, std::uint64_t processes) {
  std::uint64_t set = 0;
  for (int p = 0; p < globals->processes; ++p)
    if ((processes >> p & 1) != 0 && print_of(p, variable).before != print_of(p, variable).after)
      set |= std::uint64_t{1} << p;
  return set;
}

bool all_equal(std::size_t variable, std::uint64_t processes) {
  const std::uint64_t* first = nullptr;
  for (int p = 0; p < globals->processes; ++p) {
    if ((processes >> p & 1) == 0) continue;
    const std::uint64_t& after = print_of(p, variable).after;
    if (first && *first != after) return false;
    first = &after;
  }
  return true;
}

std::string values(std::size_t variable, std::uint64_t processes) {
  if (globals->variables[variable].symbol.bytes > 8) return "";
  std::string text;
  constexpr int kShown = 4;
  int shown = 0;
  for (int p = 0; p < globals->processes && shown <= kShown; ++p) {
    if ((processes >> p & 1) == 0) continue;
    text += text.empty() ? " (" : ", ";
    text += shown++ == kShown ? "..." : base::formatted("{}: 0x{:x}", p, print_of(p, variable).value);
  }
  return text + ")";
}

}  // namespace

void reserve_globals(base::Symbols& symbols, int processes) {
  globals = new Globals;
  globals->processes = processes;
  for (auto& image : symbols.images())
    if (!is_system_library(image->path)) add_image(symbols, *image);
  globals->stripped =
      symbols.images().empty() || symbols.images().front()->symbols.empty() || !symbols.images().front()->complete;
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < globals->variables.size(); ++i) by_name.emplace(globals->variables[i].symbol.name, i);
  for (std::size_t i = 0; i < globals->variables.size(); ++i) {
    Variable& v = globals->variables[i];
    if (v.is_guard) continue;
    std::string guard = v.symbol.name;
    if (!guard.starts_with("_Z")) continue;
    guard.insert(2, "GV");
    if (const auto found = by_name.find(guard); found != by_name.end()) v.guard = found->second;
  }
  const std::size_t bytes = globals->variables.size() * static_cast<std::size_t>(processes) * sizeof(Print);
  if (bytes != 0) globals->prints = static_cast<Print*>(gas::shared_map(bytes, "the checking mode"));
}

void begin_globals(int self) {
  for (std::size_t i = 0; i < globals->variables.size(); ++i)
    print_of(self, i).before = fingerprint(globals->variables[i].symbol);
}

void publish_globals(int self) {
  for (std::size_t i = 0; i < globals->variables.size(); ++i) {
    Print& print = print_of(self, i);
    const base::Symbol& symbol = globals->variables[i].symbol;
    print.after = fingerprint(symbol);
    print.value = first_bytes(symbol);
  }
}

void report_globals(std::uint64_t published) {
  if (globals->processes == 1) say("one process: globals cannot differ; run with -n 2 or more");
  if (globals->stripped) say("the program has no symbol table (stripped): not all of its globals were looked at");
  int lines = 0;
  for (std::size_t i = 0; i < globals->variables.size(); ++i) {
    const Variable& v = globals->variables[i];
    if (v.is_guard) continue;
    const bool is_static = v.guard != SIZE_MAX || std::string_view(v.symbol.name).starts_with("_ZZ");
    const std::uint64_t initialised = v.guard != SIZE_MAX ? changers(v.guard, published) : 0;
    const std::uint64_t changed = changers(i, published) | initialised;
    if (changed == 0) continue;                                             // V1
    const std::uint64_t compared = initialised != 0 ? changed : published;  // V3
    if (all_equal(i, compared)) continue;
    if (++lines > kLinesMax) continue;
    const std::size_t slash = v.library->rfind('/');
    const std::string where = v.library->empty() ? "" : " of " + v.library->substr(slash + 1);
    const bool alike = all_equal(i, changed);
    say(base::formatted("{} '{}'{} ({} bytes): changed {}by {}{}{}; {}", is_static ? "function-local static" : "global",
                        base::demangled(v.symbol.name), where, v.symbol.bytes, alike ? "" : "differently ",
                        list_of(changed), alike ? " only" : "", values(i, published),
                        is_static ? "statics are per process: use ayatori::global<T> at namespace scope"
                                  : "plain globals are per process: use ayatori::global<T>"));
  }
  if (lines > kLinesMax) say(base::formatted("... and {} more variables", lines - kLinesMax));
}

}  // namespace ayatori::api::check_mode
