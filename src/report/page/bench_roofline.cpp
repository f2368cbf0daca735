#include "report/page/bench_roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.hpp"
#include "report/page/experiment_bars.hpp"

namespace shardstream::report::page {
namespace {

constexpr std::array limiters = {Limiter::memory, Limiter::shared_memory, Limiter::compute,
                                 Limiter::issue,  Limiter::both,          Limiter::latency,
                                 Limiter::unknown};
constexpr double size_of_kernel = 0.55, size_of_run = 1.1;
constexpr double label_height = 18, lead_width = 12;  // pixels

Style style_of(Limiter limiter) {
  constexpr Style of_unknown = {ideal_style.colour, "", 6};
  return limiter == Limiter::unknown ? of_unknown : styles[static_cast<std::size_t>(limiter)];
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
  return {log_extent(xs), log_extent(ys)};
}

/// Positions of labels from 0 to 1, at least `distance` apart, and as near as possible to `wanted`,
/// which ascend: the mean of labels that push each other is kept (pool adjacent violators).
std::vector<double> spread_out(const std::vector<double>& wanted, double distance) {
  struct Pool {
    double sum;  ///< of the wanted places of its labels, as if these were packed downwards
    std::size_t count;
    double place() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double below = static_cast<double>(i) * distance;
    const double above = static_cast<double>(wanted.size() - 1 - i) * distance;
    pools.push_back({std::max(0.0, std::min(wanted[i], 1 - above) - below), 1});
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

/// The dashes of the memories, from the slowest to the fastest one, and of host links.
constexpr std::array<const char*, 3> memory_dashes = {"", "8 4", "2 3"};
constexpr const char* link_dashes = "12 3 2 3";

/// The style of a line that is a roof.
Style roof_style(std::string_view dashes) {
  return {ideal_style.colour, dashes, 0};
}

/// The style of each memory; `memories` ascend.
std::vector<std::pair<Roof, Style>> styled(const std::vector<Roof>& memories) {
  std::vector<std::pair<Roof, Style>> all;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    all.emplace_back(memories[i], roof_style(memory_dashes[i % memory_dashes.size()]));
  }
  return all;
}

/// The parts of a picture of the roofs.
class Picture {
 public:
  Picture(Figure& figure, const Axes& axes, const Frame& frame)
      : figure_(figure), axes_(axes), frame_(frame), script_(script_of(frame)) {
    script_.set("set logscale xy");
    script_.set(fmt::format("set xrange [{:.9g}:{:.9g}]", axes.x.lo, axes.x.hi));
    script_.set(fmt::format("set yrange [{:.9g}:{:.9g}]", axes.y.lo, axes.y.hi));
    script_.set(fmt::format("set xtics ({})", fitting_tics({Spacing::logarithmic, Direction::across,
                                                            axes.x, frame.inner_width()})));
    script_.set(fmt::format("set ytics ({})", fitting_tics({Spacing::logarithmic, Direction::up,
                                                            axes.y, frame.inner_height()})));
    script_.set("set xlabel 'operations per byte'");
    script_.set("set ylabel 'rate [Gop/s]'");
  }

  /// The slope of a memory, up to the highest peak.
  void add_slope(const Roof& roof, const Style& style) {
    const double top = axes_.y.hi, bottom = axes_.y.lo;
    const double from = std::max(axes_.x.lo, bottom / roof.rate);
    const double to = std::min(axes_.x.hi, highest_ / roof.rate);
    if (!(from < to)) return;
    script_.plot({{from, std::min(top, from * roof.rate)}, {to, to * roof.rate}},
                 "using 1:2 with lines " + line_of(style, 1.2));
  }
  /// The flat roofs, from the slope of the fastest memory on, with labels on the right, to which
  /// thin lines lead.
  void add_peaks(std::vector<Roof> roofs, double fastest) {
    std::ranges::sort(roofs, {}, &Roof::rate);
    std::vector<double> places;
    for (const Roof& roof : roofs) {
      places.push_back(part_of(axes_.y, roof.rate));
      script_.plot({{roof.rate / fastest, roof.rate}, {axes_.x.hi, roof.rate}},
                   "using 1:2 with lines " + line_of(roof_style(""), 1.2));
      highest_ = std::max(highest_, roof.rate);
    }
    const double lead = lead_width / frame_.inner_width();
    const std::vector<double> labels = spread_out(places, label_height / frame_.inner_height());
    for (std::size_t i = 0; i < roofs.size(); ++i) {
      script_.set(
          fmt::format("set arrow from graph 1, graph {:.4g} to graph {:.4g}, graph {:.4g} "
                      "nohead lw 0.6 lc rgb '{}'",
                      places[i], 1 + lead, labels[i], ideal_style.colour));
      add_label(fmt::format("graph {:.4g}, graph {:.4g} left", 1 + 1.3 * lead, labels[i]),
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
  /// Names of runs beside their points. Runs of one name that are close to each other have it once.
  /// A name that finds no room is only in the table.
  void name_runs(const std::vector<Placed>& placed) {
    std::vector<Box> taken;
    for (const Placed& each : placed) {
      if (!each.is_run || !is_drawn(each)) continue;
      const double x = part_of(axes_.x, each.intensity) * frame_.inner_width();
      const double y = part_of(axes_.y, each.rate) * frame_.inner_height();
      for (const Box& box : boxes_beside(x, y, each.source)) {
        const auto hit = std::ranges::find_if(taken, [&](const Box& b) { return meet(b, box); });
        if (hit != taken.end() && hit->name == each.source) break;
        if (hit != taken.end() || box.left < 0 || box.right > frame_.inner_width()) continue;
        add_label(
            fmt::format("graph {:.4g}, graph {:.4g} left front", box.left / frame_.inner_width(),
                        (box.bottom + label_height / 2) / frame_.inner_height()),
            each.source);
        taken.push_back(box);
        break;
      }
    }
  }
  std::string text() const { return script_.text(); }

 private:
  /// A name in pixels from the lower left corner.
  struct Box {
    double left, right, bottom;
    std::string name;
  };
  static bool meet(const Box& a, const Box& b) {
    return a.left < b.right && b.left < a.right && std::abs(a.bottom - b.bottom) < label_height;
  }
  /// On the right of a point, on its left, and a line higher and lower.
  static std::vector<Box> boxes_beside(double x, double y, const std::string& name) {
    constexpr double gap = 8;
    std::vector<Box> boxes;
    const double width = text_width(name);
    for (const double line : {0.0, 1.0, -1.0}) {
      for (const double left : {x + gap, x - gap - width}) {
        boxes.push_back({left, left + width, y + (line - 0.5) * label_height, name});
      }
    }
    return boxes;
  }
  /// 0 at the lower end of the axis, 1 at the upper one.
  static double part_of(const Extent& axis, double value) {
    return std::log(value / axis.lo) / std::log(axis.hi / axis.lo);
  }
  void add_label(const std::string& where, const std::string& text) {
    const std::string word = fmt::format("ROOF{:03}OF{:04}", labels_++, frame_.width);
    script_.set(fmt::format("set label '{}' at {}", word, where));
    figure_.labels[word] = text;
  }

  Figure& figure_;
  Axes axes_;
  Frame frame_;
  Script script_;
  double highest_ = 0;  ///< Gop/s of all peaks
  int labels_ = 0;
};

std::string picture_of(Figure& figure, const Roofline& roofline, Frame frame) {
  const Roofs& roofs = roofline.roofs;
  double names = 0;
  for (const Roof& roof : roofs.arithmetic) names = std::max(names, text_width(roof.name));
  frame.right = names + 1.3 * lead_width;
  Picture picture(figure, axes_of(roofline), frame);
  picture.add_peaks(roofs.arithmetic, roofs.memory.back().rate);
  for (const auto& [memory, style] : styled(roofs.memory)) picture.add_slope(memory, style);
  for (const Roof& link : roofs.links) picture.add_slope(link, roof_style(link_dashes));
  picture.add_points(roofline.placed);
  picture.name_runs(roofline.placed);
  return picture.text();
}

std::string text_of(double share) {
  return std::isfinite(share) ? fmt::format("{:.2f}", share) : "-";
}

Grid grid_of(const Roofline& roofline) {
  Grid grid{{"experiment or run", "kernel", "operations per byte", "rate [Gop/s]", "traffic [GB/s]",
             "memory", "share of it", "share of shared memory", "arithmetic", "share of it",
             "share of the issue rate", "limiter"}};
  for (const Placed& each : roofline.placed) {
    grid.rows.push_back({each.source, each.name, number_text(each.intensity, 3),
                         number_text(each.rate), number_text(each.traffic), each.memory,
                         text_of(each.shares.memory), text_of(each.shares.shared),
                         each.arithmetic.empty() ? "-" : each.arithmetic,
                         text_of(each.shares.compute), text_of(each.shares.issue),
                         std::string(word_of(each.limiter()))});
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
      "Slopes are memories and the host link, flat lines are arithmetic. A large "
      "marker with a name is a run. A kernel is bound by a roof if it reaches 60 % of it: of a "
      "memory, of shared memory, of its arithmetic, or of the instructions that the GPU can issue. "
      "It is bound by both if it reaches one of the first two and one of the last two, and by "
      "latency if it reaches none; \"none known\" means that one of the shares is unknown. {} "
      "kernels, transfers and runs: {}.",
      roofline.placed.size(), join(counts, ", "));
  for (const std::string& note : roofline.notes) words += ' ' + note;
  return words;
}

void draw_roofline(Figure& figure, const Roofline& roofline) {
  figure.script = picture_of(figure, roofline, {.height = 420, .left = 78});
  figure.wide_script = picture_of(figure, roofline, {.width = 900, .height = 520, .left = 78});
  for (const Limiter limiter : limiters) {
    if (std::ranges::find(roofline.placed, limiter, &Placed::limiter) == roofline.placed.end()) {
      continue;
    }
    figure.legend.push_back({style_of(limiter), Look::points, std::string(word_of(limiter))});
  }
  for (const auto& [memory, style] : styled(roofline.roofs.memory)) {
    figure.legend.push_back({style, Look::line, memory.name});
  }
  if (!roofline.roofs.links.empty()) {
    figure.legend.push_back({roof_style(link_dashes), Look::line, "host link"});
  }
  figure.numbers = grid_of(roofline);
}

}  // namespace shardstream::report::page
