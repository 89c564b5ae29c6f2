// SPDX-License-Identifier: Apache-2.0
// UCX as the transport would load it (net/ucx/library.hpp).
#include <dlfcn.h>

#include <cstdio>

#include "base/clock.hpp"
#include "child.hpp"
#include "doctor_network.hpp"
#include "net/ucx/library.hpp"

namespace ayatori::tool {
namespace {

constexpr std::int64_t kWithinNs = 5 * base::kNsPerSecond;

// In the child.
int print_ucx() {
  namespace ucx = net::ucx;
  const ucx::Library* library = nullptr;
  if (const base::Status status = ucx::load_library(&library); !status.ok()) {
    std::printf("-%s\n", status.message().c_str());
    return std::fflush(stdout);
  }
  std::printf("%s\n", library->get_version_string());
  std::fflush(stdout);
  // Loaded already; of this function there is no need elsewhere.
  void* const ucp = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  const auto print_info = reinterpret_cast<decltype(&ucp_context_print_info)>(dlsym(ucp, "ucp_context_print_info"));
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  if (print_info != nullptr &&
      library->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, nullptr, &context) == UCS_OK)
    print_info(context, stdout);
  return std::fflush(stdout);
}

}  // namespace

bool ask_ucx(std::string* text, bool* built) {
  *built = true;
  const std::optional<std::string> said = ask_child(kWithinNs, print_ucx);
  *text = said.value_or("it does not start, or takes longer than 5 s");
  const bool refused = said && said->starts_with('-');
  if (refused) *text = said->substr(1, said->find('\n') - 1);
  return said && !refused && !said->empty();
}

}  // namespace ayatori::tool
