// SPDX-License-Identifier: Apache-2.0
// The program to be run: where it is, whether it can be executed, whether it is linked with Ayatori. Looked at before
// anything is started, so that the answer is one clear line.
#pragma once

#include <string>

namespace ayatori::tool {

struct Program {
  std::string path;     // as execve takes it
  bool linked = false;  // with the library: its first image forks the other members
};

// 0, or an exit status after a line on standard error, or with the line in *why. `name` is looked up as a shell does.
int find_program(const std::string& name, Program& program, std::string* why = nullptr);

// Has the file an ELF note of the library, or does it need libayatori.so?
bool is_linked_with_ayatori(const std::string& path);

}  // namespace ayatori::tool
