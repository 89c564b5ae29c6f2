// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/format.hpp"

namespace ayatori::net::bootstrap {

std::string place_of_this_process() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat names{};
  if (stat("/proc/self/ns/net", &names) != 0) names.st_ino = 0;
  // Without a boot id two machines must not look like one.
  if (boot.empty()) boot = base::formatted("{}:{}", host_of_this_process(), gethostid());
  return base::formatted("{}/{}", boot.substr(0, 48), names.st_ino);
}

std::string host_of_this_process() {
  char name[64] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unknown";
  return name;
}

}  // namespace ayatori::net::bootstrap
