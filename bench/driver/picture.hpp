// SPDX-License-Identifier: Apache-2.0
// A picture of a comparison: FOLDER/NAME.dat, FOLDER/NAME.gp that draws it again, and, where gnuplot is installed,
// NAME.png and NAME.svg.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results.hpp"

namespace bench {

struct Point {
  double x = 0;
  std::vector<double> values;  // of the repetitions
};
struct Curve {
  std::string title;
  std::vector<Point> points;
};
struct Picture {
  std::string name, title, x, y;
  std::vector<Curve> curves;
};

bool can_draw(const std::string& folder);  // makes the folder; false after a message
bool draw(const std::string& folder, const Picture& picture);

}  // namespace bench
