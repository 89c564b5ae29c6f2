// SPDX-License-Identifier: Apache-2.0
// The two ways of docs/memory-model.md to publish data without a join or a mutex.
#include <ayatori/ayatori.hpp>
#include <cstdio>

struct Box {
  // [flag]
  long data = 0;
  ayatori::atomic<int> ready{0};

  void produce() {
    data = 42;
    ready.store(1);  // seq_cst or release: sends what this process wrote
  }
  long consume() {
    while (ready.load() == 0) ayatori::this_thread::yield();  // seq_cst or acquire: looks again at what it cached
    return data;                                              // 42
  }
  // [/flag]
};

// [count]
ayatori::global<ayatori::atomic<long>> hits;  // one object for all processes

void hit() { hits->fetch_add(1, std::memory_order_relaxed); }  // relaxed: no release, no acquire
// [/count]

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto) {
    Box box;
    long got = 0;
    ayatori::thread consumer(ayatori::on(ayatori::process_count() - 1), [&] { got = box.consume(); });
    ayatori::thread producer(ayatori::on(0), [&] { box.produce(); });
    producer.join();
    consumer.join();
    ayatori::parallel_for(0, 100, 1, [](int) { hit(); });
    const bool ok = got == 42 && hits->load() == 100;
    std::printf("%ld %ld\ncheck: %s\n", got, hits->load(), ok ? "ok" : "FAILED");
    return ok ? 0 : 1;
  });
}
