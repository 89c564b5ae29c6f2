// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <elf.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "net/bootstrap/job_control.hpp"
#include "system.hpp"

namespace ayatori::tool {
namespace {

namespace boot = net::bootstrap;

constexpr std::uint64_t kMaxTableBytes = 16u << 20;  // a note segment or dynamic table beyond this is damaged

bool read_at(int fd, std::uint64_t offset, void* to, std::size_t bytes) {
  return pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

std::vector<char> read_part(int fd, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxTableBytes) return {};
  std::vector<char> part(bytes);
  if (!read_at(fd, offset, part.data(), part.size())) part.clear();
  return part;
}

bool has_note(const std::vector<char>& notes) {
  const auto padded = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; };
  std::uint64_t at = 0;
  Elf64_Nhdr note;
  while (at + sizeof note <= notes.size()) {
    std::memcpy(&note, notes.data() + at, sizeof note);
    const std::uint64_t name_at = at + sizeof note;
    const std::uint64_t next = name_at + padded(note.n_namesz) + padded(note.n_descsz);
    if (next > notes.size()) return false;
    const std::size_t owner_bytes = std::strlen(boot::kNoteOwner) + 1;
    if (note.n_type == boot::kNoteType && note.n_namesz == owner_bytes &&
        std::memcmp(notes.data() + name_at, boot::kNoteOwner, owner_bytes) == 0)
      return true;
    at = next;
  }
  return false;
}

// File offset of a virtual address; 0 when no segment holds it.
std::uint64_t file_offset(const std::vector<Elf64_Phdr>& headers, std::uint64_t address) {
  for (const Elf64_Phdr& header : headers)
    if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz)
      return header.p_offset + (address - header.p_vaddr);
  return 0;
}

bool needs_library(int fd, const std::vector<Elf64_Phdr>& headers, const Elf64_Phdr& dynamic) {
  const std::vector<char> table = read_part(fd, dynamic.p_offset, dynamic.p_filesz);
  const std::size_t entries = table.size() / sizeof(Elf64_Dyn);
  const auto entry_at = [&](std::size_t i) {
    Elf64_Dyn entry;
    std::memcpy(&entry, table.data() + i * sizeof entry, sizeof entry);
    return entry;
  };
  std::uint64_t strings_address = 0;
  std::uint64_t strings_bytes = 0;
  for (std::size_t i = 0; i < entries; ++i) {
    const Elf64_Dyn entry = entry_at(i);
    if (entry.d_tag == DT_STRTAB) strings_address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) strings_bytes = entry.d_un.d_val;
  }
  std::vector<char> strings = read_part(fd, file_offset(headers, strings_address), strings_bytes);
  if (strings.empty()) return false;
  strings.back() = '\0';
  for (std::size_t i = 0; i < entries; ++i) {
    const Elf64_Dyn entry = entry_at(i);
    if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < strings.size() &&
        std::string_view(strings.data() + entry.d_un.d_val).starts_with("libayatori.so"))
      return true;
  }
  return false;
}

bool is_executable_file(const std::string& path) {
  struct stat file{};
  return stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && access(path.c_str(), X_OK) == 0;
}

// First match in PATH that can be executed; failing that, the first one at all; empty: none.
std::string search_path(const std::string& name) {
  const char* const variable = std::getenv("PATH");
  std::string_view folders = variable != nullptr ? variable : "/usr/local/bin:/usr/bin:/bin";
  std::string found;
  for (;;) {
    const std::size_t end = folders.find(':');
    const std::string folder(folders.substr(0, end));
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable_file(path)) return path;
    struct stat file{};
    if (found.empty() && stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)) found = path;
    if (end == folders.npos) return found;
    folders.remove_prefix(end + 1);
  }
}

}  // namespace

bool is_linked_with_ayatori(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Elf64_Ehdr file;
  if (!fd || !read_at(fd.get(), 0, &file, sizeof file)) return false;
  if (std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_ident[EI_CLASS] != ELFCLASS64 ||
      file.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  std::vector<Elf64_Phdr> headers(file.e_phnum);
  if (!read_at(fd.get(), file.e_phoff, headers.data(), headers.size() * sizeof(Elf64_Phdr))) return false;
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_NOTE && has_note(read_part(fd.get(), header.p_offset, header.p_filesz))) return true;
    if (header.p_type == PT_DYNAMIC && needs_library(fd.get(), headers, header)) return true;
  }
  return false;
}

namespace {

// 0, or an exit status with the line.
int look_for(const std::string& name, Program& program, std::string& why) {
  const auto refuse = [&why](int status, std::string line) {
    why = std::move(line);
    return status;
  };
  if (name.empty()) return refuse(kExitNotFound, "run: the name of PROGRAM is empty");
  if (name.find('/') != name.npos) {
    program.path = name;
  } else {
    program.path = search_path(name);
    if (program.path.empty()) {
      const bool here = access(name.c_str(), F_OK) == 0;
      return refuse(kExitNotFound, base::formatted("{}: not found in PATH{}", name,
                                                   here ? " (it is in this folder: ./" + name + ")" : ""));
    }
  }
  struct stat file{};
  if (stat(program.path.c_str(), &file) != 0)
    return refuse(errno == ENOENT || errno == ENOTDIR ? kExitNotFound : kExitNotExecutable,
                  base::formatted("{}: {}", program.path, error_text(errno)));
  if (S_ISDIR(file.st_mode)) return refuse(kExitNotExecutable, base::formatted("{}: is a folder", program.path));
  if (!is_executable_file(program.path))
    return refuse(kExitNotExecutable, base::formatted("{}: not executable", program.path));
  program.linked = is_linked_with_ayatori(program.path);
  return 0;
}

}  // namespace

int find_program(const std::string& name, Program& program, std::string* why) {
  std::string line;
  const int status = look_for(name, program, line);
  if (status != 0 && why != nullptr) *why = line;
  if (status != 0 && why == nullptr) say(line);
  return status;
}

}  // namespace ayatori::tool
