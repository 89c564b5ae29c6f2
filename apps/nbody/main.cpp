// SPDX-License-Identifier: Apache-2.0
// nbody N: gravity between N bodies of a Plummer sphere by the method of Barnes and Hut, in three dimensions.
//
// Checks: the energy is kept; forces agree with direct summation on a sample; with --verify, positions and velocities
// equal those of a serial run in the same invocation, bit for bit.
#include "picture.hpp"
#include "simulation.hpp"

#include "../common/program.hpp"

#include <cstring>

namespace {

struct Options {
  nbody::Options run;
  std::int64_t pixels = 1024;
  common::Text png;
  bool verify = false;
  bool hints = false;
  bool serial = false;
};

// Bodies of both runs, whatever their order, are the same bit for bit.
bool same(const nbody::Body* a, const nbody::Body* b, std::int64_t n) {
  const auto place = std::make_unique_for_overwrite<std::int64_t[]>(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) place[static_cast<std::size_t>(a[i].id)] = i;
  for (std::int64_t i = 0; i < n; ++i)
    if (std::memcmp(&a[place[static_cast<std::size_t>(b[i].id)]], &b[i], sizeof b[i])) return false;
  return true;
}

template <class Mode>
int run(const Options& o) {
  nbody::Simulation<Mode> simulation(o.run);
  const double energy_before = simulation.energy();
  const common::Timer<Mode> timer;
  for (std::int64_t s = 0; s < o.run.steps; ++s) simulation.step();
  const double seconds = timer.seconds();

  const double energy = simulation.energy();
  const double drift = std::abs((energy - energy_before) / energy_before);
  const double force_error = simulation.force_error();
  bool ok = drift <= 0.01 && force_error <= 1e-9 + 0.05 * o.run.theta * o.run.theta;
  const char* verified = "";
  if (o.verify) {
    nbody::Simulation<common::Serial> serial(o.run);
    for (std::int64_t s = 0; s < o.run.steps; ++s) serial.step();
    const bool equal = same(simulation.bodies(), serial.bodies(), o.run.n);
    verified = equal ? "the serial run's positions are the same\n" : "the serial run's positions DIFFER\n";
    ok &= equal;
  }
  int status = 0;
  Mode::on_process_0([&] {
    std::printf("%lld bodies, %lld steps: energy %.9f -> %.9f (drift %.1e), force error %.1e\n%s",
                static_cast<long long>(o.run.n), static_cast<long long>(o.run.steps), energy_before, energy, drift,
                force_error, verified);
    if (!o.png.empty()) {
      const char* wrong = nbody::write_picture(o.png.text, simulation.bodies(), o.run.n, static_cast<int>(o.pixels));
      if (*wrong) {
        std::fprintf(stderr, "nbody: %s %s\n", wrong, o.png.text);
        ok = false;
      } else {
        std::printf("picture: %s\n", o.png.text);
      }
    }
    status = common::finish(seconds, ok);
  });
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  common::Arguments arguments("nbody", "Gravity between N bodies by the method of Barnes and Hut.");
  arguments.size("N", &options.run.n, 2, 100'000'000, "bodies");
  arguments.number("--steps", &options.run.steps, 0, 1'000'000, "time steps");
  arguments.real("--theta", &options.run.theta, 0, 1, "size over distance below which a cell is one point");
  arguments.real("--dt", &options.run.dt, 1e-9, 1, "length of a step");
  arguments.real("--softening", &options.run.softening, 1e-6, 10, "length below which gravity weakens");
  arguments.number("--seed", &options.run.seed, 0, std::int64_t{1} << 53, "of the random start");
  arguments.flag("--pair", &options.run.pair, "two spheres that meet, instead of one");
  arguments.text("--png", &options.png, "FILE", "write a picture of the result");
  arguments.number("--pixels", &options.pixels, 16, 16384, "width and height of the picture");
  arguments.flag("--verify", &options.verify, "compare with a serial run, bit for bit");
  arguments.flag("--hints", &options.hints, "each process begins the part of the work whose data it has");
  arguments.flag("--serial", &options.serial, "plain calls");
  if (const auto status = arguments.parse(argc, argv)) return *status;
  return common::start(argc, argv, options, options.serial, options.hints,
                       [](auto mode, const Options& o) { return run<decltype(mode)>(o); });
}
