// SPDX-License-Identifier: Apache-2.0
// `ayatori bench`, `ayatori bench net`: becomes the benchmark program of the same build or installation, with the
// arguments that follow.
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "commands.hpp"
#include "system.hpp"

namespace ayatori::tool {

int bench_command(int argc, char** argv) {
  const bool of_net = argc > 1 && std::string_view(argv[1]) == "net";
  const char* const program = of_net ? "ayatori-bench-net" : "ayatori-bench";
  if (of_net) --argc, ++argv;
  std::vector<char*> arguments(argv, argv + argc);
  arguments.push_back(nullptr);
  const std::string folder = own_folder();
  std::string first_path;
  for (const char* const place : {"/", "/../libexec/ayatori/", "/../bench/"}) {
    std::string path = folder + place + program;
    if (first_path.empty()) first_path = path;
    if (access(path.c_str(), X_OK) != 0) continue;
    std::string name = program;
    arguments[0] = name.data();
    execv(path.c_str(), arguments.data());
    return fail(kExitNotExecutable, "{}: {}", path, error_text(errno));
  }
  for (const char* const argument : std::vector<const char*>(argv + 1, argv + argc)) {
    if (std::string_view(argument) != "--help") continue;
    std::puts(
        "Usage: ayatori bench [NAME] [--json=FILE]\n       ayatori bench net [OPTIONS]\n\n"
        "Measures the runtime: all benchmarks, or those named NAME; net: the transports between processes.");
    return 0;
  }
  return fail(kExitNotFound, "the benchmarks are not installed (looked for {})", first_path);
}

}  // namespace ayatori::tool
