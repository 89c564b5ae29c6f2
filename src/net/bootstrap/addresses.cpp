// SPDX-License-Identifier: Apache-2.0
#include "net/bootstrap/addresses.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace ayatori::net::bootstrap {
namespace {

// The bytes of an address: 4 or 16.
struct Number {
  std::array<unsigned char, 16> bytes{};
  std::size_t count = 0;

  friend bool operator==(const Number&, const Number&) = default;
};

struct Interface {
  std::string name;
  Number number;
  bool loopback = false;
};

Number number_of(const sockaddr* address) {
  Number number;
  if (address == nullptr) return number;
  if (address->sa_family == AF_INET) {
    number.count = 4;
    std::memcpy(number.bytes.data(), &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, 4);
  } else if (address->sa_family == AF_INET6) {
    number.count = 16;
    std::memcpy(number.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, 16);
  }
  return number;
}

Number parse(std::string_view text) {
  Number number;
  const std::string copy(text);
  if (inet_pton(AF_INET, copy.c_str(), number.bytes.data()) == 1)
    number.count = 4;
  else if (inet_pton(AF_INET6, copy.c_str(), number.bytes.data()) == 1)
    number.count = 16;
  return number;
}

std::string text_of(const Number& number) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(number.count == 4 ? AF_INET : AF_INET6, number.bytes.data(), text, sizeof text);
  return text;
}

bool is_link_local(const Number& number) {  // means nothing without its interface
  return number.count == 16 && number.bytes[0] == 0xfe && (number.bytes[1] & 0xc0) == 0x80;
}

// Those that are up, IPv4 first.
std::vector<Interface> interfaces() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const std::size_t count : {std::size_t{4}, std::size_t{16}}) {
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
      const Number number = number_of(each->ifa_addr);
      if (number.count != count || is_link_local(number) || (each->ifa_flags & IFF_UP) == 0) continue;
      found.push_back({each->ifa_name, number, (each->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  freeifaddrs(list);
  return found;
}

bool in_network(const Number& number, const Number& network, int bits) {
  if (number.count != network.count) return false;
  for (int bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if (((number.bytes[byte] ^ network.bytes[byte]) >> (7 - bit % 8) & 1) != 0) return false;
  }
  return true;
}

// "10.1.0.0/16"; false: it is none.
bool parse_network(std::string_view text, Number* network, int* bits) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return false;
  *network = parse(text.substr(0, slash));
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + slash + 1, end, *bits);
  return network->count != 0 && result.ec == std::errc{} && result.ptr == end && *bits >= 0 &&
         *bits <= static_cast<int>(8 * network->count);
}

const Interface* find_wanted(const std::vector<Interface>& all, std::string_view wanted) {
  Number network;
  int bits = 0;
  const bool is_network = parse_network(wanted, &network, &bits);
  const Number number = parse(wanted);
  for (const Interface& each : all) {
    if (is_network ? in_network(each.number, network, bits) : each.name == wanted || each.number == number)
      return &each;
  }
  return nullptr;
}

const Interface* find_number(const std::vector<Interface>& all, const Number& number) {
  const auto at = std::find_if(all.begin(), all.end(), [&](const Interface& each) { return each.number == number; });
  return at != all.end() && !at->loopback ? &*at : nullptr;
}

const Interface* find_host(const std::vector<Interface>& all, std::string_view host) {
  if (host.empty()) return nullptr;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(std::string(host).c_str(), nullptr, &hints, &list) != 0) return nullptr;
  const Interface* found = nullptr;
  for (const addrinfo* each = list; each != nullptr && found == nullptr; each = each->ai_next)
    found = find_number(all, number_of(each->ai_addr));
  freeaddrinfo(list);
  return found;
}

// Which address would the kernel send from, to somewhere far away? Nothing is sent.
const Interface* find_default_route(const std::vector<Interface>& all) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return nullptr;
  sockaddr_in far{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);  // reserved for documents
  sockaddr_storage mine{};
  socklen_t bytes = sizeof mine;
  const bool routed = ::connect(fd, reinterpret_cast<const sockaddr*>(&far), sizeof far) == 0 &&
                      ::getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &bytes) == 0;
  ::close(fd);
  return routed ? find_number(all, number_of(reinterpret_cast<const sockaddr*>(&mine))) : nullptr;
}

std::string list_of(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& each : all)
    text += base::formatted("{}{} ({})", text.empty() ? "" : ", ", each.name, text_of(each.number));
  return text.empty() ? "none" : text;
}

}  // namespace

std::string addresses_text() { return list_of(interfaces()); }

base::Status choose_address(std::string_view wanted, std::string_view host, ChosenAddress* address) {
  const std::vector<Interface> all = interfaces();
  const Interface* found = nullptr;
  if (!wanted.empty()) {
    found = find_wanted(all, wanted);
    if (found == nullptr)
      return base::error_status(base::Code::kInvalid,
                                "AYATORI_NET_INTERFACE={}: no interface here has this name, address or network; "
                                "there are: {}",
                                wanted, list_of(all));
  }
  if (found == nullptr) found = find_host(all, host);
  if (found == nullptr) found = find_default_route(all);
  if (found == nullptr) {
    const auto at = std::find_if(all.begin(), all.end(), [](const Interface& each) { return !each.loopback; });
    if (at != all.end()) found = &*at;
  }
  if (found == nullptr)
    return base::error_status(base::Code::kUnavailable,
                              "other machines cannot reach this one: it has no address but loopback");
  *address = {text_of(found->number), found->name};
  return base::ok_status();
}

}  // namespace ayatori::net::bootstrap
