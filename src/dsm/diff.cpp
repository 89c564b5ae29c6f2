// SPDX-License-Identifier: Apache-2.0
#include "dsm/diff.hpp"

namespace ayatori::dsm::diff {

#if !defined(__SANITIZE_THREAD__)
bool has_wide() noexcept {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  return has;
}
#endif

[[gnu::target("avx512f,avx512bw,popcnt")]] std::uint64_t forward_wide(const std::byte* from, std::byte* twin,
                                                                      std::byte* to, bool keep_twin) noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at < gas::kPageBytes; at += 64) {
    const __m512i now = _mm512_load_si512(from + at);
    const __mmask64 mask = _mm512_cmpneq_epu8_mask(now, _mm512_load_si512(twin + at));
    if (mask == 0) continue;
    _mm512_mask_storeu_epi8(to + at, mask, now);
    if (keep_twin) _mm512_store_si512(twin + at, now);
    bytes += static_cast<std::uint64_t>(__builtin_popcountll(mask));
  }
  return bytes;
}

}  // namespace ayatori::dsm::diff
