// SPDX-License-Identifier: Apache-2.0
// The picture of nbody; see picture.hpp. Called once, on process 0, after the measured part.
//
// Each body is a glow as wide as the distance to its neighbours along the Morton curve, and a point of light. The glow's
// density goes through a logarithm, mean speed picks a colour between blue and white-gold; points are added on top.
#include "picture.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace nbody {
namespace {

struct Pixel {
  float density = 0, speed = 0;  // of the glow; speed is weighted with the density
  float points = 0;
};

struct Colour {
  double r, g, b;
};

// From slow to fast.
constexpr std::array<Colour, 6> kColours = {{{0.16, 0.20, 0.75},
                                             {0.33, 0.30, 0.95},
                                             {0.75, 0.35, 0.85},
                                             {1.00, 0.50, 0.45},
                                             {1.00, 0.78, 0.40},
                                             {1.00, 0.96, 0.85}}};

Colour colour_at(double t) {
  t = std::clamp(t, 0.0, 1.0) * (kColours.size() - 1);
  const std::size_t i = std::min(static_cast<std::size_t>(t), kColours.size() - 2);
  const double f = t - static_cast<double>(i);
  const Colour &a = kColours[i], &b = kColours[i + 1];
  return {a.r + f * (b.r - a.r), a.g + f * (b.g - a.g), a.b + f * (b.b - a.b)};
}

// The q-quantile of values, which it reorders.
template <class T>
T quantile(std::vector<T>& values, double q) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

class Canvas {
 public:
  Canvas(int pixels, double half_width)
      : image(static_cast<std::size_t>(pixels) * static_cast<std::size_t>(pixels)),
        pixels_(pixels),
        half_(half_width),
        scale_(pixels / (2 * half_width)) {}

  double scale() const { return scale_; }  // pixels a unit of length

  // add(pixel, weight) for the pixels of a Gaussian of width sigma (in pixels) around p; weights sum up to 1.
  template <class Add>
  void splat(Vec p, double sigma, Add add) {
    const int left = profile(across_, (p.x + half_) * scale_, sigma),
              top = profile(down_, (half_ - p.y) * scale_, sigma);
    for (std::size_t v = 0; v < down_.size(); ++v) {
      Pixel* row = &image[(static_cast<std::size_t>(top) + v) * static_cast<std::size_t>(pixels_) +
                          static_cast<std::size_t>(left)];
      for (std::size_t u = 0; u < across_.size(); ++u) add(row[u], across_[u] * down_[v]);
    }
  }

  std::vector<Pixel> image;

 private:
  int clip(double v) const { return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(pixels_))); }
  // One axis of a Gaussian around `middle`, cut off at the edges: its weights, from the returned pixel on.
  int profile(std::vector<float>& weights, double middle, double sigma) const {
    const int first = clip(middle - 3 * sigma), last = clip(middle + 3 * sigma + 1);
    weights.clear();
    for (int i = first; i < last; ++i) {
      const double d = (i + 0.5 - middle) / sigma;
      weights.push_back(static_cast<float>(std::exp(-d * d / 2) / (sigma * std::sqrt(2 * std::numbers::pi))));
    }
    return first;
  }

  int pixels_;
  double half_, scale_;
  std::vector<float> across_, down_;  // scratch of splat
};

std::vector<Pixel> draw(const Body* bodies, std::int64_t n, int pixels) {
  std::vector<double> radii;
  for (std::int64_t i = 0; i < n; ++i) radii.push_back(std::hypot(bodies[i].position.x, bodies[i].position.y));
  const double half = 1.8 * std::max(quantile(radii, 0.85), 1e-9);
  Canvas canvas(pixels, half);
  for (std::int64_t i = 0; i < n; ++i) {
    double spacing = 0;
    int neighbours = 0;
    for (std::int64_t j = std::max<std::int64_t>(0, i - 12); j <= std::min(n - 1, i + 12); ++j, ++neighbours) {
      const Vec d = bodies[j].position - bodies[i].position;
      spacing += std::min(std::sqrt(dot(d, d)), half);
    }
    const double sigma = std::clamp(0.5 * canvas.scale() * spacing / neighbours, 1.0, pixels / 24.0);
    const auto speed = static_cast<float>(std::sqrt(dot(bodies[i].velocity, bodies[i].velocity)));
    canvas.splat(bodies[i].position, sigma, [speed](Pixel& pixel, float w) {
      pixel.density += w;
      pixel.speed += w * speed;
    });
    canvas.splat(bodies[i].position, pixels / 1400.0, [](Pixel& pixel, float w) { pixel.points += w; });
  }
  return std::move(canvas.image);
}

}  // namespace

const char* write_picture(const char* path, const Body* bodies, std::int64_t n, int pixels) {
  const std::vector<Pixel> image = draw(bodies, n, pixels);
  std::vector<float> speeds, densities;
  for (const Pixel& p : image)
    if (p.density > 1e-7f) {
      densities.push_back(p.density);
      speeds.push_back(p.speed / p.density);
    }
  if (densities.empty()) return "nothing to draw";
  const double bright = quantile(densities, 0.9995), faint = bright * 1e-3;
  const double slow = quantile(speeds, 0.05), fast = std::max<double>(quantile(speeds, 0.98), slow + 1e-6);

  std::vector<png_byte> rgb;
  rgb.reserve(image.size() * 3);
  for (const Pixel& p : image) {
    const double light = std::clamp(std::log1p(p.density / faint) / std::log1p(bright / faint), 0.0, 1.0);
    const double glow = std::pow(light, 2.2) * 0.85;
    // A lone body is a clear star; where many overlap they must not hide the glow.
    const double star = 0.75 * (1 - std::exp(-1.6 * p.points / (0.25 + 0.5 * p.density)));
    const Colour c = colour_at(p.density > 0 ? (p.speed / p.density - slow) / (fast - slow) : 0);
    const double white = std::pow(light, 6) * 0.5;  // the densest spots overexpose
    for (const auto& [channel, sky] : {std::pair{c.r, 0.010}, {c.g, 0.012}, {c.b, 0.030}}) {
      const double tone = channel + white * (1 - channel);
      const double value = sky + glow * tone + star * (0.35 + 0.65 * tone) * (1 - glow);
      rgb.push_back(static_cast<png_byte>(255 * std::clamp(value, 0.0, 1.0)));
    }
  }

  std::FILE* file = std::fopen(path, "wb");
  if (!file) return "cannot open";
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = png.height = static_cast<png_uint_32>(pixels);
  png.format = PNG_FORMAT_RGB;
  const bool written = png_image_write_to_stdio(&png, file, 0, rgb.data(), 0, nullptr) != 0;
  return std::fclose(file) == 0 && written ? "" : "cannot write";
}

}  // namespace nbody
