// SPDX-License-Identifier: Apache-2.0
#include <ayatori/ayatori.hpp>
#include <cstdio>
#include <memory>

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    const auto number = std::make_unique<int>(1);
    std::puts(ayatori::in_space(number.get()) ? "new: space" : "new: C library");
    return 0;
  });
}
