// SPDX-License-Identifier: Apache-2.0
// `litmus NAME [ROUNDS]` runs a litmus test, `litmus --list` names them. Prints how often each outcome was seen; the last
// line is `check: ok` or `check: FAILED`: a forbidden outcome was seen, a neighbour's byte was lost, or in most
// rounds the roles were not on different processes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "litmus.hpp"

namespace litmus {
namespace {

std::vector<Test>& tests() {
  static std::vector<Test> list;
  return list;
}

constexpr Layout kLayouts[] = {{"one word, heap", 2, false},
                               {"one page, heap", 128, false},
                               {"own pages, heap", 4096, false},
                               {"one word, stack", 2, true},
                               {"one page, stack", 128, true}};

bool run_layout(const Test& test, const Layout& layout, int rounds) {
  alignas(64) unsigned char on_stack[kCells * 128 + 64] = {};
  const auto heap = std::make_unique<unsigned char[]>(kCells * 4096 + 64);
  unsigned char* const base = layout.stack ? on_stack : heap.get();
  std::map<std::string, int> seen;
  int apart = 0, forbidden = 0, lost = 0;
  for (int i = 0; i < rounds; ++i) {
    Round r(base, layout.stride, i);
    if (i % 8 == 0) {
      // Copies everywhere (L3); rounds in between go on with those that the last round left.
      for (int p = 0; p < ayatori::process_count(); ++p)
        ayatori::thread(ayatori::on(p), [&] {
          unsigned sum = 0;
          for (int c = 0; c < kCells; ++c) sum += *r.cell(c);
          return sum;
        }).join();
    }
    for (int c = 0; c < kCells; ++c) r.noise(c);
    const Verdict v = test.round(r);
    ++seen[v.outcome];
    apart += v.apart;
    for (int c = 0; c < kCells; ++c) lost += !r.noise_right(c);
    if (v.forbidden && ++forbidden <= 3)
      std::printf("FORBIDDEN: %s in round %d (%s): %s\n", test.name, i, layout.name, v.outcome.c_str());
  }
  std::printf("%s, %s:", test.name, layout.name);
  for (const auto& [outcome, count] : seen) std::printf(" %s x %d", outcome.c_str(), count);
  std::printf("; %d of %d rounds between processes\n", apart, rounds);
  if (lost != 0) std::printf("LOST: %d bytes of neighbours\n", lost);
  return forbidden == 0 && lost == 0 && (2 * apart >= rounds || ayatori::process_count() == 1);
}

int run(std::span<char*> args) {
  if (args.size() < 2) {
    std::fprintf(stderr, "usage: %s NAME [ROUNDS] | --list\n", args[0]);
    return 2;
  }
  const int rounds = args.size() > 2 ? std::atoi(args[2]) : 100;
  bool ok = false, found = false;
  for (const Test& test : tests()) {
    if (std::strcmp(args[1], test.name) != 0) continue;
    std::printf("%s: forbidden: %s\n", test.name, test.forbidden);
    ok = found = true;
    for (const Layout& layout : kLayouts) ok &= run_layout(test, layout, rounds);
  }
  if (!found) std::printf("no test is named %s\n", args[1]);
  std::printf("check: %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace

Add::Add(const Test& test) { tests().push_back(test); }

}  // namespace litmus

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    if (ayatori::process_id() == 0)
      for (const litmus::Test& t : litmus::tests()) std::puts(t.name);
    return 0;
  }
  return ayatori::run(argc, argv, [](auto args) { return litmus::run(args); });
}
