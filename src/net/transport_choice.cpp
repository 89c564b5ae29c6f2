// SPDX-License-Identifier: Apache-2.0
#include "net/transport_choice.hpp"

#include <algorithm>
#include <iterator>

namespace ayatori::net {

base::Status choose_transport(std::string_view name, bool several_hosts, TransportChoice* choice) {
  struct Row {
    std::string_view name;
    TransportChoice choice;
  };
  static constexpr Row kRows[] = {{"shm", {true, Wire::kNone}},
                                  {"tcp", {false, Wire::kTcp}},
                                  {"ucx", {false, Wire::kUcx}},
                                  {"shm+tcp", {true, Wire::kTcp}},
                                  {"shm+ucx", {true, Wire::kUcx}}};
  if (name == "auto") name = several_hosts ? "shm+tcp" : "shm";
  const auto row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  if (row == std::end(kRows))
    return base::error_status(base::Code::kInvalid,
                              "there is no transport {}; there are auto, shm, tcp, ucx, shm+tcp, shm+ucx", name);
  if (several_hosts && row->choice.wire == Wire::kNone)
    return base::error_status(base::Code::kInvalid,
                              "AYATORI_TRANSPORT=shm does not reach the job's other hosts: use shm+tcp or shm+ucx");
  *choice = row->choice;
  return base::ok_status();
}

}  // namespace ayatori::net
