// SPDX-License-Identifier: Apache-2.0
#include "dsm/peers.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/check.hpp"
#include "dsm/diff.hpp"
#include "net/job_network.hpp"

namespace ayatori::dsm {
namespace {

using gas::PageIndex;
using gas::SlotIndex;

constexpr net::HandlerId kReadHandler = net::kDsmHandlers;
constexpr net::HandlerId kDiffsHandler = net::kDsmHandlers + 1;
constexpr net::HandlerId kWordHandler = net::kDsmHandlers + 2;
constexpr std::uint32_t kHere = ~std::uint32_t{0};  // in an answer, where a holder's number stands otherwise

}  // namespace

// Calls f(the page in this process's memory) while this process holds it, under its slot's lock if it has one. Returns
// kHere, or who holds it as far as is known here.
template <class F>
Peers::Holder Peers::at_holder(PageIndex page, F&& f) {
  const int self = gas::layout().self;
  if (const SlotIndex slot = gas::slot_of(page); slot != gas::kNoSlot) {
    gas::SlotEntry& entry = gas::slot_entry(slot);
    const std::lock_guard guard(entry.lock);
    const std::uint32_t holder = entry.owner.load(std::memory_order_relaxed);
    if (holder != static_cast<std::uint32_t>(self)) return {holder, entry.moves};
    f(gas::page_in(self, page));
  } else {
    AYT_CHECK(gas::learn_own(page), "a process asked for page {}, which is not held here", page);
    f(gas::page_in(self, page));
  }
  return {kHere, 0};
}

int Peers::follow(SlotIndex slot, const Holder& holder, int asked) const noexcept {
  AYT_CHECK(holder.process < static_cast<std::uint32_t>(transport_.processes()), "a peer named process {}",
            holder.process);
  AYT_CHECK(slot < gas::layout().slots, "a peer named stack {}", slot);
  gas::SlotEntry& entry = gas::slot_entry(slot);
  const std::lock_guard guard(entry.lock);
  const auto self = static_cast<std::uint32_t>(gas::layout().self);
  if (holder.moves > entry.moves && holder.process != self) {
    entry.moves = holder.moves;
    entry.owner.store(holder.process, std::memory_order_release);
  }
  const std::uint32_t now = entry.owner.load(std::memory_order_relaxed);
  return now != self && now != static_cast<std::uint32_t>(asked) ? static_cast<int>(now) : kOnItsWay;
}

std::uint32_t Peers::moves_of(SlotIndex slot) noexcept {
  gas::SlotEntry& entry = gas::slot_entry(slot);
  const std::lock_guard guard(entry.lock);
  return entry.moves;
}

Peers::Peers(net::Transport& transport)
    : transport_(transport),
      pages_per_read_((transport.limits().payload_bytes_max) / (gas::kPageBytes + sizeof(Holder))) {
  AYT_CHECK(pages_per_read_ != 0, "messages of {} bytes cannot hold a page", transport.limits().payload_bytes_max);
  region_ = transport.register_memory(gas::system_view(gas::layout().self), gas::layout().bytes,
                                      net::kReadable | net::kRemapped);
  AYT_CHECK(region_ != net::kNoRegion, "the transport cannot reach the space");
  transport.set_handler(kReadHandler, on_read, this);
  transport.set_handler(kDiffsHandler, on_diffs, this);
  transport.set_handler(kWordHandler, on_word, this);
}

void Peers::read_run(int owner, PageIndex first, std::size_t count) {
  const std::size_t offset = std::size_t{first} << gas::kPageShift;
  const net::Completion done = net::read(transport_, {owner, region_, offset},
                                         {gas::page_in(gas::layout().self, first)}, count << gas::kPageShift);
  if (done.outcome == net::Outcome::kPeerFailed) net::await_end_of_job(owner);
  AYT_CHECK(done.ok(), "page {} cannot be read from process {}: {}", first, owner, net::outcome_name(done.outcome));
}

void Peers::read_pages(std::span<Page> pages) {
  struct Asked {
    int to;
    std::vector<std::size_t> which;  // of `pages`
    std::vector<std::uint32_t> request;
    net::Bytes answer;
    net::Event event;
  };
  const int self = gas::layout().self;
  std::vector<int> at(pages.size());
  std::vector<bool> over(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    at[i] = gas::owner_of(pages[i].page);
    over[i] = at[i] == self || at[i] == gas::kNobody;
  }
  for (;;) {
    std::deque<Asked> asked;
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (over[i]) continue;
      auto open = std::find_if(asked.rbegin(), asked.rend(), [&](const Asked& a) { return a.to == at[i]; });
      if (open == asked.rend() || open->which.size() == pages_per_read_) {
        asked.emplace_back().to = at[i];
        open = asked.rbegin();
      }
      open->which.push_back(i);
      open->request.push_back(pages[i].page);
    }
    if (asked.empty()) return;
    for (Asked& a : asked) {
      a.answer.resize(a.which.size() * (gas::kPageBytes + sizeof(Holder)));
      net::until_taken(transport_, [&] {
        return transport_.try_rpc_async({a.to,
                                         kReadHandler,
                                         a.request.data(),
                                         a.request.size() * sizeof(std::uint32_t),
                                         {a.answer.data()},
                                         a.answer.size(),
                                         a.event.callback()});
      });
    }
    for (Asked& a : asked) {
      const net::Completion done = a.event.wait(transport_);
      if (done.outcome == net::Outcome::kPeerFailed) net::await_end_of_job(a.to);
      std::size_t from = a.which.size() * sizeof(Holder);
      AYT_CHECK(done.ok() && done.reply_bytes >= from, "process {} sent no pages: {}", a.to,
                net::outcome_name(done.outcome));
      for (std::size_t k = 0; k < a.which.size(); ++k) {
        const std::size_t i = a.which[k];
        Holder holder;
        std::memcpy(&holder, a.answer.data() + k * sizeof holder, sizeof holder);
        if (holder.process == kHere) {
          AYT_CHECK(done.reply_bytes >= from + gas::kPageBytes, "process {} sent half a page", a.to);
          std::memcpy(pages[i].to, a.answer.data() + from, gas::kPageBytes);
          from += gas::kPageBytes;
          pages[i].got = true;
          over[i] = true;
        } else {
          at[i] = follow(gas::slot_of(pages[i].page), holder, a.to);
          over[i] = at[i] == kOnItsWay;
        }
      }
    }
  }
}

void Peers::on_read(void* self, const net::Message& message) {
  Peers& peers = *static_cast<Peers*>(self);
  const std::size_t count = message.size_bytes / sizeof(std::uint32_t);
  AYT_CHECK(count != 0 && count <= peers.pages_per_read_, "process {} asked for {} pages at once", message.source,
            count);
  thread_local net::Bytes answer;
  answer.resize(count * (sizeof(Holder) + gas::kPageBytes));
  std::size_t to = count * sizeof(Holder);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t page;
    std::memcpy(&page, message.payload + i * sizeof page, sizeof page);
    AYT_CHECK(page < gas::layout().pages, "process {} asked for page {}", message.source, page);
    const Holder holder = at_holder(page, [&](const std::byte* bytes) {
      diff::copy_page(answer.data() + to, bytes);
      to += gas::kPageBytes;
    });
    std::memcpy(answer.data() + i * sizeof holder, &holder, sizeof holder);
  }
  peers.transport_.reply(message.token, answer.data(), to);
}

bool Peers::at_owner(const WordOperation& operation, std::uint64_t* value) {
  const auto apply = [&](std::byte* page) { *value = dsm::operate(page + operation.offset, operation); };
  for (;;) {
    int owner = gas::owner_of(operation.page);
    if (owner == gas::kNobody) owner = gas::learn_owner(operation.page) ? gas::owner_of(operation.page) : 0;
    if (owner == gas::layout().self) {
      if (at_holder(operation.page, apply).process == kHere) return true;
      continue;  // it has just left
    }
    struct {
      Holder holder;
      std::uint64_t value;
    } answer{};
    const net::Completion done =
        net::rpc(transport_, owner, kWordHandler, &operation, sizeof operation, {&answer}, sizeof answer);
    if (done.outcome == net::Outcome::kPeerFailed) net::await_end_of_job(owner);
    AYT_CHECK(done.ok() && done.reply_bytes == sizeof answer, "process {} did not operate on a word", owner);
    *value = answer.value;
    if (answer.holder.process == kHere) return true;
    if (follow(gas::slot_of(operation.page), answer.holder, owner) == kOnItsWay) return false;
  }
}

void Peers::on_word(void* self, const net::Message& message) {
  WordOperation o;
  AYT_CHECK(message.size_bytes == sizeof o, "process {} asked for half an operation", message.source);
  std::memcpy(&o, message.payload, sizeof o);
  AYT_CHECK(o.page < gas::layout().pages && (o.bytes == 4 || o.bytes == 8) && o.offset % o.bytes == 0 &&
                o.offset < gas::kPageBytes && o.op <= WordOp::kCompareExchange,
            "process {} asked for an operation that makes no sense", message.source);
  struct {
    Holder holder;
    std::uint64_t value;
  } answer{};
  answer.holder = at_holder(o.page, [&](std::byte* page) { answer.value = operate(page + o.offset, o); });
  static_cast<Peers*>(self)->transport_.reply(message.token, &answer, sizeof answer);
}

std::uint64_t Peers::Diffs::add(int owner, PageIndex page, std::byte* from, std::byte* twin) {
  net::Bytes& message = open_[static_cast<std::size_t>(owner)];
  const std::uint64_t changed = diff::encode(page, from, twin, message);
  if (message.size() + diff::kWireBytesMax > peers_.transport_.limits().payload_bytes_max)
    send(owner, std::move(message));
  return changed;
}

void Peers::Diffs::send(int to, net::Bytes&& message) {
  Sent& sent = sent_.emplace_back();
  sent.to = to;
  sent.message = std::exchange(message, {});
  sent.answer.resize(sent.message.size() / 16 * sizeof(Moved));  // no diff is shorter
  net::until_taken(peers_.transport_, [&] {
    return peers_.transport_.try_rpc_async({to,
                                            kDiffsHandler,
                                            sent.message.data(),
                                            sent.message.size(),
                                            {sent.answer.data()},
                                            sent.answer.size(),
                                            sent.event.callback()});
  });
}

std::vector<net::Bytes> Peers::Diffs::finish() {
  std::vector<net::Bytes> unsent;
  for (;;) {
    for (std::size_t p = 0; p < open_.size(); ++p)
      if (!open_[p].empty()) send(static_cast<int>(p), std::move(open_[p]));
    if (sent_.empty()) break;
    std::deque<Sent> sent = std::exchange(sent_, {});
    for (Sent& s : sent) {
      const net::Completion done = s.event.wait(peers_.transport_);
      if (done.outcome == net::Outcome::kPeerFailed) net::await_end_of_job(s.to);
      AYT_CHECK(done.ok() && done.reply_bytes % sizeof(Moved) == 0, "process {} took no diffs: {}", s.to,
                net::outcome_name(done.outcome));
      if (done.reply_bytes == 0) continue;
      std::vector<Moved> moved(done.reply_bytes / sizeof(Moved));
      std::memcpy(moved.data(), s.answer.data(), done.reply_bytes);
      std::span<const std::byte> all = s.message;
      for (diff::WireDiff d; diff::next(all, gas::layout().pages, d);) {
        const auto found =
            std::find_if(moved.begin(), moved.end(), [&](const Moved& m) { return m.slot == gas::slot_of(d.page); });
        if (found == moved.end()) continue;
        const int next = peers_.follow(found->slot, found->holder, s.to);
        if (next == kOnItsWay) {
          unsent.emplace_back(d.whole.begin(), d.whole.end());
          continue;
        }
        net::Bytes& again = open_[static_cast<std::size_t>(next)];
        again.insert(again.end(), d.whole.begin(), d.whole.end());
        if (again.size() + diff::kWireBytesMax > peers_.transport_.limits().payload_bytes_max)
          send(next, std::move(again));
      }
    }
  }
  return unsent;
}

void Peers::on_diffs(void* self, const net::Message& message) {
  Peers& peers = *static_cast<Peers*>(self);
  std::vector<Moved> moved;
  std::span<const std::byte> all{message.payload, message.size_bytes};
  for (diff::WireDiff d; diff::next(all, gas::layout().pages, d);) {
    const Holder holder = at_holder(d.page, [&](std::byte* page) { diff::merge(d, page); });
    if (holder.process != kHere && (moved.empty() || moved.back().slot != gas::slot_of(d.page)))
      moved.push_back({gas::slot_of(d.page), holder});
  }
  AYT_CHECK(all.empty(), "process {} sent diffs that make no sense", message.source);
  peers.transport_.reply(message.token, moved.data(), moved.size() * sizeof(Moved));
}

}  // namespace ayatori::dsm
