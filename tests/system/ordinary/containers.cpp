// SPDX-License-Identifier: Apache-2.0
// Containers and closures with the default allocator, grown, read and destroyed by different processes.
#include <any>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

CASE(vector_grows_on_every_process) {
  std::vector<std::string> v;
  for (int i = 0; i < kMigrations; ++i) {
    for (int k = 0; k < 10; ++k)
      v.push_back("a text too long for the small buffer, number " + std::to_string(i * 10 + k));
    migrate();
  }
  CHECK(v.size() == 10 * kMigrations);
  for (int i = 0; i < 10 * kMigrations; ++i)
    CHECK(v[static_cast<std::size_t>(i)] == "a text too long for the small buffer, number " + std::to_string(i));
  while (v.size() > 500) {
    v.pop_back();
    if (v.size() % 50 == 0) migrate();
  }
  v.shrink_to_fit();
  CHECK(v.back() == "a text too long for the small buffer, number 499");
}

CASE(containers_are_written_by_remote_children) {
  for (int i = 0; i < kMigrations; ++i) {
    std::vector<int> v;
    std::string s;
    std::map<int, std::string> m;
    std::deque<long> d;
    elsewhere([&] {
      v.assign(static_cast<std::size_t>(1 + i * 7), i);
      s.assign(static_cast<std::size_t>(i * 3), 'x');
      for (int k = 0; k < 20; ++k) m[k] = std::string(static_cast<std::size_t>(k), 'y');
      for (int k = 0; k < 100; ++k) d.push_front(k);
    });
    CHECK(v.size() == static_cast<std::size_t>(1 + i * 7) && v.back() == i);
    CHECK(s == std::string(static_cast<std::size_t>(i * 3), 'x'));
    CHECK(m.size() == 20 && m[19].size() == 19);
    CHECK(d.size() == 100 && d.back() == 0 && d.front() == 99);
    m.erase(7);
    d.clear();
    elsewhere([&] { m[7] = "again"; });
    CHECK(m[7] == "again");
  }
}

CASE(maps_and_lists_survive_migrations) {
  std::map<std::string, std::vector<int>> map;
  std::unordered_map<int, std::string> hash;
  std::set<int> set;
  std::list<std::string> list;
  for (int i = 0; i < kMigrations; ++i) {
    map["key " + std::to_string(i % 13)].push_back(i);
    hash[i] = std::to_string(i * i);
    set.insert(-i);
    list.push_front(std::to_string(i));
    if (i % 3 == 0 && !list.empty()) list.pop_back();
    migrate();
  }
  std::size_t n = 0;
  for (const auto& [key, values] : map) {
    n += values.size();
    CHECK(key == "key " + std::to_string(values.front() % 13));
  }
  CHECK(n == kMigrations && hash.size() == kMigrations && set.size() == kMigrations);
  for (int i = 0; i < kMigrations; ++i) CHECK(hash.at(i) == std::to_string(i * i) && set.count(-i) == 1);
  CHECK(list.front() == std::to_string(kMigrations - 1));
}

CASE(closures_are_called_elsewhere) {
  for (int i = 0; i < kMigrations; ++i) {
    auto owned = std::make_unique<std::vector<int>>(100, i);
    std::vector<int>* const address = owned.get();
    std::string name = "captured by value, and long enough for the heap";
    std::function<std::string(int)> f = [p = std::shared_ptr<std::vector<int>>(std::move(owned)), name](int x) {
      return name + std::to_string((*p)[50] + x);
    };
    const std::string got = elsewhere([&] { return f(1); });
    CHECK(got == name + std::to_string(i + 1));
    std::function<std::string(int)> g = elsewhere([&] { return std::exchange(f, nullptr); });
    CHECK(!f && g(2) == name + std::to_string(i + 2) && address->size() == 100);
    migrate();
  }
}

CASE(variants_optionals_and_any) {
  for (int i = 0; i < kMigrations; ++i) {
    std::variant<int, std::string, std::vector<long>> v;
    std::optional<std::string> o;
    std::any a;
    elsewhere([&] {
      if (i % 3 == 0) v = i;
      if (i % 3 == 1) v = std::string(60, 'v');
      if (i % 3 == 2) v = std::vector<long>(77, i);
      o.emplace(50, 'o');
      a = std::map<int, int>{{i, i + 1}};
    });
    CHECK(v.index() == static_cast<std::size_t>(i % 3));
    if (i % 3 == 1) CHECK(std::get<std::string>(v) == std::string(60, 'v'));
    if (i % 3 == 2) CHECK(std::get<2>(v)[76] == i);
    CHECK(o && o->size() == 50);
    CHECK((std::any_cast<std::map<int, int>&>(a)[i] == i + 1));
    migrate();
  }
}

CASE(vector_of_bool_and_bytes_side_by_side) {
  // Everybody's byte in everybody's word; each process writes its own ones.
  const int n = ayatori::process_count();
  std::vector<unsigned char> bytes(4096 * 2);
  for (int round = 1; round <= kMigrations / 10; ++round) {
    std::vector<ayatori::thread> threads;
    for (int p = 0; p < n; ++p)
      threads.emplace_back(ayatori::on(p), [&, p] {
        for (std::size_t i = static_cast<std::size_t>(p); i < bytes.size(); i += static_cast<std::size_t>(n))
          bytes[i] = static_cast<unsigned char>(round * 31 + p);
      });
    for (auto& t : threads) t.join();
    for (std::size_t i = 0; i < bytes.size(); ++i)
      CHECK(bytes[i] == static_cast<unsigned char>(round * 31 + static_cast<int>(i % static_cast<std::size_t>(n))));
    migrate();
  }
}
