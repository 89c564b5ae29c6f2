// SPDX-License-Identifier: Apache-2.0
// parallel_for, parallel_reduce and the scans.
#include <array>
#include <deque>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "cases.hpp"

namespace {

constexpr std::size_t kLengths[] = {0, 1, 2, 3, 7, 64, 97, 1009, 20011};

struct Visit {
  int times = 0;
  unsigned processes = 0;
};

// call(length, f) calls f(i) for 0 <= i < length.
template <class Call>
void visits_each(Call call) {
  for (const std::size_t length : kLengths) {
    std::vector<Visit> visits(length + 1);
    call(length, [&](std::size_t i) { ++visits[i].times; });
    for (std::size_t i = 0; i < length; ++i) CHECK(visits[i].times == 1);
    CHECK(visits[length].times == 0);
  }
}

template <class Call>
unsigned is_shared(Call call) {
  std::vector<Visit> visits(97);
  call(visits.size(), [&](std::size_t i) {
    spin(20);
    ++visits[i].times;
    visits[i].processes |= here();
  });
  unsigned processes = 0;
  for (const Visit& v : visits) {
    CHECK(v.times == 1);
    processes |= v.processes;
  }
  return processes;
}

void for_loops() {
  const auto automatic = [](std::size_t n, auto f) { ayatori::parallel_for(std::size_t{0}, n, f); };
  const auto one = [](std::size_t n, auto f) { ayatori::parallel_for(std::size_t{0}, n, 1, f); };
  const auto some = [](std::size_t n, auto f) { ayatori::parallel_for(0, n, 5U, f); };
  const auto nested = [](std::size_t n, auto f) {
    const std::size_t row = 1 + n / 10;
    ayatori::parallel_for(std::size_t{0}, (n + row - 1) / row,
                          [&](std::size_t r) { ayatori::parallel_for(r * row, std::min(n, (r + 1) * row), f); });
  };
  const auto all = [&](auto call) {
    visits_each(call);
    SHARED(3, [&] { return is_shared(call); });
  };
  all(automatic);
  all(one);
  all(some);
  all(nested);

  // Iterators; what is written lies in a local array, a deque, a vector.
  std::array<int, 1009> array{};
  std::deque<int> deque(1009);
  std::vector<unsigned char> bytes(1009);
  SHARED(3, [&] {
    unsigned processes = 0;
    array.fill(0);
    std::fill(deque.begin(), deque.end(), 0);
    std::fill(bytes.begin(), bytes.end(), 0);
    ayatori::parallel_for(array.data(), array.data() + array.size(), 3, [&](int& x) {
      spin(1);
      x = static_cast<int>(&x - array.data()) + ayatori::process_id() * 10000;
    });
    ayatori::parallel_for(deque.begin(), deque.end(), [](int& x) { x += 5; });
    ayatori::parallel_for(bytes.begin(), bytes.end(), 1, [](unsigned char& x) { x += 7; });
    for (std::size_t i = 0; i < array.size(); ++i) {
      CHECK(array[i] % 10000 == static_cast<int>(i) && deque[i] == 5 && bytes[i] == 7);
      processes |= 1u << (array[i] / 10000);
    }
    return processes;
  });
  std::vector<int> empty;
  ayatori::parallel_for(empty.begin(), empty.end(), [](int&) { CHECK(!"called"); });
  ayatori::parallel_for(5, 3, 1, [](int) { CHECK(!"called"); });

  // All values of small and of signed types.
  std::array<int, 256> seen{};
  ayatori::parallel_for(static_cast<signed char>(-128), static_cast<signed char>(127),
                        [&](int i) { ++seen[static_cast<std::size_t>(i) + 128]; });
  for (std::size_t i = 0; i < 255; ++i) CHECK(seen[i] == 1);
  CHECK(seen[255] == 0);

  // Unequal iterations, of which the first ones take no time.
  SHARED(3, [&] {
    std::vector<unsigned> where(3000);
    ayatori::parallel_for(std::size_t{0}, where.size(), [&](std::size_t i) {
      if (i > 2900) spin(50);
      where[i] = here();
    });
    unsigned processes = 0;
    for (const unsigned w : where) {
      CHECK(w != 0);
      processes |= w;
    }
    return processes;
  });
}

struct Thrown {
  int value;
};

// An exception comes back after everything that began has ended.
void exceptions() {
  struct Part {
    char began = 0, ended = 0;
    unsigned processes = 0;
  };
  const auto expect = [](auto call) {
    SHARED(3, [&] {
      std::vector<Part> parts(211);
      const auto body = [&](std::size_t i) {
        struct End {
          Part& part;
          ~End() { part.ended = 1; }
        } end{parts[i]};
        parts[i].began = 1;
        parts[i].processes = here();
        spin(5);
        if (i % 50 == 3) throw Thrown{static_cast<int>(i)};
        return long{1};
      };
      try {
        call(parts.size(), body);
        CHECK(!"it returned");
      } catch (const Thrown& thrown) {
        CHECK(thrown.value % 50 == 3);
      }
      unsigned processes = 0;
      for (const Part& p : parts) {
        CHECK(p.began == p.ended);
        processes |= p.processes;
      }
      return processes;
    });
  };
  expect([](std::size_t n, auto& f) { ayatori::parallel_for(std::size_t{0}, n, f); });
  expect([](std::size_t n, auto& f) { ayatori::parallel_for(std::size_t{0}, n, 1, f); });
  expect([](std::size_t n, auto& f) { ayatori::parallel_reduce(std::size_t{0}, n, 0L, f, std::plus<>()); });
  expect([](std::size_t n, auto& f) {
    std::vector<std::size_t> v(n);
    std::iota(v.begin(), v.end(), std::size_t{0});
    ayatori::parallel_inclusive_scan(v.begin(), v.end(), v.begin(), [&](std::size_t, std::size_t b) {
      if (b < n) f(b);  // in the first pass operands are elements and sums of them
      return b;
    });
  });
}

// Associates, does not commute.
struct Matrix {
  std::uint64_t a = 1, b = 0, c = 0, d = 1;
  friend Matrix operator*(const Matrix& l, const Matrix& r) {
    return {l.a * r.a + l.b * r.c, l.a * r.b + l.b * r.d, l.c * r.a + l.d * r.c, l.c * r.b + l.d * r.d};
  }
  friend bool operator==(const Matrix&, const Matrix&) = default;
};

struct Text {  // a string, and where it was put together
  std::string text;
  unsigned processes = 0;
  friend Text operator+(Text l, const Text& r) {
    l.text += r.text;
    l.processes |= r.processes | here();
    return l;
  }
};

std::string letters(std::size_t length) {
  std::string s(length, ' ');
  for (std::size_t i = 0; i < length; ++i) s[i] = static_cast<char>('!' + i * i % 90);
  return s;
}

void reductions() {
  for (const std::size_t length : kLengths) {
    const std::string s = letters(length);
    const auto text = [&s](std::size_t i) { return std::string(1, s[i]); };
    CHECK(ayatori::parallel_reduce(std::size_t{0}, length, std::string(), text, std::plus<>()) == s);
    CHECK(ayatori::parallel_reduce(std::size_t{0}, length, 3, std::string(), text, std::plus<>()) == s);
    std::vector<Matrix> m(length);
    Matrix product;
    for (std::size_t i = 0; i < length; ++i) {
      m[i] = {i, 1, i * i, 3};
      product = product * m[i];
    }
    CHECK(ayatori::parallel_reduce(m.begin(), m.end(), Matrix(), std::identity(), std::multiplies<>()) == product);
    CHECK(ayatori::parallel_reduce(m.data(), m.data() + length, 1, Matrix(), std::identity(), std::multiplies<>()) ==
          product);
  }
  const std::string s = letters(499);
  SHARED(3, [&] {
    const Text whole = ayatori::parallel_reduce(
        s.begin(), s.end(), Text(),
        [](char c) {
          spin(5);
          return Text{std::string(1, c), here()};
        },
        std::plus<>());
    CHECK(whole.text == s);
    return whole.processes;
  });
  // The same to the last bit, whoever stole what.
  double first = 0;
  SHARED(5, [&] {
    std::vector<unsigned> where(4001);
    const double sum = ayatori::parallel_reduce(
        1, 4001, 10, 0.0,
        [&](int i) {
          where[static_cast<std::size_t>(i)] = here();
          if (i % 40 == 0) spin(20);
          return 1.0 / i;
        },
        std::plus<>());
    CHECK(first == 0 || sum == first);
    first = sum;
    return std::accumulate(where.begin(), where.end(), 0u, std::bit_or<>());
  });
}

}  // namespace

void loops() {
  for_loops();
  exceptions();
  reductions();
}

void scans() {
  for (const std::size_t length : kLengths) {
    std::vector<Matrix> m(length), expected(length), result(length + 1), again;
    for (std::size_t i = 0; i < length; ++i) m[i] = {i + 2, 1, i * i, 3};
    const Matrix start{3, 4, 5, 6};
    const auto times = std::multiplies<>();
    const auto is_expected = [&] {
      CHECK(std::equal(expected.begin(), expected.end(), result.begin()));
      CHECK(result[length] == Matrix());
    };
    std::inclusive_scan(m.begin(), m.end(), expected.begin(), times);
    CHECK(ayatori::parallel_inclusive_scan(m.begin(), m.end(), result.begin(), times) == result.end() - 1);
    is_expected();
    again = m;
    ayatori::parallel_inclusive_scan(again.begin(), again.end(), again.begin(), times);
    CHECK(again == expected);

    std::inclusive_scan(m.begin(), m.end(), expected.begin(), times, start);
    ayatori::parallel_inclusive_scan(m.begin(), m.end(), result.begin(), times, start);
    is_expected();

    std::exclusive_scan(m.begin(), m.end(), expected.begin(), start, times);
    CHECK(ayatori::parallel_exclusive_scan(m.begin(), m.end(), result.begin(), start, times) == result.end() - 1);
    is_expected();
    again = m;
    ayatori::parallel_exclusive_scan(again.data(), again.data() + length, again.data(), start, times);
    CHECK(again == expected);
  }
  const std::vector<int> ones(1009, 1);
  std::vector<long> sums(ones.size());
  ayatori::parallel_inclusive_scan(ones.begin(), ones.end(), sums.begin());
  CHECK(sums.front() == 1 && sums.back() == 1009);
  ayatori::parallel_exclusive_scan(ones.begin(), ones.end(), sums.begin(), 5L);
  CHECK(sums.front() == 5 && sums.back() == 1013);

  SHARED(3, [&] {
    const std::string s = letters(199);
    std::vector<Text> texts(s.size());
    for (std::size_t i = 0; i < s.size(); ++i) texts[i] = {std::string(1, s[i]), 0};
    ayatori::parallel_inclusive_scan(texts.begin(), texts.end(), texts.begin(), [](Text l, const Text& r) {
      spin(5);
      return std::move(l) + r;
    });
    for (std::size_t i = 0; i < s.size(); ++i) CHECK(texts[i].text == s.substr(0, i + 1));
    return texts.back().processes;
  });
}
