// SPDX-License-Identifier: Apache-2.0
// What one access to a page of another process costs when it faults. Pages of process 0 are touched by process 1, one
// access timed each, in random order, eight pages apart, so that no fault continues another one's run.
// bench/bare_fault.cpp does the same by the kernel's mechanism alone.
//
// "first time": the page has no memory here yet. "again": it was dropped by acquires, its memory is still there.
#include "cases.hpp"

#include <algorithm>
#include <random>

namespace cases {
namespace {

constexpr std::size_t kStride = 8;

Pages scattered(const Options& o) {
  const std::size_t touched = o.quick ? 64 : 512;
  const Pages all = pages_of(0, touched * kStride);
  Pages pages;
  for (std::size_t i = 0; i < all.size(); i += kStride) pages.push_back(all[i]);
  std::shuffle(pages.begin(), pages.end(), std::mt19937(42));
  return pages;
}

template <class Access>
Samples each(const Pages& pages, Access&& access) {
  Samples us = room(pages.size());
  for (std::byte* const page : pages) {
    const std::int64_t start = now_ns();
    access(page);
    us.push_back(static_cast<double>(now_ns() - start) / 1e3);
  }
  return us;
}

void read(std::byte* page) { peek(page + 100); }
void write(std::byte* page) { poke(page + 200, 7); }

}  // namespace

void read_miss(const Options& o) {
  const Pages all = scattered(o);
  Samples first, again;
  on_process(1, [&] {
    const Pages pages = all;  // the list itself is remote
    first = each(pages, read);
    drop_cached();
    again = each(pages, read);
  });
  report("first time", "us", first);
  report("again", "us", again);
}

void read_stream(const Options& o) {
  const std::size_t count = o.quick ? 512 : 8192;
  const Pages all = pages_of(0, count);
  Samples ns;
  on_process(1, [&] {
    const Pages pages = all;
    Samples mine = room(count / kChunkPages);
    for (std::size_t i = 0; i + kChunkPages <= count; i += kChunkPages) {
      const std::int64_t start = now_ns();
      for (std::size_t j = i; j < i + kChunkPages; ++j) read(pages[j]);
      mine.push_back(static_cast<double>(now_ns() - start) / kChunkPages);
    }
    ns = mine;
  });
  report("neighbouring pages in order, a page", "ns", ns);
}

void write_miss(const Options& o) {
  const Pages all = scattered(o);
  Samples first;
  on_process(1, [&] {
    const Pages pages = all;
    first = each(pages, write);
  });
  report("first time", "us", first);
}

void upgrade(const Options& o) {
  const Pages all = scattered(o);
  Samples us;
  on_process(1, [&] {
    const Pages pages = all;
    for (std::byte* const page : pages) read(page);
    us = each(pages, write);
  });
  report("write to a page read before", "us", us);
}

}  // namespace cases
