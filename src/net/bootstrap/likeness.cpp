// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/likeness.hpp"

#include <elf.h>
#include <link.h>
#include <sodium.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "base/check.hpp"
#include "base/format.hpp"

namespace ayatori::net::bootstrap {
namespace {

class Hash {
 public:
  Hash() { crypto_generichash_init(&state_, nullptr, 0, crypto_generichash_BYTES_MIN); }
  void add(const void* bytes, std::size_t count) {
    crypto_generichash_update(&state_, static_cast<const unsigned char*>(bytes), count);
  }
  void add(std::uint64_t value) { add(&value, sizeof value); }
  std::uint64_t result() {
    unsigned char hash[crypto_generichash_BYTES_MIN];
    crypto_generichash_final(&state_, hash, sizeof hash);
    std::uint64_t value = 0;
    std::memcpy(&value, hash, sizeof value);
    return value;
  }

 private:
  crypto_generichash_state state_;
};

struct Objects {
  Hash program, libraries, addresses;
  int count = 0;
};

// Code is the same wherever it is loaded; a build id could be missing.
void add_code(Hash& hash, const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    hash.add(part.p_vaddr);
    hash.add(part.p_memsz);
    hash.add(part.p_filesz);
    if ((part.p_flags & PF_X) != 0 && (part.p_flags & PF_R) != 0)
      hash.add(reinterpret_cast<const void*>(object.dlpi_addr + part.p_vaddr), part.p_filesz);  // NOLINT
  }
}
// Of a library its build id, or it would be read as a whole.
void add_notes(Hash& hash, const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    hash.add(part.p_vaddr);
    hash.add(part.p_memsz);
    if (part.p_type == PT_NOTE)
      hash.add(reinterpret_cast<const void*>(object.dlpi_addr + part.p_vaddr), part.p_memsz);  // NOLINT
  }
}

int on_object(dl_phdr_info* object, std::size_t, void* context) {
  auto& all = *static_cast<Objects*>(context);
  if (object->dlpi_addr != 0 && object->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
    return 0;  // the kernel's: not called by way of an address that moves
  all.addresses.add(object->dlpi_addr);
  if (all.count++ == 0)
    add_code(all.program, *object);
  else
    add_notes(all.libraries, *object);
  return 0;
}

std::uint64_t word_at(std::size_t offset) noexcept {  // of the thread's control block, as glibc and the compilers agree
  std::uint64_t value = 0;
  asm("movq %%fs:(%1), %0" : "=r"(value) : "r"(offset));
  return value;
}

}  // namespace

Likeness likeness_of_this_process(std::span<const std::uint64_t> settings) {
  constexpr std::size_t kCanary = 0x28, kPointerGuard = 0x30;
  AYT_CHECK(sodium_init() >= 0, "libsodium cannot be used here");
  Objects objects;
  dl_iterate_phdr(on_object, &objects);
  // Where the kernel places what is mapped next, if it is too large for a hole.
  constexpr std::size_t kLarge = std::size_t{1} << 30;
  void* const next = mmap(nullptr, kLarge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  AYT_CHECK(next != MAP_FAILED, "cannot reserve address space");
  munmap(next, kLarge);
  objects.addresses.add(reinterpret_cast<std::uintptr_t>(next));
  Hash secrets, sizes;
  secrets.add(word_at(kCanary));
  secrets.add(word_at(kPointerGuard));
  for (const std::uint64_t value : settings) sizes.add(value);
  return {objects.program.result(), objects.libraries.result(), objects.addresses.result(), secrets.result(),
          sizes.result()};
}

std::string unlike_text(const std::vector<Card>& cards) {
  for (std::size_t p = 1; p < cards.size(); ++p) {
    const Likeness& a = cards[0].likeness;
    const Likeness& b = cards[p].likeness;
    if (a == b) continue;
    const auto differs = [&](const char* what) {
      return base::formatted("threads cannot move between process 0 on host {} and process {} on host {}: {}",
                             cards[0].host, p, cards[p].host, what);
    };
    if (b == Likeness{} || a == Likeness{})
      return differs("one has called ayatori::net::open and the other ayatori::run");
    if (a.program != b.program) return differs("the programs differ; copy one of them to all hosts");
    if (a.libraries != b.libraries)
      return differs("they load different shared libraries; install the same versions, or link statically");
    if (a.settings != b.settings) return differs("AYATORI_SPACE_*, AYATORI_STACK_SIZE or AYATORI_PLACE_BLOCK differ");
    if (a.addresses != b.addresses)
      return differs(
          "their addresses differ; is personality(2) refused there (a container's profile), is `ulimit -s` another, or "
          "/etc/ld.so.cache of another length (link statically, then)?");
    return differs(
        "their stack protectors have different secrets, which the launcher could not set; is ptrace(2) refused there "
        "(a container's profile, kernel.yama.ptrace_scope)?");
  }
  return {};
}

}  // namespace ayatori::net::bootstrap
