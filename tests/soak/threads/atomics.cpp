// SPDX-License-Identifier: Apache-2.0
// Kinds of algorithms on ayatori::atomic: ticket, messages, words.
#include <array>

#include "soak.hpp"

namespace soak {
namespace {

// ---------------------------------------------------------------------------------------------------- ticket

class TicketLock {
 public:
  void lock() {
    const std::uint32_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    while (serving_.load(std::memory_order_acquire) != mine)
      ayatori::this_thread::yield();  // pairs with unlock's store
  }
  void unlock() {  // only the holder writes it; release: what it did is seen by the next one
    serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  ayatori::atomic<std::uint32_t> next_{0}, serving_{0};
};

void ticket(const Run& run) {
  struct State {
    TicketLock lock;
    long count = 0;
    std::vector<int> order;
    TicketLock other;
    std::string text;
  };
  const auto state = std::make_unique<State>();
  constexpr int kThreads = 5;
  const int each = run.scaled(40);
  {
    Crew crew;
    for (int t = 0; t < kThreads; ++t)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        for (int i = 0; i < each; ++i) {
          const u64 r = mix(run.seed, static_cast<u64>(t * 10000 + i));
          {
            const std::lock_guard lock(state->lock);
            ++state->count;
            state->order.push_back(t);
            sometimes_yield(r);
          }
          if (r % 3 == 0) {
            const std::lock_guard lock(state->other);
            state->text += static_cast<char>('a' + t);
          }
        }
      });
  }
  expect(state->count, kThreads * each, "a counter under a ticket lock", run.seed);
  std::array<int, kThreads> seen = {};
  for (const int t : state->order)
    if (expect(t >= 0 && t < kThreads, true, "an entry under a ticket lock", run.seed))
      ++seen[static_cast<std::size_t>(t)];
  for (const int n : seen) expect(n, each, "the entries of one thread", run.seed);
  std::size_t want = 0;
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < each; ++i) want += mix(run.seed, static_cast<u64>(t * 10000 + i)) % 3 == 0;
  expect(state->text.size(), want, "letters under a ticket lock", run.seed);
}

// ---------------------------------------------------------------------------------------------------- messages

// Mailboxes of one pointer: whoever takes the letter sees all of it.
struct Letter {
  u64 number = 0;
  std::vector<u64> body;
  Letter* next = nullptr;
};

void messages(const Run& run) {
  constexpr int kPairs = 3;
  const int letters = run.scaled(100);
  std::array<ayatori::atomic<Letter*>, kPairs> boxes;
  ayatori::atomic<Letter*> heap{nullptr};  // what was read, pushed by many, taken by one at the end
  std::vector<u64> sums(kPairs);
  {
    Crew crew;
    for (int p = 0; p < kPairs; ++p) {
      ayatori::atomic<Letter*>& box = boxes[static_cast<std::size_t>(p)];
      crew.start(mix(run.seed, static_cast<u64>(p)), [&, p] {
        for (int i = 0; i < letters; ++i) {
          const u64 r = mix(run.seed, static_cast<u64>(p * 10000 + i));
          auto* const letter = new Letter{r, std::vector<u64>(r % 500 + 1, r), nullptr};
          Letter* empty = nullptr;
          // release: the letter is written before it is there; pairs with the exchange of the reader
          while (!box.compare_exchange_weak(empty, letter, std::memory_order_release)) {
            empty = nullptr;
            ayatori::this_thread::yield();
          }
        }
      });
      crew.start(mix(run.seed, 50 + static_cast<u64>(p)), [&, p] {
        for (int i = 0; i < letters; ++i) {
          Letter* letter;
          while ((letter = box.exchange(nullptr, std::memory_order_acq_rel)) == nullptr) ayatori::this_thread::yield();
          const u64 want = mix(run.seed, static_cast<u64>(p * 10000 + i));
          expect(letter->number, want, "the number of a letter", want);
          expect(letter->body.size() == want % 500 + 1 && letter->body.back() == want, true, "the body of a letter",
                 want);
          sums[static_cast<std::size_t>(p)] += letter->number;
          letter->next = heap.load(std::memory_order_relaxed);  // only compared
          while (!heap.compare_exchange_weak(letter->next, letter, std::memory_order_acq_rel)) {
          }
        }
      });
    }
  }
  long count = 0;
  u64 sum = 0, want = 0;
  for (Letter* l = heap.load(); l != nullptr; ++count) {
    sum += l->body.front();
    delete std::exchange(l, l->next);
  }
  for (const u64 s : sums) want += s;
  expect(count, kPairs * letters, "letters on the heap", run.seed);
  expect(sum, want, "the sum of the letters", run.seed);
}

// ---------------------------------------------------------------------------------------------------- words

// Every operation and size; neighbours of an atomic are ordinary memory that others write.
void words(const Run& run) {
  struct State {
    Byte before[8] = {};
    ayatori::atomic<std::uint16_t> small{0};
    ayatori::atomic<int> four{0};
    Byte between[8] = {};
    ayatori::atomic<u64> bits{0}, toggled{0}, greatest{0};
    ayatori::atomic<double> real{0};
    ayatori::atomic<bool> flag{false};
    u64 after[8] = {};
  };
  const auto state = std::make_unique<State>();
  constexpr int kThreads = 8;
  const int each = run.scaled(120);
  std::vector<std::vector<u64>> tickets(kThreads);
  ayatori::atomic<u64> counter{0};
  {
    Crew crew;
    for (int t = 0; t < kThreads; ++t)
      crew.start(mix(run.seed, static_cast<u64>(t)), [&, t] {
        const auto me = static_cast<std::size_t>(t);
        for (int i = 0; i < each; ++i) {
          const u64 r = mix(run.seed, static_cast<u64>(t * 10000 + i));
          const auto order = r % 2 == 0 ? std::memory_order_relaxed : std::memory_order_seq_cst;
          state->before[me] = static_cast<Byte>(state->before[me] + 1);
          state->small.fetch_add(3, order);
          state->four.fetch_sub(1, order);
          state->between[me] = static_cast<Byte>(state->between[me] + 2);
          state->bits.fetch_or(r, order);
          state->toggled.fetch_xor(r, order);
          u64 seen = state->greatest.load(std::memory_order_relaxed);
          while (seen < r && !state->greatest.compare_exchange_weak(seen, r, order)) {
          }
          state->real.fetch_add(0.5, order);
          ++state->after[me];
          tickets[me].push_back(counter.fetch_add(1, order));
          sometimes_yield(r >> 8);
        }
        if (t == 0) state->flag = true;
      });
    state->flag.wait(false);
  }
  u64 bits = 0, toggled = 0, greatest = 0;
  for (int t = 0; t < kThreads; ++t)
    for (int i = 0; i < each; ++i) {
      const u64 r = mix(run.seed, static_cast<u64>(t * 10000 + i));
      bits |= r;
      toggled ^= r;
      greatest = std::max(greatest, r);
    }
  expect(state->small.load(), static_cast<std::uint16_t>(3 * kThreads * each), "a sum in 16 bits", run.seed);
  expect(state->four.load(), -kThreads * each, "a difference", run.seed);
  expect(state->bits.load(), bits, "an or", run.seed);
  expect(state->toggled.load(), toggled, "an exclusive or", run.seed);
  expect(state->greatest.load(), greatest, "a maximum", run.seed);
  expect(state->real.load() == 0.5 * kThreads * each, true, "a sum of halves", run.seed);
  std::vector<Byte> drawn(static_cast<std::size_t>(kThreads * each));
  for (std::size_t t = 0; t < kThreads; ++t) {
    expect(state->before[t], static_cast<Byte>(each), "a byte before atomics", run.seed);
    expect(state->between[t], static_cast<Byte>(2 * each), "a byte between atomics", run.seed);
    expect(state->after[t], static_cast<u64>(each), "a word after atomics", run.seed);
    for (std::size_t i = 0; i < tickets[t].size(); ++i) {
      if (i > 0) expect(tickets[t][i] > tickets[t][i - 1], true, "whether numbers drawn grow", run.seed);
      if (expect(tickets[t][i] < drawn.size(), true, "a number drawn", run.seed))
        expect(drawn[static_cast<std::size_t>(tickets[t][i])]++, 0, "who has drawn a number before", tickets[t][i]);
    }
  }
}

constexpr Kind kKinds[] = {{"ticket", ticket}, {"messages", messages}, {"words", words}};
}  // namespace

std::span<const Kind> atomic_kinds() { return kKinds; }
}  // namespace soak
