// SPDX-License-Identifier: Apache-2.0
// join_launched(): each member fills its card in the control memory and waits for those of all others. The launcher ends the
// job when a member ends before that (tools/ayatori/job.cpp); between machines it carries the cards.
#include <algorithm>
#include <string>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "net/bootstrap/internal.hpp"
#include "net/bootstrap/membership.hpp"

namespace ayatori::net::bootstrap {
namespace {

constexpr std::int64_t kLookNs = 100 * base::kNsPerMs;

bool is_filled(const JobControl& control, int process) {
  return control.card_filled[process].load(std::memory_order_acquire) != 0;  // pairs with whoever filled it
}

bool all_filled(const JobControl& control) {
  for (int p = 0; p < control.job_processes; ++p)
    if (!is_filled(control, p)) return false;
  return true;
}

std::string missing_text(const JobControl& control) {
  constexpr int kNamedMax = 8;
  std::string text;
  int missing = 0;
  for (int p = 0; p < control.job_processes; ++p)
    if (!is_filled(control, p) && ++missing <= kNamedMax)
      text += base::formatted("{}{}{}", text.empty() ? "" : ", ", p,
                              control.cards[p].host[0] != '\0' ? base::formatted(" on {}", control.cards[p].host) : "");
  if (missing > kNamedMax) text += base::formatted(" and {} more", missing - kNamedMax);
  return (missing == 1 ? "process " : "processes ") + text;
}

}  // namespace

base::Status join_launched(const MakeCard& make_card, std::int64_t timeout_ns, Membership* result) {
  JobControl& control = *job().control;
  result->self = control.first_process + job().process_id;
  result->processes = control.job_processes;
  result->secret = control.secret;
  result->job = control.job_id;
  if (result->processes == 1) return base::ok_status();

  if (is_filled(control, result->self))
    return base::error_status(base::Code::kInvalid,
                              "on several hosts a job has one network: ayatori::run's or that of ayatori::net::open");
  Card& mine = control.cards[result->self];
  if (base::Status status = make_card((control.flags & kLoopback) != 0, &mine); !status.ok()) return status;
  control.card_filled[result->self].store(1, std::memory_order_release);  // pairs with is_filled()
  control.cards_filled.fetch_add(1, std::memory_order_release);           // after it; pairs with the load below
  base::futex_wake(control.cards_filled, base::kAllWaiters);
  if ((control.flags & kWide) != 0) internal::notify_launcher();

  const std::int64_t deadline_ns = base::real_now_ns() + timeout_ns;
  while (true) {
    const std::uint32_t before = control.cards_filled.load(std::memory_order_acquire);  // pairs with each fetch_add
    if (all_filled(control)) break;
    const std::int64_t left_ns = deadline_ns - base::real_now_ns();
    if (job_ending()) return base::error_status(base::Code::kPeerLost, "the job ends");
    if (left_ns <= 0)
      return base::error_status(base::Code::kTimeout,
                                "{} did not call ayatori::net::open within {} s (AYATORI_START_TIMEOUT)",
                                missing_text(control), timeout_ns / base::kNsPerSecond);
    base::futex_wait(control.cards_filled, before, std::min(left_ns, kLookNs));
  }
  result->cards.assign(control.cards, control.cards + result->processes);
  return base::ok_status();
}

}  // namespace ayatori::net::bootstrap
