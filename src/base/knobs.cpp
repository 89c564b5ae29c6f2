// SPDX-License-Identifier: Apache-2.0
#include "base/knobs.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/log.hpp"
#include "base/valgrind.hpp"

namespace ayatori::base {
namespace {

constexpr std::int64_t kKi = 1'024, kMi = kKi * kKi, kGi = kKi * kMi, kTi = kKi * kGi;
constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// ThreadSanitizer leaves programs 256 GiB at this address and its shadow everywhere else.
#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

// Ends within seconds when the host is not there, or no longer; asks nothing, since nobody is there to answer.
constexpr const char* kRemoteShell =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -- {host} {command}";

// The table. Order as printed; names are looked up by their text. min and max are inclusive.
//  name, kind, default, unit, min, max, shape, choices, simulation, help
constexpr Knob kTable[] = {
    {"AYATORI_PROCESSES", KnobKind::kInt, "1", "", 1, 64, KnobShape::kAny, nullptr, "1..6",
     "processes of the job; read by the launcher only"},
    {"AYATORI_HOSTS", KnobKind::kText, "", "", 0, 0, KnobShape::kAny, nullptr, "-",
     "hosts of the job, with commas between; read by the launcher only"},
    {"AYATORI_RSH", KnobKind::kText, kRemoteShell, "", 0, 0, KnobShape::kAny, nullptr, "-",
     "how a host is reached: a command for sh with {host} and {command} in it, which become one word each; read by the "
     "launcher only"},
    {"AYATORI_WORKERS", KnobKind::kInt, "0", "", 0, 256, KnobShape::kAny, nullptr, "1..3",
     "workers a process; 0: CPUs of the affinity mask divided by the processes of this machine, at least 1"},
    {"AYATORI_ENGINE", KnobKind::kChoice, "auto", "", 0, 0, KnobShape::kAny, "auto|uffd|mprotect", "-",
     "how accesses to remote memory are caught"},
    {"AYATORI_TRANSPORT", KnobKind::kChoice, "auto", "", 0, 0, KnobShape::kAny, "auto|shm|tcp|ucx|shm+tcp|shm+ucx", "-",
     "how processes talk to each other; auto: shm on one machine, shm+tcp on several: shared memory within each, tcp "
     "between"},
    {"AYATORI_SPACE_SIZE", KnobKind::kSize, kThreadSanitizer ? "16G" : "1T", "bytes", 16 * kMi, 4 * kTi,
     KnobShape::kAny, nullptr, "-", "size of the global space, reserved and not allocated"},
    {"AYATORI_SPACE_BASE", KnobKind::kSize, kThreadSanitizer ? "0x1000000000" : "0x200000000000", "address",
     0x100000000, 0x7f0000000000, KnobShape::kGibibytes, nullptr, "-",
     "address of the global space, the same in every process; a multiple of 1G"},
    {"AYATORI_STACK_SIZE", KnobKind::kSize, "1M", "bytes", 16 * kKi, 64 * kMi, KnobShape::kPowerOfTwo, nullptr,
     "16K..64K", "stack of a user-level thread"},
    {"AYATORI_STATS", KnobKind::kText, "", "file", 0, 0, KnobShape::kAny, nullptr, "-",
     "file that receives the statistics as JSON at the end of the job; -: a summary on standard error"},
    {"AYATORI_LABEL", KnobKind::kBool, "off", "", 0, 0, KnobShape::kAny, nullptr, "-",
     "prefix each line of output with [P], the process it comes from; read by the launcher only"},
    {"AYATORI_CHECK", KnobKind::kBool, "off", "", 0, 0, KnobShape::kAny, nullptr, "-",
     "name, at exit, globals that processes changed differently and locks of the C and C++ libraries in the space"},
    {"AYATORI_CACHE_LIMIT", KnobKind::kSize, "1G", "bytes", kMi, kNoLimit, KnobShape::kAny, nullptr, "8 pages",
     "clean pages of other processes that a process keeps"},
    {"AYATORI_BLOCK_SIZE", KnobKind::kSize, "64K", "bytes", 4 * kKi, 2 * kMi, KnobShape::kPowerOfTwo, nullptr, "4K",
     "most that one fault fetches"},
    {"AYATORI_PLACE_BLOCK", KnobKind::kSize, "0", "bytes", 0, kGi, KnobShape::kPowerOfTwo, nullptr, "64K",
     "allocations of 1 MiB and more are dealt out over the processes in blocks of it; 0: in one block a process"},
    {"AYATORI_NET_DELAY", KnobKind::kInt, "0", "ns", 0, 1'000'000'000, KnobShape::kAny, nullptr, "0..1000000",
     "delay added to every remote fetch, to see how a program does on a slower network"},
    {"AYATORI_NET_INTERFACE", KnobKind::kText, "", "", 0, 0, KnobShape::kAny, nullptr, "-",
     "where tcp listens when a job has several machines: an interface, an address or a network like 10.1.0.0/16"},
    {"AYATORI_NET_MEMORY", KnobKind::kSize, "1G", "bytes", kMi, kTi, KnobShape::kAny, nullptr, "-",
     "most that a process can get from net::allocate_memory on one machine; reserved and not allocated"},
    {"AYATORI_NET_OFFLOAD", KnobKind::kChoice, "direct", "", 0, 0, KnobShape::kAny, "direct|offload|worker", "-",
     "who hands requests of net::open()'s transport to the network: their threads, executor threads, or whoever waits "
     "or "
     "has nothing to do"},
    {"AYATORI_NET_EXECUTORS", KnobKind::kInt, "1", "", 1, 8, KnobShape::kAny, nullptr, "-",
     "command rings of AYATORI_NET_OFFLOAD=offload and worker, and the threads of the former"},
    {"AYATORI_NET_TAGS", KnobKind::kInt, "2048", "", 16, 65'536, KnobShape::kAny, nullptr, "-",
     "requests under way in a process with AYATORI_NET_OFFLOAD=offload or worker, at most: reads, writes and "
     "atomics, and as many others"},
    {"AYATORI_RPC_THREADS", KnobKind::kInt, "256", "", 1, 65'536, KnobShape::kAny, nullptr, "-",
     "handlers of ayatori::on_rpc that run at once in a process, those that wait for an RPC not counted"},
    {"AYATORI_START_TIMEOUT", KnobKind::kInt, "60", "s", 1, 3'600, KnobShape::kAny, nullptr, "-",
     "how long the processes of a job wait for each other when it starts"},
    {"AYATORI_LOG", KnobKind::kChoice, "warn", "", 0, 0, KnobShape::kAny, "error|warn|info|debug", "-",
     "what the runtime tells on standard error"},
    {"AYATORI_SYSCALLS", KnobKind::kChoice, "auto", "", 0, 0, KnobShape::kAny, "auto|dispatch|wrap", "-",
     "how system calls given space memory are made to work: Syscall User Dispatch or wrapped functions"},
    {"AYATORI_BIND", KnobKind::kChoice, "none", "", 0, 0, KnobShape::kAny, "auto|none|core", "-",
     "workers on CPUs of their own; auto: where there is one for each that no other job has claimed; core: in any "
     "case"},
    {"AYATORI_STEAL_BACKOFF", KnobKind::kChoice, "sleep", "", 0, 0, KnobShape::kAny, "sleep|none|fixed|random", "-",
     "what a worker does that found nothing to steal: growing pauses and sleeps; or, to compare, never sleeping: it "
     "tries again at once, after 20 us, after a random time up to 40 us"},
    {"AYATORI_JOIN_POLICY", KnobKind::kChoice, "stay", "", 0, 0, KnobShape::kAny, "stay|move", "-",
     "where a thread goes on that has waited in a join for one of another process: where its stack is, or where that "
     "one ended (over shm)"},
};
constexpr std::size_t kKnobs = std::size(kTable);

struct Value {
  std::uint64_t number = 0;
  const char* text = nullptr;  // kText and kChoice: owned; views of it live until the knob is set again
  bool set = false;
};
struct KnobState {
  Value values[kKnobs];
};
constinit KnobState knob_state;  // written by the start-up thread, before there is another one

void replace(Value& value, const Value& by) noexcept {
  std::free(const_cast<char*>(value.text));
  value = by;
}

std::optional<std::uint64_t> parse_digits(std::string_view text, unsigned base) noexcept {
  if (text.empty()) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : text) {
    const char lower = static_cast<char>(c | 0x20);
    unsigned digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (lower >= 'a' && lower <= 'f') digit = static_cast<unsigned>(lower - 'a') + 10;
    if (digit >= base || number > (static_cast<std::uint64_t>(kNoLimit) - digit) / base) return std::nullopt;
    number = number * base + digit;
  }
  return number;
}

std::optional<bool> parse_bool(std::string_view text) noexcept {
  for (const std::string_view yes : {"1", "on", "yes", "true"})
    if (text == yes) return true;
  for (const std::string_view no : {"0", "off", "no", "false"})
    if (text == no) return false;
  return std::nullopt;
}

bool is_choice(std::string_view choices, std::string_view word) noexcept {
  while (!choices.empty()) {
    const std::size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == word) return true;
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}

// nullopt: not in the knob's range.
std::optional<Value> parse_value(const Knob& knob, std::string_view text) noexcept {
  Value value;
  value.set = true;
  switch (knob.kind) {
    case KnobKind::kSize: {
      const auto bytes = parse_size(text);
      if (!bytes || *bytes < static_cast<std::uint64_t>(knob.min) || *bytes > static_cast<std::uint64_t>(knob.max))
        return std::nullopt;
      if (knob.shape == KnobShape::kPowerOfTwo && *bytes != 0 && !std::has_single_bit(*bytes)) return std::nullopt;
      if (knob.shape == KnobShape::kGibibytes && *bytes % kGi != 0) return std::nullopt;
      value.number = *bytes;
      return value;
    }
    case KnobKind::kInt: {
      const auto number = parse_digits(text, 10);
      if (!number || static_cast<std::int64_t>(*number) < knob.min || static_cast<std::int64_t>(*number) > knob.max)
        return std::nullopt;
      value.number = *number;
      return value;
    }
    case KnobKind::kBool: {
      const auto flag = parse_bool(text);
      if (!flag) return std::nullopt;
      value.number = *flag ? 1 : 0;
      return value;
    }
    case KnobKind::kChoice:
      if (!is_choice(knob.choices, text)) return std::nullopt;
      break;
    case KnobKind::kText: break;
  }
  return value;
}

const Knob& row(std::string_view name) noexcept {
  const Knob* knob = find_knob(name);
  AYT_CHECK(knob != nullptr, "no knob is named {}", name);
  return *knob;
}

const Value* value_in_force(const Knob& knob) noexcept {
  const Value& value = knob_state.values[&knob - kTable];
  return value.set ? &value : nullptr;
}

// The number in force of a kSize, kInt or kBool.
std::uint64_t number_of(const Knob& knob) noexcept {
  if (const Value* value = value_in_force(knob)) return value->number;
  return parse_value(knob, knob.default_text)->number;
}

// Edits that turn one name into the other (Levenshtein); names are short.
std::size_t distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kMaxName = 64;
  if (a.size() >= kMaxName || b.size() >= kMaxName) return kMaxName;
  std::size_t costs[kMaxName] = {};
  for (std::size_t j = 0; j <= b.size(); ++j) costs[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = costs[0];
    costs[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = costs[j];
      costs[j] = std::min({replaced, costs[j] + 1, costs[j - 1] + 1});
    }
  }
  return costs[b.size()];
}

void warn_unknown(std::string_view name) {
  const Knob* nearest = std::min_element(std::begin(kTable), std::end(kTable), [&](const Knob& a, const Knob& b) {
    return distance(name, a.name) < distance(name, b.name);
  });
  log_warn("{} in the environment is not a knob of Ayatori; the nearest name is {}", name, nearest->name);
}

Status set_row(const Knob& knob, std::string_view text) {
  if (Status status = check_knob_value(knob, text); !status.ok()) return status;
  Value value = *parse_value(knob, text);
  if (knob.kind == KnobKind::kChoice || knob.kind == KnobKind::kText) {
    value.text = ::strndup(text.data(), text.size());
    if (value.text == nullptr) return error_status(Code::kExhausted, "{}: out of memory", knob.name);
  }
  replace(knob_state.values[&knob - kTable], value);
  return ok_status();
}

void apply_log_level() noexcept {
  const std::string_view level = knob_string("AYATORI_LOG");
  if (level == "error") set_log_level(LogLevel::kError);
  if (level == "warn") set_log_level(LogLevel::kWarn);
  if (level == "info") set_log_level(LogLevel::kInfo);
  if (level == "debug") set_log_level(LogLevel::kDebug);
}

}  // namespace

std::span<const Knob> knob_table() noexcept { return kTable; }

const Knob* find_knob(std::string_view name) noexcept {
  for (const Knob& knob : kTable)
    if (name == knob.name) return &knob;
  return nullptr;
}

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept {
  if (text.starts_with("0x")) return parse_digits(text.substr(2), 16);
  unsigned shift = 0;
  if (!text.empty()) {
    switch (text.back() & ~0x20) {
      case 'K': shift = 10; break;
      case 'M': shift = 20; break;
      case 'G': shift = 30; break;
      case 'T': shift = 40; break;
      default: break;
    }
    if (shift != 0) text.remove_suffix(1);
  }
  const auto number = parse_digits(text, 10);
  if (!number || *number > (static_cast<std::uint64_t>(kNoLimit) >> shift)) return std::nullopt;
  return *number << shift;
}

std::string size_text(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  while (bytes != 0 && bytes % 1'024 == 0 && unit < 4) {
    bytes /= 1'024;
    ++unit;
  }
  return formatted("{}{}", bytes, kUnits[unit]);
}

std::string knob_range_text(const Knob& knob) {
  switch (knob.kind) {
    case KnobKind::kSize: {
      if (knob.min == 0 && knob.shape == KnobShape::kPowerOfTwo)
        return "0, or a power of two up to " + size_text(static_cast<std::uint64_t>(knob.max));
      std::string text = knob.max == kNoLimit ? size_text(static_cast<std::uint64_t>(knob.min)) + " or more"
                                              : size_text(static_cast<std::uint64_t>(knob.min)) + ".." +
                                                    size_text(static_cast<std::uint64_t>(knob.max));
      if (knob.shape == KnobShape::kPowerOfTwo) text += ", a power of two";
      if (knob.shape == KnobShape::kGibibytes) text += ", a multiple of 1G";
      return text;
    }
    case KnobKind::kInt: return formatted("{}..{}", knob.min, knob.max);
    case KnobKind::kBool: return "on|off";
    case KnobKind::kChoice: return knob.choices;
    case KnobKind::kText: return "any text";
  }
  return "";
}

std::string knob_value_text(const Knob& knob) {
  const Value* value = value_in_force(knob);
  if (value == nullptr) return knob.default_text;
  switch (knob.kind) {
    case KnobKind::kSize:
      return knob.unit == std::string_view("address") ? formatted("{:#x}", value->number) : size_text(value->number);
    case KnobKind::kInt: return formatted("{}", value->number);
    case KnobKind::kBool: return value->number != 0 ? "on" : "off";
    case KnobKind::kChoice:
    case KnobKind::kText: return value->text;
  }
  return "";
}

Status check_knob_value(const Knob& knob, std::string_view value) {
  if (parse_value(knob, value)) return ok_status();
  return error_status(Code::kInvalid, "{}={} is not valid: {} takes {}{}{}", knob.name, value, knob.name,
                      knob_range_text(knob), *knob.unit != '\0' ? " in " : "", knob.unit);
}

Status set_knob(std::string_view name, std::string_view value) {
  const Knob* knob = find_knob(name);
  if (knob == nullptr) return error_status(Code::kInvalid, "{} is not a knob of Ayatori", name);
  if (Status status = set_row(*knob, value); !status.ok()) return status;
  apply_log_level();
  return ok_status();
}

void reset_knobs() noexcept {
  for (Value& value : knob_state.values) replace(value, Value{});
  apply_log_level();
}

Status load_knobs() {
  if (valgrind::is_running()) {  // which looks at all of it at the start, and knows no userfaultfd
    (void)set_row(row("AYATORI_SPACE_SIZE"), "1G");
    (void)set_row(row("AYATORI_ENGINE"), "mprotect");
  }
  return load_knobs(::environ);
}

Status load_knobs(const char* const* environment) {
  constexpr std::string_view kPrefix = "AYATORI_";
  // First the log level, then the rest: the warnings below obey it.
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == text.npos) continue;
    if (const Knob* knob = find_knob(text.substr(0, equals))) {
      if (Status status = set_row(*knob, text.substr(equals + 1)); !status.ok()) {
        reset_knobs();
        return status;
      }
    }
  }
  apply_log_level();
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(kPrefix) || name.starts_with("AYATORI__") || name.starts_with("AYATORI_TEST_")) continue;
    if (find_knob(name) == nullptr) warn_unknown(name);
  }
  return ok_status();
}

std::uint64_t knob_size(std::string_view name) noexcept {
  const Knob& knob = row(name);
  AYT_CHECK(knob.kind == KnobKind::kSize, "{} is not a size", name);
  return number_of(knob);
}

std::int64_t knob_int(std::string_view name) noexcept {
  const Knob& knob = row(name);
  AYT_CHECK(knob.kind == KnobKind::kInt, "{} is not a number", name);
  return static_cast<std::int64_t>(number_of(knob));
}

bool knob_bool(std::string_view name) noexcept {
  const Knob& knob = row(name);
  AYT_CHECK(knob.kind == KnobKind::kBool, "{} is not on or off", name);
  return number_of(knob) != 0;
}

std::string_view knob_string(std::string_view name) noexcept {
  const Knob& knob = row(name);
  AYT_CHECK(knob.kind == KnobKind::kChoice || knob.kind == KnobKind::kText, "{} is not a text", name);
  const Value* value = value_in_force(knob);
  return value != nullptr ? value->text : knob.default_text;
}

}  // namespace ayatori::base
