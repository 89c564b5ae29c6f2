// SPDX-License-Identifier: Apache-2.0
#include "picture.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "json.hpp"
#include "process.hpp"

namespace bench {

bool can_draw(const std::string& folder) {
  if ((mkdir(folder.c_str(), 0777) == 0 || errno == EEXIST) && access(folder.c_str(), W_OK | X_OK) == 0) return true;
  std::fprintf(stderr, "ayatori-bench: %s: %s\n", folder.c_str(), std::strerror(errno));
  return false;
}

bool draw(const std::string& folder, const Picture& picture) {
  std::string data;
  for (const Curve& curve : picture.curves) {
    data += "\"" + curve.title + "\"\n";
    for (const Point& point : curve.points) {
      char line[160];
      std::snprintf(line, sizeof line, "%g %g %g %g\n", point.x, median(point.values), quantile(point.values, 0.25),
                    quantile(point.values, 0.75));
      data += line;
    }
    data += "\n\n";
  }
  const std::string script = "# gnuplot " + picture.name + ".gp, in this folder, draws it again.\n" +
                             "set grid\nset key outside right\nset logscale x 2\nset yrange [0:*]\nset bars small\n"
                             "set title '" +
                             picture.title + "'\nset xlabel '" + picture.x + "'\nset ylabel '" + picture.y + "'\n" +
                             "do for [kind in 'svg png'] {\n"
                             "  if (kind eq 'svg') { set terminal svg size 800,480 } else { set terminal pngcairo size "
                             "800,480 }\n"
                             "  set output '" +
                             picture.name + ".'.kind\n  plot for [i=0:" + std::to_string(picture.curves.size() - 1) +
                             "] '" + picture.name +
                             ".dat' index i using 1:2:3:4 with yerrorlines title columnheader(1)\n}\n";
  if (!write_text(folder + "/" + picture.name + ".dat", data) ||
      !write_text(folder + "/" + picture.name + ".gp", script))
    return false;
  const Outcome outcome =
      run({{"/bin/sh", "-c", "command -v gnuplot >/dev/null || exit 77; cd \"$1\" && exec gnuplot \"$2.gp\"", "sh",
            folder, picture.name}},
          60);
  if (outcome.status == 77)
    std::fprintf(stderr, "ayatori-bench: no pictures: gnuplot is not installed (Debian: gnuplot-nox)\n");
  else if (!outcome.ok())
    std::fprintf(stderr, "ayatori-bench: gnuplot: %s\n", outcome.err.c_str());
  return outcome.ok() || outcome.status == 77;
}

}  // namespace bench
