// SPDX-License-Identifier: Apache-2.0
// Pages and diffs between processes that do not map each other's memory: what this process asks the owners of pages, and
// what it answers to others (docs/design/between-machines.md).
//
// Who calls it: the coherence core on native stacks, holding its process's lock or not; the handlers run where the
// transport makes progress and take no lock but a slot's, for the time of a copy.
// R1. A process knows who holds a stack slot, or held it after so many moves: who asks a former holder is sent on, always to
//     one that held it later. A slot that is on its way is held by nobody: who looks for it is told so and tries again,
//     without its process's lock, which the slot's arrival may need.
// R2. A diff is stored before its sender's release ends, by whoever holds the page then.
// R3. Nothing is invented for an owner that is gone: who needs it waits for the end of the job.
// R4. What a peer sends is checked against the layout; what makes no sense ends the job (it proved that it belongs to it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <ayatori/net/blocking.hpp>
#include <ayatori/net/transport.hpp>
#include "dsm/diff_wire.hpp"
#include "dsm/words.hpp"
#include "gas/space.hpp"
#include "net/calls.hpp"

namespace ayatori::dsm {

class Peers {
 public:
  // Before Transport::start(): takes handlers of kDsmHandlers and registers this process's memory, as every process does.
  explicit Peers(net::Transport& transport);

  // Fills [first, first + count) of this process's memory from that of their owner, who is the same for all and no longer
  // changes.
  void read_run(int owner, gas::PageIndex first, std::size_t count);

  struct Page {
    gas::PageIndex page;
    std::byte* to;
    bool got = false;  // else: its slot is on its way, perhaps to this process (R1)
  };
  void read_pages(std::span<Page> pages);

  // The word's value before. False: its slot is on its way.
  bool at_owner(const WordOperation& operation, std::uint64_t* value);

  // `process` holds `slot`, which had changed hands so often, or held it then.
  void learn_holder(gas::SlotIndex slot, int process, std::uint32_t moves) const noexcept {
    follow(slot, {static_cast<std::uint32_t>(process), moves}, process);
  }
  static std::uint32_t moves_of(gas::SlotIndex slot) noexcept;  // of one that is held here

  // Diffs on their way to the owners, of one release.
  class Diffs {
   public:
    explicit Diffs(Peers& peers) : peers_(peers), open_(static_cast<std::size_t>(peers.transport_.processes())) {}
    // As diff::encode(); the page is somebody else's.
    std::uint64_t add(int owner, gas::PageIndex page, std::byte* from, std::byte* twin);
    // Returns when all are stored. Those whose slot is on its way come back.
    std::vector<net::Bytes> finish();

   private:
    struct Sent {
      int to;
      net::Bytes message, answer;
      net::Event event;
    };
    void send(int to, net::Bytes&& message);

    Peers& peers_;
    std::vector<net::Bytes> open_;  // a message for each owner
    std::deque<Sent> sent_;
  };

 private:
  static void on_read(void* self, const net::Message& message);
  static void on_word(void* self, const net::Message& message);
  static void on_diffs(void* self, const net::Message& message);
  struct Holder {
    std::uint32_t process;
    std::uint32_t moves;
  };
  struct Moved {
    gas::SlotIndex slot;
    Holder holder;
  };
  template <class F>
  static Holder at_holder(gas::PageIndex page, F&& f);
  // R1. `asked` does not hold the slot, and says who does. Returns whom to ask next, or kOnItsWay: nobody holds it, or this
  // process does by now.
  static constexpr int kOnItsWay = -1;
  int follow(gas::SlotIndex slot, const Holder& holder, int asked) const noexcept;

  net::Transport& transport_;
  net::RegionId region_;  // the whole space; the same number in every process
  std::size_t pages_per_read_;
};

}  // namespace ayatori::dsm
