#include "report/page/bench_roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.hpp"

namespace shardstream::report::page {
namespace {

constexpr std::array limiters = {Limiter::memory, Limiter::compute, Limiter::both, Limiter::latency,
                                 Limiter::unknown};
constexpr double size_of_kernel = 0.55, size_of_run = 1.1;

Style style_of(Limiter limiter) {
  return styles[static_cast<std::size_t>(limiter)];
}

bool is_drawn(const Placed& placed) {
  return std::isfinite(placed.intensity) && placed.intensity > 0 && placed.rate > 0;
}

struct Axes {
  Extent x, y;
};

Axes axes_of(const Roofline& roofline) {
  const Roofs& roofs = roofline.roofs;
  std::vector<double> xs, ys;
  for (const Placed& each : roofline.placed) {
    if (!is_drawn(each)) continue;
    xs.push_back(each.intensity);
    ys.push_back(each.rate);
  }
  for (const Roof& roof : roofs.arithmetic) {
    xs.push_back(roof.rate / roofs.memory.back().rate);
    xs.push_back(roof.rate / roofs.memory.front().rate);
    ys.push_back(roof.rate);
  }
  const Extent x = log_extent(xs);
  constexpr double for_labels = 5;  // of the slopes, on the left
  return {{x.lo / for_labels, x.hi}, log_extent(ys)};
}

/// Positions of labels, at least `distance` apart, and as near as possible to `wanted`, which
/// ascend: the mean of labels that push each other is kept (pool adjacent violators).
std::vector<double> spread_out(const std::vector<double>& wanted, double distance) {
  struct Pool {
    double sum;  ///< of the wanted places of its labels, as if these were packed downwards
    std::size_t count;
    double place() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    pools.push_back({wanted[i] - static_cast<double>(i) * distance, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].place() > pools.back().place()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> places;
  for (const Pool& pool : pools) {
    for (std::size_t i = 0; i < pool.count; ++i) {
      places.push_back(pool.place() + static_cast<double>(places.size()) * distance);
    }
  }
  return places;
}

/// The parts of a picture of the roofs.
class Picture {
 public:
  Picture(Figure& figure, const Axes& axes, int width, int height)
      : figure_(figure), axes_(axes), height_(height), script_(width, height) {
    script_.set("set logscale xy");
    script_.set(fmt::format("set xrange [{:.9g}:{:.9g}]", axes.x.lo, axes.x.hi));
    script_.set(fmt::format("set yrange [{:.9g}:{:.9g}]", axes.y.lo, axes.y.hi));
    script_.set(fmt::format("set xtics {} format '%g'", width < 600 ? 100 : 10));
    script_.set("set ytics 10 format '%g'");
    script_.set("set xlabel 'operations per byte'");
    script_.set("set ylabel 'rate [Gop/s]'");
    script_.set(fmt::format("set rmargin at screen {:.4g}", 1 - 118.0 / width));
  }

  /// The slopes of memories, up to the highest peak.
  void add_slopes(std::vector<Roof> roofs, const char* dashes) {
    for (const Roof& roof : roofs) {
      const double top = axes_.y.hi, bottom = axes_.y.lo;
      const double from = std::max(axes_.x.lo, bottom / roof.rate);
      const double to = std::min(axes_.x.hi, highest_ / roof.rate);
      if (!(from < to)) continue;
      script_.plot(
          {{from, std::min(top, from * roof.rate)}, {to, to * roof.rate}},
          fmt::format("using 1:2 with lines lc rgb '{}' lw 1.2 {}", ideal_style.colour, dashes));
    }
  }
  /// The flat roofs, from the slope of the fastest memory on, with labels on the right.
  void add_peaks(std::vector<Roof> roofs, double fastest) {
    std::ranges::sort(roofs, {}, &Roof::rate);
    std::vector<double> places;
    for (const Roof& roof : roofs) {
      places.push_back(part_of_height(roof.rate));
      script_.plot({{roof.rate / fastest, roof.rate}, {axes_.x.hi, roof.rate}},
                   fmt::format("using 1:2 with lines lc rgb '{}' lw 1.2", ideal_style.colour));
      highest_ = std::max(highest_, roof.rate);
    }
    constexpr double line = 15;  // pixels
    places = spread_out(places, line / (0.8 * height_));
    for (std::size_t i = 0; i < roofs.size(); ++i) {
      add_label(fmt::format("graph 1.01, graph {:.4g} left", places[i]), roofs[i].name);
    }
  }
  /// A label at the lower end of a slope.
  void label_slopes(std::vector<Roof> roofs) {
    std::ranges::sort(roofs, {}, &Roof::rate);
    std::vector<double> places;
    for (const Roof& roof : roofs) {
      places.push_back(std::max(0.01, part_of_height(axes_.x.lo * roof.rate)));
    }
    constexpr double line = 15;
    places = spread_out(places, line / (0.8 * height_));
    for (std::size_t i = 0; i < roofs.size(); ++i) {
      add_label(fmt::format("graph 0.015, graph {:.4g} left offset 0,0.5", places[i]),
                roofs[i].name);
    }
  }
  void add_points(const std::vector<Placed>& placed) {
    for (const Limiter limiter : limiters) {
      for (const bool is_run : {false, true}) {
        Rows rows;
        for (const Placed& each : placed) {
          if (is_drawn(each) && each.limiter() == limiter && each.is_run == is_run) {
            rows.push_back({each.intensity, each.rate});
          }
        }
        script_.plot(rows, "using 1:2 with points " +
                               points_of(style_of(limiter), is_run ? size_of_run : size_of_kernel));
      }
    }
  }
  /// Names beside the points of runs.
  void name_runs(const std::vector<Placed>& placed) {
    for (const Placed& each : placed) {
      if (!each.is_run || !is_drawn(each)) continue;
      const bool is_right =
          std::log(each.intensity / axes_.x.lo) > 0.7 * std::log(axes_.x.hi / axes_.x.lo);
      add_label(fmt::format("{:.9g},{:.9g} {} front", each.intensity, each.rate,
                            is_right ? "right offset -1,0" : "left offset 1,0"),
                each.source);
    }
  }
  std::string text() const { return script_.text(); }

 private:
  /// 0 at the lower end of the axis, 1 at the upper one.
  double part_of_height(double rate) const {
    return std::log(rate / axes_.y.lo) / std::log(axes_.y.hi / axes_.y.lo);
  }
  void add_label(const std::string& where, const std::string& text) {
    const std::string word = fmt::format("ROOF{:03}", labels_++);
    script_.set(fmt::format("set label '{}' at {}", word, where));
    figure_.labels[word] = text;
  }

  Figure& figure_;
  Axes axes_;
  int height_;
  Script script_;
  double highest_ = 0;  ///< Gop/s of all peaks
  int labels_ = 0;
};

/// Both pictures have the same labels in the same order.
std::string picture_of(Figure& figure, const Roofline& roofline, int width, int height) {
  const Roofs& roofs = roofline.roofs;
  std::vector<Roof> slopes = roofs.memory;
  slopes.insert(slopes.end(), roofs.links.begin(),
                roofs.links.empty() ? roofs.links.end() : roofs.links.begin() + 1);
  Picture picture(figure, axes_of(roofline), width, height);
  picture.add_peaks(roofs.arithmetic, roofs.memory.back().rate);
  picture.add_slopes(roofs.memory, "dt 1");
  picture.add_slopes(roofs.links, "dt (8,4)");
  picture.label_slopes(std::move(slopes));
  picture.add_points(roofline.placed);
  picture.name_runs(roofline.placed);
  return picture.text();
}

std::string text_of(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", share) : "-";
}

Grid grid_of(const Roofline& roofline) {
  Grid grid{{"experiment or run", "kernel", "operations per byte", "rate [Gop/s]", "traffic [GB/s]",
             "memory", "share of it", "arithmetic", "share of it", "limiter"}};
  for (const Placed& each : roofline.placed) {
    grid.rows.push_back({each.source, each.name, number_text(each.intensity, 3),
                         number_text(each.rate), number_text(each.traffic), each.memory,
                         text_of(each.memory_share),
                         each.arithmetic.empty() ? "-" : each.arithmetic,
                         text_of(each.compute_share), std::string(word_of(each.limiter()))});
  }
  return grid;
}

}  // namespace

std::string words_on_limiters(const Roofline& roofline) {
  std::vector<std::string> counts;
  for (const Limiter limiter : limiters) {
    const auto count = std::ranges::count(roofline.placed, limiter, &Placed::limiter);
    if (count > 0) counts.push_back(fmt::format("{} {}", count, word_of(limiter)));
  }
  std::string words = fmt::format(
      "Slopes are memories (dashed: the host link), flat lines are arithmetic. A large "
      "marker with a name is a run. A kernel is bound by a roof if it reaches 60 % of it, and by "
      "latency if it reaches 60 % of neither; \"not memory-bound\" means that no roof of its "
      "operations is known. The memory is the slowest level that is fast enough. {} kernels, "
      "transfers and runs: {}.",
      roofline.placed.size(), join(counts, ", "));
  for (const std::string& note : roofline.notes) words += ' ' + note;
  return words;
}

void draw_roofline(Figure& figure, const Roofline& roofline) {
  constexpr int narrow = 400, narrow_height = 360, wide = 900, wide_height = 520;
  figure.script = picture_of(figure, roofline, narrow, narrow_height);
  figure.wide_script = picture_of(figure, roofline, wide, wide_height);
  for (const Limiter limiter : limiters) {
    if (std::ranges::find(roofline.placed, limiter, &Placed::limiter) == roofline.placed.end()) {
      continue;
    }
    figure.legend.push_back({style_of(limiter), Look::points, std::string(word_of(limiter))});
  }
  figure.numbers = grid_of(roofline);
}

}  // namespace shardstream::report::page
