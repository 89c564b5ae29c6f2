// SPDX-License-Identifier: Apache-2.0
// Smart pointers, virtual calls, run-time types, and memory that one process makes and another one frees.
#include <cstdint>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <typeinfo>
#include <vector>

#include <ayatori/ayatori.h>

#include "suite.hpp"

using suite::elsewhere;
using suite::kMigrations;
using suite::migrate;

namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square : Shape {
  explicit Square(double s) : side(s) {}
  double area() const override { return side * side; }
  double side;
};
struct Named {
  virtual ~Named() = default;
  virtual std::string name() const { return "named"; }
};
struct Disc : Shape, virtual Named {
  explicit Disc(double r) : radius(r) {}
  double area() const override { return 3 * radius * radius; }
  std::string name() const override { return "a disc with a name that is long"; }
  double radius;
};

struct Node {
  std::unique_ptr<Node> next;
  int value = 0;
};

}  // namespace

CASE(virtual_calls_and_run_time_types) {
  for (int i = 0; i < kMigrations; ++i) {
    std::vector<std::unique_ptr<Shape>> shapes;
    elsewhere([&] {
      shapes.push_back(std::make_unique<Square>(i));
      shapes.push_back(std::make_unique<Disc>(i));
    });
    CHECK(shapes[0]->area() == static_cast<double>(i) * i && shapes[1]->area() == 3.0 * i * i);
    const Shape& first = *shapes[0];
    const Shape& second = *shapes[1];
    CHECK(typeid(first) == typeid(Square) && typeid(second) != typeid(Square));
    CHECK(dynamic_cast<Square*>(shapes[1].get()) == nullptr);
    auto* named = dynamic_cast<Named*>(shapes[1].get());
    CHECK(named != nullptr && named->name() == "a disc with a name that is long");
    migrate();
    CHECK(dynamic_cast<Disc*>(named) != nullptr);
  }
}

CASE(unique_pointers_in_a_chain_of_owners) {
  std::unique_ptr<Node> list;
  for (int i = 0; i < kMigrations; ++i) {
    auto node = std::make_unique<Node>();
    node->value = i;
    node->next = std::move(list);
    list = std::move(node);
    migrate();
  }
  int want = kMigrations - 1;
  for (Node* n = list.get(); n; n = n->next.get()) CHECK(n->value == want--);
  CHECK(want == -1);
  while (list) {
    list = std::move(list->next);
    if (want-- % 10 == 0) migrate();
  }
}

CASE(shared_pointers_with_one_owner_at_a_time) {
  std::weak_ptr<std::vector<int>> weak;
  for (int i = 0; i < kMigrations; ++i) {
    auto a = std::make_shared<std::vector<int>>(10, i);
    weak = a;
    auto b = elsewhere([&] { return std::move(a); });
    CHECK(!a && b.use_count() == 1 && (*b)[9] == i);
    auto c = b;
    migrate();
    CHECK(c.use_count() == 2 && weak.lock() == b);
    b.reset();
    elsewhere([&] { c.reset(); });
    CHECK(weak.expired());
  }
}

CASE(memory_of_one_process_is_freed_by_another) {
  for (int i = 0; i < kMigrations; ++i) {
    const auto size = static_cast<std::size_t>(1) << (i % 22);
    auto* array = new char[size];
    std::memset(array, i, size);
    auto* number = new long(i);
    void* raw = ayatori_malloc(size);
    std::memset(raw, i + 1, size);
    auto* quiet = new (std::nothrow) int[5]{1, 2, 3, 4, i};
    elsewhere([&] {
      CHECK(array[size - 1] == static_cast<char>(i) && *number == i && quiet[4] == i);
      delete[] array;
      delete number;
      delete[] quiet;
      raw = ayatori_realloc(raw, size * 2);
      auto* bytes = static_cast<unsigned char*>(raw);
      CHECK(bytes[0] == static_cast<unsigned char>(i + 1) && bytes[size - 1] == static_cast<unsigned char>(i + 1));
      bytes[size * 2 - 1] = 77;
    });
    CHECK(static_cast<unsigned char*>(raw)[size * 2 - 1] == 77);
    ayatori_free(raw);
    void* zeros = ayatori_calloc(size, 1);
    for (std::size_t k = 0; k < size; k += 1 + size / 64) CHECK(static_cast<char*>(zeros)[k] == 0);
    migrate();
    ayatori_free(zeros);
  }
}

namespace {

template <std::size_t Align>
struct alignas(Align) Aligned {
  unsigned char bytes[Align / 2 + 1];
};

template <std::size_t Align>
void aligned_everywhere(int i) {
  using Type = Aligned<Align>;
  const auto is_aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % Align == 0; };
  Type on_stack{};
  CHECK(is_aligned(&on_stack));
  auto heap = std::make_unique<Type>();
  CHECK(is_aligned(heap.get()));
  std::vector<Type> many(3);
  CHECK(is_aligned(many.data()));
  heap->bytes[Align / 2] = static_cast<unsigned char>(i);
  Type captured{};
  captured.bytes[0] = static_cast<unsigned char>(i);
  elsewhere([&, captured] {  // lies on the new thread's stack
    Type local{};
    CHECK(is_aligned(&captured) && is_aligned(&local) && captured.bytes[0] == static_cast<unsigned char>(i));
    on_stack.bytes[0] = heap->bytes[Align / 2];
    heap.reset();
    many.emplace_back();
  });
  ayatori::thread([&](const Type& argument) { CHECK(is_aligned(&argument) && argument.bytes[0] == captured.bytes[0]); },
                  captured)
      .join();
  CHECK(on_stack.bytes[0] == static_cast<unsigned char>(i) && is_aligned(many.data()) && many.size() == 4);
}

}  // namespace

CASE(aligned_types_on_stacks_and_heap) {
  for (int i = 0; i < kMigrations / 10; ++i) {
    aligned_everywhere<64>(i);
    aligned_everywhere<256>(i);
    aligned_everywhere<1024>(i);
    aligned_everywhere<4096>(i);
    migrate();
  }
}

CASE(polymorphic_memory_resources) {
  for (int i = 0; i < kMigrations; ++i) {
    std::pmr::monotonic_buffer_resource arena(1000, ayatori::space_resource());
    std::pmr::vector<std::pmr::string> v(&arena);
    elsewhere([&] {
      for (int k = 0; k < 30; ++k)
        v.emplace_back("a string in an arena, long enough to be there").append(std::to_string(k));
    });
    CHECK(v.size() == 30 && v[29] == "a string in an arena, long enough to be there29");
    CHECK(ayatori::in_space(v[29].data()));
    std::pmr::unsynchronized_pool_resource pool(ayatori::space_resource());
    std::pmr::vector<int> numbers(&pool);
    for (int k = 0; k < 1000; ++k) numbers.push_back(k);
    migrate();
    CHECK(numbers[999] == 999);
    std::vector<int, ayatori::allocator<int>> explicitly(500, i);
    CHECK(ayatori::in_space(explicitly.data()) && ayatori::in_space(numbers.data()));
  }
}

CASE(memory_is_in_the_space_on_threads) {
  static int of_this_process;
  auto p = std::make_unique<int>(1);
  int local = 0;
  CHECK(ayatori::in_space(p.get()) && ayatori::in_space(&local) && !ayatori::in_space(&of_this_process));
  // Containers that were written before the fork of other threads, in a loop of sizes around the classes' borders.
  for (int i = 0; i < kMigrations; ++i) {
    const auto size = static_cast<std::size_t>(i * i * 13 + 1);
    std::vector<unsigned char> v(size, static_cast<unsigned char>(i));
    CHECK(elsewhere([&] { return v.front() == static_cast<unsigned char>(i) && v.back() == v.front(); }));
    elsewhere([&] { std::vector<unsigned char>().swap(v); });
    migrate();
  }
}
