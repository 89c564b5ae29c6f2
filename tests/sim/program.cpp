// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>

namespace ayatori::sim {

namespace {

constexpr std::uint32_t kClosureBytes = 32;  // at the top of each stack: what the parent hands the child
constexpr std::uint32_t kSpareBytes = 512;   // of a slot: red zone and saved context

class Generator {
 public:
  Generator(Random& random, const Shape& shape, int threads) : random_(random), shape_(shape), budget_(threads) {}

  Program make() {
    make_heap();
    const int root = new_thread();
    Mind mind;
    for (const int v : program_.heap_variables) mind.tokens.push_back({v, 1});
    body(root, mind, 0);
    while (!mind.handles.empty()) join(root, mind, mind.handles.size() - 1);
    for (const int v : program_.heap_variables)
      if (random_.percent(50)) read(root, v);
    return std::move(program_);
  }

 private:
  struct Token {
    int variable;
    int count;
  };
  struct Frame {
    std::uint32_t bytes;
    std::vector<int> variables;
  };
  struct Mind {  // what a thread may do
    std::vector<Token> tokens;
    std::vector<int> handles;
    std::vector<Frame> frames;
    std::uint32_t depth = kClosureBytes;
  };

  int new_thread() {
    --budget_;
    program_.threads.emplace_back();
    minds_.emplace_back();
    closures_.emplace_back();
    return static_cast<int>(program_.threads.size()) - 1;
  }
  void emit(int t, Op::Kind kind, int target, std::uint64_t value = 0) {
    program_.threads[static_cast<std::size_t>(t)].push_back({kind, static_cast<std::uint16_t>(target), value});
  }
  Variable& variable(int v) { return program_.variables[static_cast<std::size_t>(v)]; }
  int new_variable(int thread, std::uint32_t offset, std::uint8_t bytes) {
    program_.variables.push_back({thread, offset, bytes, 0});
    total_.push_back(1);
    return static_cast<int>(program_.variables.size()) - 1;
  }
  std::uint8_t word() {
    constexpr std::uint8_t kSizes[] = {1, 1, 1, 1, 2, 2, 4, 8};
    return kSizes[random_.below(8)];
  }

  void make_heap() {
    program_.mutexes = random_.between(0, 2);
    // Clusters of adjacent words; words under a mutex lie between the others.
    for (std::uint32_t page = 0; page < shape_.heap_pages; ++page) {
      std::uint32_t at = page * static_cast<std::uint32_t>(gas::kPageBytes) + random_.below(500) * 8;
      const int words = random_.between(1, 7);
      for (int i = 0; i < words; ++i) {
        const std::uint8_t bytes = word();
        at = (at + bytes - 1u) / bytes * bytes;
        if (at / gas::kPageBytes != page) break;
        const int v = new_variable(-1, at, bytes);
        const bool guarded = program_.mutexes > 0 && random_.percent(25);
        (guarded ? program_.mutex_variables : program_.heap_variables).push_back(v);
        at += bytes;
      }
    }
  }

  Token* token_of(Mind& m, int v) {
    for (Token& t : m.tokens)
      if (t.variable == v) return &t;
    return nullptr;
  }
  bool may_write(const Token& t) const { return t.count == total_[static_cast<std::size_t>(t.variable)]; }
  void drop_token(Mind& m, int v) {
    std::erase_if(m.tokens, [v](const Token& t) { return t.variable == v; });
  }
  void add_tokens(Mind& m, int v, int count) {
    if (Token* t = token_of(m, v))
      t->count += count;
    else
      m.tokens.push_back({v, count});
  }

  void read(int t, int v) { emit(t, Op::kRead, v, variable(v).value); }
  void write(int t, int v) {
    Variable& x = variable(v);
    const std::uint64_t mask = x.bytes == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * x.bytes)) - 1;
    // Small numbers too: bytes that stay equal, and a value written again, are cases of their own.
    x.value = (random_.percent(30) ? random_.below(3) : random_.next()) & mask;
    emit(t, Op::kWrite, v, x.value);
  }

  void call(int t, Mind& m) {
    std::uint32_t bytes = 32 + random_.below(200);
    if (random_.percent(35)) bytes = 500 + random_.below(random_.percent(25) ? 24'000 : 6000);
    const auto room = static_cast<std::uint32_t>(kSlotBytes - kGuardPages * gas::kPageBytes - kSpareBytes);
    bytes = bytes / 16 * 16;
    if (m.depth + bytes > room) return;
    emit(t, Op::kCall, 0, bytes);
    Frame frame{bytes, {}};
    const int words = random_.between(1, 6);
    std::uint32_t at = m.depth + (random_.percent(70) ? 0 : random_.below(bytes / 2));
    for (int i = 0; i < words; ++i) {
      const std::uint8_t size = word();
      at = (at + 2u * size - 1) / size * size;  // offsets count downwards; the word lies at [end - at, end - at + size)
      if (at > m.depth + bytes) break;
      const int v = new_variable(t, at, size);
      frame.variables.push_back(v);
      m.tokens.push_back({v, 1});
      write(t, v);
    }
    m.depth += bytes;
    m.frames.push_back(std::move(frame));
  }

  // Joins until t holds all tokens of v (Y2); they are with threads whose handles t holds, or gets by joining.
  void collect(int t, Mind& m, int v) {
    for (Token* token = token_of(m, v); token == nullptr || !may_write(*token); token = token_of(m, v))
      join(t, m, m.handles.size() - 1);
  }

  void leave_frame(int t, Mind& m) {
    const Frame frame = m.frames.back();
    for (const int v : frame.variables) {
      collect(t, m, v);
      if (random_.percent(70)) read(t, v);
      drop_token(m, v);
    }
    emit(t, Op::kReturn, 0, frame.bytes);
    m.depth -= frame.bytes;
    m.frames.pop_back();
  }

  void join(int t, Mind& m, std::size_t which) {
    const int child = m.handles[which];
    m.handles.erase(m.handles.begin() + static_cast<std::ptrdiff_t>(which));
    emit(t, Op::kJoin, child);
    const Mind ended = std::move(minds_[static_cast<std::size_t>(child)]);
    for (const Token& token : ended.tokens) add_tokens(m, token.variable, token.count);
    m.handles.insert(m.handles.end(), ended.handles.begin(), ended.handles.end());  // Y3
    for (const int v : closures_[static_cast<std::size_t>(child)]) {  // results lie on the ended thread's stack
      read(t, v);
      drop_token(m, v);
    }
    emit(t, Op::kReap, child);
    for (const Token& token : ended.tokens)
      if (token_of(m, token.variable) != nullptr && random_.percent(50)) read(t, token.variable);
    for (const Token& token : ended.tokens)
      if (Token* mine = token_of(m, token.variable); mine != nullptr && may_write(*mine) && random_.percent(25))
        write(t, token.variable);
  }

  void fork(int t, Mind& m, int level) {
    const int child = new_thread();
    const bool placed = random_.percent(12);
    Mind c;
    emit(t, Op::kAllocate, child);
    const int arguments = random_.between(1, 3);
    std::uint32_t at = 0;
    for (int i = 0; i < arguments; ++i) {
      const std::uint8_t bytes = word();
      at = (at + 2u * bytes - 1) / bytes * bytes;
      const int v = new_variable(child, at, bytes);
      closures_[static_cast<std::size_t>(child)].push_back(v);
      c.tokens.push_back({v, 1});
      write(t, v);
    }
    std::vector<Token> kept;
    for (Token& token : m.tokens) {
      const bool all = may_write(token);
      const std::uint32_t dice = random_.below(100);
      if (all && dice < 30) {
        c.tokens.push_back(token);
        continue;
      }
      if (dice > (all ? 75u : 55u)) {
        ++total_[static_cast<std::size_t>(token.variable)];
        c.tokens.push_back({token.variable, 1});
      }
      kept.push_back(token);
    }
    m.tokens = std::move(kept);
    if (!m.handles.empty() && random_.percent(15)) {
      c.handles.push_back(m.handles.back());
      m.handles.pop_back();
    }
    if (placed)
      emit(t, Op::kForkOn, child, random_.below(static_cast<std::uint32_t>(shape_.processes)));
    else
      emit(t, Op::kFork, child);
    m.handles.push_back(child);
    for (const int v : closures_[static_cast<std::size_t>(child)]) read(child, v);
    body(child, c, level + 1);
    minds_[static_cast<std::size_t>(child)] = std::move(c);
  }

  void section(int t) {
    const int mutex = static_cast<int>(random_.below(static_cast<std::uint32_t>(program_.mutexes)));
    emit(t, Op::kLock, mutex);
    const std::size_t n = program_.mutex_variables.size();
    for (std::size_t i = 0; i < n; ++i)
      if (static_cast<int>(i) % program_.mutexes == mutex && random_.percent(60))
        emit(t, Op::kBump, program_.mutex_variables[i], random_.next());
    if (random_.percent(30)) emit(t, Op::kCompute, 0, 1 + random_.below(20));
    emit(t, Op::kUnlock, mutex);
  }

  // Reads and writes of variables that t holds tokens of; several in a row keep to one variable and its neighbours.
  void access(int t, Mind& m, int times) {
    if (m.tokens.empty()) return;
    const auto n = static_cast<std::uint32_t>(m.tokens.size());
    const std::uint32_t first = random_.below(n);
    for (int i = 0; i < times; ++i) {
      const Token token = m.tokens[(first + random_.below(3)) % n];
      if (may_write(token) && random_.percent(60))
        write(t, token.variable);
      else
        read(t, token.variable);
    }
  }

  void body(int t, Mind& m, int level) {
    const int ops = level == 0 ? random_.between(10, 50) : random_.between(4, random_.percent(30) ? 60 : 20);
    if (random_.percent(80)) call(t, m);
    for (int i = 0; i < ops; ++i) {
      const std::uint32_t dice = random_.below(100);
      if (dice < 34) {
        access(t, m, random_.percent(20) ? random_.between(2, 12) : 1);
      } else if (dice < 42) {
        call(t, m);
      } else if (dice < 50) {
        if (!m.frames.empty()) leave_frame(t, m);
      } else if (dice < 72) {
        if (budget_ > 0 && level < 7) fork(t, m, level);
      } else if (dice < 84) {
        if (!m.handles.empty()) join(t, m, random_.below(static_cast<std::uint32_t>(m.handles.size())));
      } else if (dice < 90) {
        emit(t, Op::kCompute, 0, 1 + random_.below(random_.percent(10) ? 400 : 20));
      } else if (dice < 93) {
        emit(t, Op::kYield, 0);
      } else if (program_.mutexes > 0) {
        section(t);
      }
    }
    while (!m.frames.empty()) leave_frame(t, m);
    while (!m.handles.empty() && random_.percent(70)) join(t, m, m.handles.size() - 1);
    for (const int v : closures_[static_cast<std::size_t>(t)]) {  // as a frame (Y2)
      collect(t, m, v);
      if (random_.percent(60)) write(t, v);
    }
  }

  Random& random_;
  const Shape& shape_;
  int budget_;
  Program program_;
  std::vector<int> total_;                  // tokens of each variable
  std::vector<Mind> minds_;                 // of ended threads
  std::vector<std::vector<int>> closures_;  // variables at the top of each thread's stack
};

}  // namespace

Program make_program(Random& random, const Shape& shape, int threads) {
  return Generator(random, shape, threads).make();
}

}  // namespace ayatori::sim
