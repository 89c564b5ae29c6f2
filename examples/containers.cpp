// SPDX-License-Identifier: Apache-2.0
// Ordinary C++ over several processes: containers, closures, smart pointers and virtual calls with the default
// allocator, made and changed by threads on other processes, read and freed here.
#include <ayatori/ayatori.hpp>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square final : Shape {
  explicit Square(double s) : side(s) {}
  double area() const override { return side * side; }
  double side;
};

// What one remote thread fills in.
struct Report {
  std::vector<int> squares;
  std::string text;
  std::map<std::string, int> lengths;
  std::unique_ptr<Shape> shape;
  std::function<int(int)> add;
};

void fill(Report& report, int k) {
  for (int i = 0; i < 1000; ++i) report.squares.push_back(k * i * i);
  report.text = "thread " + std::to_string(k) + " of a job, with a string too long to lie inside its object";
  for (const char* word : {"cat", "cradle", "string", "figure"}) report.lengths[word] = k;
  report.shape = std::make_unique<Square>(k);
  report.add = [k, offsets = std::vector<int>{1, 2, 3}](int x) { return x + k + offsets[2]; };
}

bool is_right(const Report& report, int k) {
  return report.squares.size() == 1000 && report.squares[999] == k * 999 * 999 && report.text.starts_with("thread ") &&
         report.lengths.size() == 4 && report.lengths.at("cradle") == k && report.shape->area() == k * k &&
         report.add(10) == 13 + k;
}

}  // namespace

int main(int argc, char** argv) {
  return ayatori::run(argc, argv, [](auto&&) {
    const int threads = 4 * ayatori::process_count();
    std::vector<Report> reports(static_cast<std::size_t>(threads));
    std::vector<ayatori::thread> children;
    for (int k = 0; k < threads; ++k)
      children.emplace_back(ayatori::on(k % ayatori::process_count()), fill, std::ref(reports[k]), k);
    for (ayatori::thread& child : children) child.join();

    int right = 0;
    for (int k = 0; k < threads; ++k) right += is_right(reports[k], k);

    // An exception crosses processes as it crosses threads.
    bool caught = false;
    ayatori::thread failing(ayatori::on(ayatori::process_count() - 1),
                            [] { throw std::runtime_error("from another process"); });
    try {
      failing.join();
    } catch (const std::runtime_error& error) {
      caught = std::string(error.what()) == "from another process";
    }

    std::printf("%d of %d reports are right, exception %s\ncheck: %s\n", right, threads, caught ? "caught" : "LOST",
                right == threads && caught ? "ok" : "FAILED");
    return right == threads && caught ? 0 : 1;
  });
}
