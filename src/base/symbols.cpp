// SPDX-License-Identifier: Apache-2.0
#include "base/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "base/format.hpp"

namespace ayatori::base {
namespace {

class File {
 public:
  explicit File(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {
    struct stat status{};
    if (fd_ >= 0 && fstat(fd_, &status) == 0) bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool read(void* to, std::uint64_t bytes, std::uint64_t at) const {
    if (at > bytes_ || bytes > bytes_ - at) return false;
    auto* next = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t n = pread(fd_, next, bytes, static_cast<off_t>(at));
      if (n <= 0) return false;
      next += n;
      at += static_cast<std::uint64_t>(n);
      bytes -= static_cast<std::uint64_t>(n);
    }
    return true;
  }
  template <class T>
  bool read_array(std::vector<T>& to, std::uint64_t bytes, std::uint64_t at) const {
    if (at > bytes_ || bytes > bytes_ - at) return false;
    to.resize(bytes / sizeof(T));
    return read(to.data(), to.size() * sizeof(T), at);
  }

 private:
  int fd_;
  std::uint64_t bytes_ = 0;
};

// Versions of dynamic symbols are not wanted; what the program has copied from a library is found by its relocations.
void mark_copies(const File& file, const std::vector<Elf64_Shdr>& sections, Symbols::Image& image) {
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_RELA) continue;
    std::vector<Elf64_Rela> relocations;
    if (!file.read_array(relocations, section.sh_size, section.sh_offset)) continue;
    for (const Elf64_Rela& r : relocations) {
      if (ELF64_R_TYPE(r.r_info) != R_X86_64_COPY) continue;
      const std::uintptr_t address = image.base + r.r_offset;
      for (Symbol& s : image.symbols)
        if (s.address == address) s.copied = true;
    }
  }
}

}  // namespace

Symbols::Symbols() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& images = *static_cast<std::vector<std::unique_ptr<Image>>*>(argument);
        auto image = std::make_unique<Image>();
        image->path = images.empty() ? "" : info->dlpi_name;
        if (!images.empty() && image->path.find('/') == std::string::npos) return 0;  // the kernel's vdso
        image->base = info->dlpi_addr;
        image->begin = UINTPTR_MAX;
        Range constant{0, 0};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& header = info->dlpi_phdr[i];
          const Range range{image->base + header.p_vaddr, image->base + header.p_vaddr + header.p_memsz};
          if (header.p_type == PT_GNU_RELRO) constant = range;
          if (header.p_type != PT_LOAD) continue;
          image->begin = std::min(image->begin, range.begin);
          image->end = std::max(image->end, range.end);
          if ((header.p_flags & PF_W) != 0) image->writable.push_back(range);
        }
        constexpr std::uintptr_t kPage = 4096;
        for (Range& range : image->writable)
          if (constant.end > range.begin && constant.begin <= range.begin)
            range.begin = std::min(range.end, constant.end & ~(kPage - 1));
        images.push_back(std::move(image));
        return 0;
      },
      &images_);
}

Symbols::Image* Symbols::image_at(std::uintptr_t address) noexcept {
  for (auto& image : images_)
    if (address >= image->begin && address < image->end) return image.get();
  return nullptr;
}

void Symbols::load(Image& image) {
  if (image.loaded) return;
  image.loaded = true;  // N1
  const File file(image.path.empty() ? "/proc/self/exe" : image.path.c_str());
  Elf64_Ehdr header{};
  if (!file.read(&header, sizeof header, 0) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr)) return;
  std::vector<Elf64_Shdr> sections;
  if (!file.read_array(sections, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), header.e_shoff)) return;
  const auto of_type = [&](std::uint32_t type) {
    return std::find_if(sections.begin(), sections.end(), [type](const Elf64_Shdr& s) { return s.sh_type == type; });
  };
  auto table = of_type(SHT_SYMTAB);
  image.complete = table != sections.end();
  if (!image.complete) table = of_type(SHT_DYNSYM);
  if (table == sections.end() || table->sh_link >= sections.size()) return;
  std::vector<Elf64_Sym> entries;
  if (!file.read_array(entries, table->sh_size, table->sh_offset)) return;
  const Elf64_Shdr& names = sections[table->sh_link];
  if (!file.read_array(image.names, names.sh_size, names.sh_offset)) return;
  image.names.push_back('\0');
  for (const Elf64_Sym& entry : entries) {
    const unsigned type = ELF64_ST_TYPE(entry.st_info);
    const bool code = type == STT_FUNC || type == STT_GNU_IFUNC;
    const bool thread_local_ = type == STT_TLS;
    if (!code && type != STT_OBJECT && !thread_local_) continue;
    if (entry.st_shndx == SHN_UNDEF || entry.st_name >= image.names.size()) continue;
    Symbol symbol;
    symbol.address = (thread_local_ ? 0 : image.base) + entry.st_value;
    symbol.bytes = entry.st_size;
    symbol.name = image.names.data() + entry.st_name;
    symbol.code = code;
    symbol.global = ELF64_ST_BIND(entry.st_info) != STB_LOCAL;
    (thread_local_ ? image.thread_locals : image.symbols).push_back(symbol);
  }
  std::sort(image.symbols.begin(), image.symbols.end(), [](const Symbol& a, const Symbol& b) {  // N2
    return std::tuple(a.address, a.global, a.bytes, a.name) < std::tuple(b.address, b.global, b.bytes, b.name);
  });
  mark_copies(file, sections, image);
}

const Symbol* Symbols::find(std::uintptr_t address, bool code) {
  Image* const image = image_at(address);
  if (!image) return nullptr;
  load(*image);
  auto after = std::upper_bound(image->symbols.begin(), image->symbols.end(), address,
                                [](std::uintptr_t a, const Symbol& s) { return a < s.address; });
  constexpr int kLook = 16;  // symbols of size 0 and of the other kind in between
  for (int i = 0; i < kLook && after != image->symbols.begin(); ++i) {
    --after;
    if (after->code == code && address - after->address < after->bytes) return &*after;
  }
  return nullptr;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = text && status == 0 ? text : name;
  std::free(text);
  return result;
}

std::string Symbols::describe_code(std::uintptr_t address) {
  if (const Symbol* const s = find(address, true))
    return formatted("{}+0x{:x}", demangled(s->name), address - s->address);
  if (const Image* const image = image_at(address)) {
    const std::size_t slash = image->path.rfind('/');
    const std::string file = image->path.empty() ? "program" : image->path.substr(slash + 1);
    return formatted("{}+0x{:x}", file, address - image->base);
  }
  return formatted("0x{:x}", address);
}

}  // namespace ayatori::base
