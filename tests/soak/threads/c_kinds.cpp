// SPDX-License-Identifier: Apache-2.0
// Kinds of the C interface: c_objects, c_cancel. Their threads are C (c_mix.c).
#include "c_mix.h"
#include "soak.hpp"

extern "C" {
uint64_t soak_mix(uint64_t a, uint64_t b) { return soak::mix(a, b); }
void soak_expect(uint64_t got, uint64_t want, const char* what, uint64_t where) {
  soak::expect(got, want, what, where);
}
}

namespace soak {
namespace {

void c_objects(const Run& run) { soak_c_objects(run.seed, run.scaled(40)); }
void c_cancel(const Run& run) { soak_c_cancel(run.seed, run.scaled(30)); }

constexpr Kind kKinds[] = {{"c_objects", c_objects}, {"c_cancel", c_cancel}};
}  // namespace

std::span<const Kind> c_kinds() { return kKinds; }
}  // namespace soak
