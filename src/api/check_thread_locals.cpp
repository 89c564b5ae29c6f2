// SPDX-License-Identifier: Apache-2.0
// Does a thread keep the address of a thread_local while it goes on on another worker? What it reads and writes there is
// then the variable of an OS thread that runs others, or, in another process, whatever lies at that address. When a
// thread that was suspended on one worker is about to run on another one, the words on its stack, where its registers
// were saved too, are compared with the thread_locals of the worker that it leaves.
//
// L1. A word counts if it is an address inside such a variable. That the thread will use it is not known: one that is left
//     over in a frame is named as well.
// L2. Variables of the runtime, the C and the C++ library are not the program's. Not errno either: the runtime's own code
//     leaves its address in registers, and <ayatori/errno.h> keeps compilers from keeping it.
// L3. Findings are noted in memory shared by all members, without locks, on native stacks; who claims a row fills it,
//     readers come after the run.
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "api/check_parts.hpp"
#include "base/format.hpp"
#include "gas/space.hpp"
#include "net/bootstrap/bootstrap.hpp"
#include "tasks/dump_parts.hpp"
#include "tasks/unwind.hpp"
#include "ult/scheduler.hpp"

namespace ayatori::api::check_mode {
namespace {

constexpr std::size_t kImagesMax = 32;
constexpr int kRows = 256;
constexpr int kStepsMax = 200;  // frames that are looked at

struct Variable {
  std::size_t image;   // number in Symbols::images()
  std::size_t offset;  // in the image's block of each OS thread
  std::size_t bytes;
  const char* name;
};

struct Block {  // an image's thread_locals of one worker
  std::atomic<std::uintptr_t> begin{0};
};

struct Row {
  std::atomic<std::uint64_t> key{0};  // 0: free
  std::uint32_t variable;             // of State::variables; as the next two written by the claimer
  std::uint8_t there, here;           // processes
  std::uintptr_t keeper;
  std::atomic<std::uint64_t> times{0};
};

struct State {
  std::vector<Variable> variables;  // by image and offset. Constant after reserve_thread_locals(), as the next three.
  std::vector<std::uintptr_t> bases;
  std::vector<std::size_t> extents;  // where the last variable of each image ends
  Block* blocks = nullptr;           // [process][worker][image]
  Row* rows = nullptr;
  std::atomic<std::uint64_t>* overflow = nullptr;
};
State* state = nullptr;

Block& block_of(int process, int worker, std::size_t image) {
  const auto at = static_cast<std::size_t>(process) * ult::kMaxWorkers + static_cast<std::size_t>(worker);
  return state->blocks[at * kImagesMax + image];
}

int note_block(dl_phdr_info* info, std::size_t, void* argument) {
  if (!info->dlpi_tls_data) return 0;
  const int worker = *static_cast<int*>(argument);
  for (std::size_t i = 0; i < state->bases.size(); ++i)
    if (state->bases[i] == info->dlpi_addr)
      block_of(net::bootstrap::job().process_id, worker, i)
          .begin.store(reinterpret_cast<std::uintptr_t>(info->dlpi_tls_data), std::memory_order_relaxed);
  return 0;
}

// Number of the variable that `word` is an address of, at that worker; or -1.
int variable_at(std::uint64_t word, int process, int worker) {
  for (std::size_t i = 0; i < state->bases.size(); ++i) {
    // A worker that suspended a thread had noted its blocks; the thread's way here orders it.
    const std::uintptr_t begin = block_of(process, worker, i).begin.load(std::memory_order_relaxed);
    if (begin == 0 || word - begin >= state->extents[i]) continue;
    const std::size_t offset = word - begin;
    const auto after = std::upper_bound(state->variables.begin(), state->variables.end(), std::pair(i, offset),
                                        [](const std::pair<std::size_t, std::size_t>& at, const Variable& v) {
                                          return at < std::pair(v.image, v.offset);
                                        });
    if (after == state->variables.begin()) continue;
    const Variable& v = *(after - 1);
    if (v.image == i && offset - v.offset < v.bytes) return static_cast<int>(&v - state->variables.data());
  }
  return -1;
}

// The code that keeps `word`, which lies at `slot`: the function in whose frame that is, or, where a function that it has
// called saved a register there, the outermost one that has the word in a register. 0: none of them, so what the thread was
// given lies there.
std::uintptr_t keeper_of(std::uint64_t word, std::uint64_t slot, const ult::Descriptor& d) {
  constexpr int kSaved[] = {tasks::Frame::kRbx,     tasks::Frame::kRbp,     tasks::Frame::kR12,
                            tasks::Frame::kR12 + 1, tasks::Frame::kR12 + 2, tasks::Frame::kR12 + 3};
  tasks::dump::OwnMemory memory;
  tasks::Frame frame;
  if (!tasks::frame_of_saved(reinterpret_cast<std::uintptr_t>(d.sp), memory, frame)) return 0;
  std::uintptr_t keeper = 0;
  bool past = slot < frame.sp();  // in the context that was saved
  for (int step = 0; step < kStepsMax; ++step) {
    const bool in_register =
        std::any_of(std::begin(kSaved), std::end(kSaved), [&frame, word](int r) { return frame.registers[r] == word; });
    std::uint64_t at[1];
    if (tasks::walk(frame, memory, at) != 1) break;
    if (past && !in_register) break;
    if (past || slot < frame.sp()) keeper = at[0];
    past = past || slot < frame.sp();
  }
  return keeper;
}

void note(int variable, std::uintptr_t keeper, int there) {
  const std::uint64_t key = ((static_cast<std::uint64_t>(variable) + 1) ^ keeper) * 0x9e3779b97f4a7c15 | 1;
  for (std::uint64_t i = 0; i < kRows; ++i) {
    Row& row = state->rows[((key >> 32) + i) % kRows];
    std::uint64_t found = row.key.load(std::memory_order_relaxed);
    if (found == 0 && row.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) {
      found = key;
      row.variable = static_cast<std::uint32_t>(variable);
      row.there = static_cast<std::uint8_t>(there);
      row.here = static_cast<std::uint8_t>(net::bootstrap::job().process_id);
      row.keeper = keeper;
    }
    if (found != key) continue;
    row.times.fetch_add(1, std::memory_order_relaxed);  // counters; read after the run
    return;
  }
  state->overflow->fetch_add(1, std::memory_order_relaxed);
}

// ult::Hooks::moved
void look_at(const ult::Descriptor* d, int process, int worker) {
  // L1: what is read here may be poisoned or unknown to a sanitizer; the system view is neither.
  const auto low = reinterpret_cast<std::uintptr_t>(d->sp);
  const auto top = reinterpret_cast<std::uintptr_t>(ult::stack_top(d));
  const std::byte* const view = gas::system_view(net::bootstrap::job().process_id) + gas::offset_of(d->sp);
  for (std::uintptr_t slot = (low + 7) & ~std::uintptr_t{7}; slot + 8 <= top; slot += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, view + (slot - low), sizeof word);
    if (const int variable = variable_at(word, process, worker); variable >= 0)
      note(variable, keeper_of(word, slot, *d), process);
  }
}

void add_variables(base::Symbols& symbols, std::size_t number) {
  base::Symbols::Image& image = *symbols.images()[number];
  if (is_system_library(image.path)) return;
  symbols.load(image);
  for (const base::Symbol& s : image.thread_locals)
    if (s.bytes != 0 && !is_ours(s.name)) state->variables.push_back({number, s.address, s.bytes, s.name});
}

// Whom a line may name; "": nobody, as it is the runtime or a library that reads such addresses anew.
std::string name_of(std::uintptr_t keeper, base::Symbols& symbols) {
  if (keeper == 0) return "what the thread was given";
  const auto* const image = symbols.image_at(keeper);
  const base::Symbol* const s = symbols.find(keeper, true);
  if (!image || is_system_library(image->path) || (s && is_ours(s->name))) return "";
  return s ? base::demangled(s->name) : symbols.describe_code(keeper);
}

}  // namespace

void reserve_thread_locals(base::Symbols& symbols, int processes) {
  state = new State;
  const std::size_t images = std::min(symbols.images().size(), kImagesMax);
  for (std::size_t i = 0; i < images; ++i) {
    state->bases.push_back(symbols.images()[i]->base);
    add_variables(symbols, i);
  }
  std::sort(state->variables.begin(), state->variables.end(), [](const Variable& a, const Variable& b) {
    return std::pair(a.image, a.offset) < std::pair(b.image, b.offset);
  });
  state->extents.assign(images, 0);
  for (const Variable& v : state->variables)
    state->extents[v.image] = std::max(state->extents[v.image], v.offset + v.bytes);
  const std::size_t blocks = static_cast<std::size_t>(processes) * ult::kMaxWorkers * kImagesMax;
  state->blocks = static_cast<Block*>(gas::shared_map(blocks * sizeof(Block), "the checking mode"));
  state->rows = static_cast<Row*>(gas::shared_map(kRows * sizeof(Row) + sizeof *state->overflow, "the checking mode"));
  state->overflow = reinterpret_cast<std::atomic<std::uint64_t>*>(state->rows + kRows);
}

void (*thread_moved_hook())(const ult::Descriptor*, int process, int worker) {
  return state && !state->variables.empty() ? &look_at : nullptr;
}

void enter_worker(int worker) {
  if (state) dl_iterate_phdr(note_block, &worker);
}

void report_thread_locals(base::Symbols& symbols) {
  if (!state) return;
  struct Finding {
    std::uint64_t times = 0;
    bool far = false;
  };
  std::map<std::pair<std::uint32_t, std::string>, Finding> findings;
  for (int i = 0; i < kRows; ++i) {
    const Row& row = state->rows[i];
    if (row.key.load(std::memory_order_relaxed) == 0) continue;
    const std::string keeper = name_of(row.keeper, symbols);
    if (keeper.empty()) continue;
    Finding& f = findings[{row.variable, keeper}];
    f.times += row.times.load(std::memory_order_relaxed);
    f.far = f.far || row.there != row.here;
  }
  int lines = 0;
  for (const auto& [where, f] : findings) {
    if (++lines > kLinesMax) continue;
    say(base::formatted(
        "thread_local '{}': its address was kept in {} while the thread went on on another worker{} ({} time{}), whose "
        "variable is another one; take the address anew after whatever may wait, or use ayatori::local",
        base::demangled(state->variables[where.first].name), where.second, f.far ? " or process" : "", f.times,
        f.times == 1 ? "" : "s"));
  }
  if (lines > kLinesMax) say(base::formatted("... and {} more such thread_locals", lines - kLinesMax));
  if (const auto more = state->overflow->load(std::memory_order_relaxed))
    say(base::formatted("... and {} more such findings", more));
}

}  // namespace ayatori::api::check_mode
