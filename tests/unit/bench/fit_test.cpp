// SPDX-License-Identifier: Apache-2.0
// The LogGP fit of `ayatori bench net` (bench/net/fit.hpp): parameters that made the data come back out of them, also from
// noisy data; what no network can have is not found; a simulation that is given the fit lasts as long as what was fitted.
#include "fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include <ayatori/net/blocking.hpp>
#include "base/clock.hpp"
#include "net/sim/params.hpp"
#include "net/sim/script.hpp"
#include "net/sim/transport.hpp"

namespace bench {
namespace {

struct Data {
  std::vector<Observation> latencies, gaps;
};

std::vector<double> sizes(double max = 4 << 20) {
  std::vector<double> all;
  for (double bytes = 8; bytes <= max; bytes *= 2) all.push_back(bytes);
  return all;
}

// Times of a network with these parameters, each wrong by up to the part `noise`, either way.
Data data_of(const LogGP& network, const PathShape& shape, double noise = 0, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  const auto wrong = [&](double ns) {
    return ns * (1 + noise * (2 * static_cast<double>(random()) / static_cast<double>(std::mt19937_64::max()) - 1));
  };
  Data data;
  for (const double bytes : sizes()) {
    data.latencies.push_back({bytes, wrong(network.latency_at(shape, bytes))});
    data.gaps.push_back({bytes, wrong(network.gap_at(bytes))});
  }
  return data;
}

// Near shared memory, InfiniBand (thesis 4.7.2) and Ethernet.
const LogGP kNetworks[] = {{150, 60, 80, 0.05, 0, 0}, {1300, 350, 160, 0.16, 0, 0}, {8000, 2500, 3000, 0.8, 0, 0}};

TEST(Fit, ExactDataGiveTheirParametersBack) {
  for (const PathShape& shape : {kRoundTripPath, kOneSidedPath}) {
    for (const LogGP& network : kNetworks) {
      const Data data = data_of(network, shape);
      const auto fit = fit_loggp(shape, network.overhead_ns, data.latencies, data.gaps);
      ASSERT_TRUE(fit);
      EXPECT_NEAR(fit->latency_ns, network.latency_ns, 1e-6 * network.latency_ns);
      EXPECT_EQ(fit->overhead_ns, network.overhead_ns);
      EXPECT_NEAR(fit->gap_ns, network.gap_ns, 1e-6 * network.gap_ns);
      EXPECT_NEAR(fit->gap_per_byte_ns, network.gap_per_byte_ns, 1e-6 * network.gap_per_byte_ns);
      EXPECT_LT(fit->latency_residual, 1e-6);
      EXPECT_LT(fit->gap_residual, 1e-6);
    }
  }
}

TEST(Fit, NoisyDataGiveThemNearly) {
  constexpr double kNoise = 0.1;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    for (const LogGP& network : kNetworks) {
      const Data data = data_of(network, kRoundTripPath, kNoise, seed);
      const auto fit = fit_loggp(kRoundTripPath, network.overhead_ns, data.latencies, data.gaps);
      ASSERT_TRUE(fit);
      EXPECT_NEAR(fit->latency_ns / network.latency_ns, 1, 2 * kNoise) << "seed " << seed;
      EXPECT_NEAR(fit->gap_ns / network.gap_ns, 1, kNoise) << "seed " << seed;
      EXPECT_NEAR(fit->gap_per_byte_ns / network.gap_per_byte_ns, 1, kNoise) << "seed " << seed;
      EXPECT_LT(fit->latency_residual, kNoise);
      EXPECT_LT(fit->gap_residual, kNoise);
      EXPECT_GT(fit->latency_residual + fit->gap_residual, kNoise / 10);
    }
  }
}

// Requests that complete inside the call: no time is left for a network.
TEST(Fit, NoParameterIsNegative) {
  const LogGP copying{0, 100, 40, 0.02, 0, 0};
  Data data = data_of(copying, kOneSidedPath);
  for (Observation& o : data.latencies) o.ns *= 0.8;  // shorter than its overhead
  const auto fit = fit_loggp(kOneSidedPath, copying.overhead_ns, data.latencies, data.gaps);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->latency_ns, 0);
  EXPECT_GT(fit->gap_ns, 0);
  EXPECT_GT(fit->gap_per_byte_ns, 0);
  EXPECT_GT(fit->latency_residual, 0.05);  // Q2
}

TEST(Fit, OneSizeIsNotEnough) {
  const std::vector<Observation> two = {{8, 100}, {1024, 200}}, one = {{8, 100}, {8, 120}}, none,
                                 bad = {{8, 0}, {9, 1}};
  EXPECT_TRUE(fit_loggp(kOneSidedPath, 10, two, two));
  EXPECT_FALSE(fit_loggp(kOneSidedPath, 10, one, two));
  EXPECT_FALSE(fit_loggp(kOneSidedPath, 10, two, one));
  EXPECT_FALSE(fit_loggp(kOneSidedPath, 10, none, two));
  EXPECT_FALSE(fit_loggp(kOneSidedPath, 10, bad, two));
}

// In virtual time: round trips of several sizes, and messages sent without a pause.
TEST(Fit, TheSimulationOfAFitBehavesAsFitted) {
  namespace sim = net::sim;
  constexpr net::HandlerId kEcho = net::kUserHandlers, kArrived = net::kUserHandlers + 1;
  constexpr int kMessages = 100;
  constexpr std::size_t kBytes = 1024;
  const LogGP network{1500, 200, 400, 0.5, 0, 0};
  sim::SimParams params;
  ASSERT_TRUE(sim::parse_sim_params(sim::sim_params_text(simulated(network)), &params).ok());
  sim::SimWorld world(params);
  std::vector<std::int64_t> arrivals_ns;
  struct Arrivals {
    sim::SimWorld& world;
    std::vector<std::int64_t>& times_ns;
  } arrivals{world, arrivals_ns};
  sim::run_scripts(world, [&](sim::SimTransport& transport) {
    transport.set_handler(
        kEcho,
        [](void* self, const net::Message& message) {
          static_cast<sim::SimTransport*>(self)->reply(message.token, message.payload, message.size_bytes);
        },
        &transport);
    transport.set_handler(
        kArrived,
        [](void* data, const net::Message&) {
          auto& all = *static_cast<Arrivals*>(data);
          all.times_ns.push_back(all.world.now_ns());
        },
        &arrivals);
    transport.start();
    net::barrier(transport);
    if (transport.self() == 0) {
      std::vector<std::byte> room(4096);
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{512}, room.size()}) {
        const std::int64_t start_ns = world.now_ns();
        ASSERT_TRUE(net::rpc(transport, 1, kEcho, room.data(), bytes, room.data(), bytes).ok());
        EXPECT_NEAR(static_cast<double>(world.now_ns() - start_ns),
                    network.latency_at(kRoundTripPath, static_cast<double>(bytes)), 4);
      }
      for (int i = 0; i < kMessages; ++i)
        ASSERT_TRUE(transport.try_message_async({1, kArrived, room.data(), kBytes, {}}));
    }
    net::barrier(transport);
  });
  ASSERT_EQ(arrivals_ns.size(), static_cast<std::size_t>(kMessages));
  EXPECT_EQ(arrivals_ns.back() - arrivals_ns.front(), (kMessages - 1) * std::llround(network.gap_at(kBytes)));
}

}  // namespace
}  // namespace bench
