// SPDX-License-Identifier: Apache-2.0
// Names for addresses of the program and its shared libraries, from the symbol tables of their files (.symtab where it
// was not stripped, else .dynsym). For people: thread dumps and the checking mode. Called on OS threads outside signal
// handlers; reads files and allocates.
//
// N1. An image's table is read on first use and kept; what cannot be read has no names, which is no error.
// N2. Symbols of one image are sorted by address; of several at one address the global and longer one comes last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ayatori::base {

struct Symbol {
  std::uintptr_t address = 0;  // where it is in this process
  std::size_t bytes = 0;
  const char* name = "";  // as in the table; valid as long as the Symbols
  bool code = false;
  bool global = false;
  bool copied = false;  // a copy relocation: a library's variable that lives in the program
};

class Symbols {
 public:
  struct Range {
    std::uintptr_t begin, end;
  };
  struct Image {
    std::string path;         // "" for the program itself
    std::uintptr_t base = 0;  // what is added to the file's addresses
    std::uintptr_t begin = 0, end = 0;
    std::vector<Range> writable;  // its data, without what the loader makes read-only (RELRO)
    bool loaded = false;
    bool complete = false;        // has .symtab, not only what other images may use
    std::vector<Symbol> symbols;  // after load()
    // Its thread_locals, after load(): `address` is the place in the image's block of each OS thread.
    std::vector<Symbol> thread_locals;
    std::vector<char> names;
  };

  Symbols();  // finds the images that are mapped now
  Symbols(const Symbols&) = delete;
  Symbols& operator=(const Symbols&) = delete;

  std::vector<std::unique_ptr<Image>>& images() noexcept { return images_; }
  Image* image_at(std::uintptr_t address) noexcept;
  void load(Image& image);
  // The symbol that covers `address`, or null.
  const Symbol* find(std::uintptr_t address, bool code);
  // "function(int)+0x1c", "library.so+0x4711", "0x4711".
  std::string describe_code(std::uintptr_t address);

 private:
  std::vector<std::unique_ptr<Image>> images_;
};

std::string demangled(const char* name);

}  // namespace ayatori::base
