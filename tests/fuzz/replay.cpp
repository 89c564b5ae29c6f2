// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: on each input that is kept for it, and on inputs made of those by a seeded hand: bytes
// changed, cut out, doubled, two inputs spliced. For the quick tier, and for compilers that have no libFuzzer.
//   TARGET INPUTS [ROUNDS]          INPUTS: a file, an input a line, in hexadecimal digits
//   TARGET INPUTS --write FOLDER    writes them as files, for libFuzzer
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::vector<Input> read_inputs(const char* path) {
  std::ifstream file(path);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path);
    std::exit(2);
  }
  std::vector<Input> inputs;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    Input input;
    for (std::size_t i = 0; i + 1 < line.size(); i += 2)
      input.push_back(static_cast<std::uint8_t>(std::stoul(line.substr(i, 2), nullptr, 16)));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

Input changed(const std::vector<Input>& inputs, std::mt19937_64& random) {
  constexpr std::uint8_t kTelling[] = {0, 1, 2, 7, 8, 0x10, 0x7f, 0x80, 0xfe, 0xff};
  Input input = inputs[random() % inputs.size()];
  for (std::uint64_t steps = 1 + random() % 4; steps != 0; --steps) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 6) {
      case 0:
        if (!input.empty()) input[at] ^= static_cast<std::uint8_t>(1u << random() % 8);
        break;
      case 1:
        if (!input.empty()) input[at] = kTelling[random() % sizeof kTelling];
        break;
      case 2: input.resize(at); break;
      case 3: input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), static_cast<std::uint8_t>(random())); break;
      case 4: {
        const Input& other = inputs[random() % inputs.size()];
        const std::size_t from = other.empty() ? 0 : random() % other.size();
        input.resize(at);
        input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
      default: {
        const Input copy = input;
        if (input.size() < 65'536)
          input.insert(input.end(), copy.begin() + static_cast<std::ptrdiff_t>(at), copy.end());
      }
    }
  }
  return input;
}

// The input that is being run, for the handler.
const Input* current = nullptr;

// Only what a signal handler may call: the input as a line that can be added to the file of inputs.
void on_crash(int signal) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr char kWhat[] = "the input, to be run from a file of its own:\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kWhat, sizeof kWhat - 1);
  for (const std::uint8_t byte : *current) {
    const char two[] = {kDigits[byte >> 4], kDigits[byte & 15]};
    written = write(STDERR_FILENO, two, sizeof two);
  }
  written = write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Its own memory, of its own size: a reader that goes beyond it is seen by AddressSanitizer.
void run(const Input& input) {
  const Input copy = input;
  current = &copy;
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

void write_files(const std::vector<Input>& inputs, const std::string& folder) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::ofstream file(folder + "/kept-" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char*>(inputs[i].data()), static_cast<std::streamsize>(inputs[i].size()));
    if (!file) {
      std::fprintf(stderr, "cannot write to %s\n", folder.c_str());
      std::exit(2);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s INPUTS [ROUNDS]\n       %s INPUTS --write FOLDER\n", argv[0], argv[0]);
    return 2;
  }
  const std::vector<Input> inputs = read_inputs(argv[1]);
  if (inputs.empty()) {
    std::fprintf(stderr, "%s: no inputs\n", argv[1]);
    return 2;
  }
  if (argc == 4 && std::strcmp(argv[2], "--write") == 0) {
    write_files(inputs, argv[3]);
    return 0;
  }
  const unsigned long rounds = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 20'000;
  std::signal(SIGABRT, on_crash);
  for (const Input& input : inputs) run(input);
  std::mt19937_64 random(1);
  for (unsigned long i = 0; i < rounds; ++i) run(changed(inputs, random));
  std::printf("%zu inputs and %lu made of them\n", inputs.size(), rounds);
  return 0;
}
