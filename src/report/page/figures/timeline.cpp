#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "core/text.hpp"
#include "core/units.hpp"
#include "report/page/figures/figures.hpp"

namespace shardstream::report::page {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr int max_ranks = 4;              // number of ranks that are drawn
constexpr double resolution = 1.0 / 900;  // share of the width; shorter gaps are not drawn

/// The kinds of phases that are drawn, with their texts in the legend. Waiting is blank.
const std::vector<std::pair<std::string, std::string>> kinds = {
    {"useful", "kernels, reading, writing"},
    {"transfer", "copies"},
    {"communication", "collectives"}};

struct BusyInterval {
  std::int64_t start, end;
};

/// A row of the picture: the spans of one kind of track of one rank, by kind of phase.
struct Lane {
  int rank = 0;
  std::string name;
  std::map<std::string, std::vector<BusyInterval>> pieces;
};

struct Window {
  std::int64_t begin = 0, end = 0;
};

/// The last timed repetition, which rank 0's main thread begins with a phase that occurs only in
/// timed repetitions.
std::optional<Window> last_repetition(const Details& details, const RunFile& run,
                                      const PhaseIndex& phases) {
  std::vector<std::int64_t> starts;
  std::string first;
  for (const Span& span : details.spans) {
    const RankPhase* const phase = phases.find(span);
    if (phase == nullptr || span.rank != 0 || span.track != "main") continue;
    if (!phase->is_always_timed()) continue;
    if (first.empty()) first = span.phase;
    if (span.phase == first) starts.push_back(span.start);
  }
  const std::size_t repetitions = run.timing.repetitions.size();
  if (starts.size() < repetitions) return {};
  std::ranges::sort(starts);
  const std::int64_t begin = starts[starts.size() - starts.size() / repetitions];
  constexpr double nanoseconds = 1e9;
  return Window{begin,
                begin + static_cast<std::int64_t>(run.timing.repetitions.back() * nanoseconds)};
}

std::vector<Lane> lanes_of(const Details& details, const PhaseIndex& phases, Window window) {
  // These tracks show the contents of the main thread's phases.
  const bool has_other_tracks = std::ranges::any_of(
      details.phases, [](const RankPhase& each) { return each.track != "main"; });
  std::vector<Lane> lanes;
  for (const Span& span : details.spans) {
    const RankPhase* const phase = phases.find(span);
    if (phase == nullptr || phase->kind == "waiting" || span.rank >= max_ranks) continue;
    if (span.track == "main" && phase->kind == "useful" && has_other_tracks) continue;
    if (span.end <= window.begin || span.start >= window.end) continue;
    std::string name = kind_of_track(span.track);
    if (name == "main" && phase->kind == "communication") name = "combine";
    auto lane = std::ranges::find_if(
        lanes, [&](const Lane& each) { return each.rank == span.rank && each.name == name; });
    if (lane == lanes.end()) {
      lanes.push_back({span.rank, name, {}});
      lane = lanes.end() - 1;
    }
    lane->pieces[phase->kind].push_back(
        {std::max(span.start, window.begin), std::min(span.end, window.end)});
  }
  const auto place = [](const Lane& lane) {  // in the order of the data path
    constexpr std::array<std::string_view, 7> order = {"reader",   "upload", "arrive", "compute",
                                                       "download", "writer", "combine"};
    return std::tuple(lane.rank, std::ranges::find(order, lane.name) - order.begin());
  };
  std::ranges::stable_sort(lanes, {}, place);
  return lanes;
}

/// Joins pieces whose gaps would be invisible in the picture.
std::vector<BusyInterval> thinned(std::vector<BusyInterval> pieces, Window window) {
  const auto gap =
      static_cast<std::int64_t>(static_cast<double>(window.end - window.begin) * resolution);
  std::ranges::sort(pieces, {}, &BusyInterval::start);
  std::vector<BusyInterval> joined;
  for (const BusyInterval& piece : pieces) {
    if (!joined.empty() && piece.start - joined.back().end <= gap) {
      joined.back().end = std::max(joined.back().end, piece.end);
    } else {
      joined.push_back(piece);
    }
  }
  return joined;
}

/// The boxes of one kind: x, y, and the ends of both.
struct Boxes {
  Rows rows;
  std::size_t spans = 0;
};

Boxes boxes_of(const std::vector<Lane>& lanes, const std::string& kind, Window window) {
  constexpr double millisecond = 1e6, half = 0.38;
  Boxes boxes;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const auto found = lanes[i].pieces.find(kind);
    if (found == lanes[i].pieces.end()) continue;
    boxes.spans += found->second.size();
    const double y = -static_cast<double>(i);
    for (const BusyInterval& piece : thinned(found->second, window)) {
      const double from = static_cast<double>(piece.start - window.begin) / millisecond;
      const double to = static_cast<double>(piece.end - window.begin) / millisecond;
      boxes.rows.push_back({from, y, from, to, y - half, y + half});
    }
  }
  return boxes;
}

/// The text of a lane in the drawing, which its label replaces.
std::string lane_key(std::size_t lane) {
  return fmt::format("LANE{:03}", lane);
}

std::string script_of(const std::vector<Lane>& lanes, const std::vector<Boxes>& boxes,
                      Window window, int width) {
  constexpr int lane_height = 21, around = 70, label_width = 104;
  Script script(width, around + lane_height * static_cast<int>(lanes.size()));
  std::string tics;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    tics += fmt::format("{}'{}' {}", i == 0 ? "" : ",", lane_key(i), -static_cast<double>(i));
  }
  script.set(fmt::format("set lmargin at screen {:.4g}", static_cast<double>(label_width) / width));
  script.set(fmt::format("set ytics ({}) scale 0", tics));
  script.set("unset grid");
  script.set("set grid x lc rgb '#8a949e' lw 0.4 dt (1,4)");
  script.set("set border 1 lw 0.8");
  script.set(fmt::format("set yrange [{}:0.6]", 0.4 - static_cast<double>(lanes.size())));
  script.set(
      fmt::format("set xrange [0:{:.9g}]", static_cast<double>(window.end - window.begin) / 1e6));
  script.set("set xlabel 'time [ms]'");
  constexpr std::array<const char*, 3> fills = {"solid 0.9", "pattern 4", "solid 0.5"};
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    script.plot(boxes[i].rows,
                fmt::format("using 1:2:3:4:5:6 with boxxyerror fs {0} border lc rgb '{1}' "
                            "lc rgb '{1}' lw 0.6",
                            fills[i], styles[i].colour));
  }
  return script.text();
}

Grid grid_of(const std::vector<Lane>& lanes, Window window) {
  Grid grid{{"rank", "track", "spans", "busy [ms]", "share"}};
  for (const Lane& lane : lanes) {
    std::size_t spans = 0;
    double busy = 0;
    for (const auto& [kind, pieces] : lane.pieces) {
      spans += pieces.size();
      for (const BusyInterval& piece : pieces) busy += static_cast<double>(piece.end - piece.start);
    }
    grid.rows.push_back({fmt::format("{}", lane.rank), lane.name, fmt::format("{}", spans),
                         number_text(busy / 1e6),
                         number_text(busy / static_cast<double>(window.end - window.begin), 3)});
  }
  return grid;
}

/// The names of the lanes, shortened to fit into the picture.
void add_labels(Figure& figure, const std::vector<Lane>& lanes) {
  constexpr std::size_t longest = 10;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    std::string name = lanes[i].name;
    if (name.size() > longest) name = name.substr(0, longest);
    const bool is_first = i == 0 || lanes[i - 1].rank != lanes[i].rank;
    figure.labels[lane_key(i)] = is_first ? fmt::format("{}: {}", lanes[i].rank, name) : name;
  }
}

constexpr const char* title = "Timeline of the last repetition";

Figure timeline_of(const Details& details, const RunFile& run, const std::string& id) {
  const PhaseIndex phases(details);
  const auto window = last_repetition(details, run, phases);
  if (!window) return missing(id, title, "the spans do not tell the timed repetitions apart");
  const std::vector<Lane> lanes = lanes_of(details, phases, *window);
  if (lanes.empty()) return missing(id, title, "the last repetition has no spans but waiting");
  Figure figure{id, fmt::format("{} on {}", title, counted(run.size.ranks, "rank")),
                "Each row is a track of a rank. Blank is waiting; copies that overlap with kernels "
                "cost no time.",
                ""};
  std::vector<Boxes> boxes;
  std::size_t spans = 0, drawn = 0;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    boxes.push_back(boxes_of(lanes, kinds[i].first, *window));
    spans += boxes.back().spans;
    drawn += boxes.back().rows.size();
    if (boxes.back().rows.empty()) continue;
    figure.legend.push_back({styles[i], Look::box, kinds[i].second});
  }
  figure.script = script_of(lanes, boxes, *window, 400);
  figure.wide_script = script_of(lanes, boxes, *window, 1200);
  add_labels(figure, lanes);
  figure.basis = fmt::format(
      "{}{}. {}.",
      is_timeline_run(run)
          ? "From an additional run that recorded its spans; no curve contains its time"
          : "From the launch with spans whose time is nearest to the median",
      run.size.ranks > max_ranks
          ? fmt::format("; the first {} of {} ranks", max_ranks, run.size.ranks)
          : "",
      drawn < spans
          ? fmt::format("{} spans are drawn as {} boxes: a box joins spans without a visible gap",
                        spans, drawn)
          : counted(spans, "span"));
  figure.numbers = grid_of(lanes, *window);
  return figure;
}

}  // namespace

std::vector<Figure> timeline_figures(const DetailedStudy& detailed) {
  constexpr std::size_t max_sizes = 8;
  std::vector<Figure> figures;
  std::size_t sizes = 0;
  std::string why = "no run kept its spans: scale.timeline and measure.timeline do";
  for (auto each = detailed.traced.rbegin(); each != detailed.traced.rend(); ++each) {
    if (each->details.spans.empty()) {
      why = each->details.why_no_spans;
      continue;
    }
    ++sizes;
    if (figures.size() == max_sizes) continue;
    figures.push_back(timeline_of(
        each->details, *each->run,
        figures.empty() ? "timeline" : fmt::format("timeline-{}", each->run->size.ranks)));
  }
  if (figures.empty()) figures.push_back(missing("timeline", title, why));
  if (sizes > figures.size()) {
    figures.back().basis += fmt::format(" {} have a timeline, too, which is not drawn.",
                                        counted(sizes - figures.size(), "smaller size"));
  }
  return figures;
}

}  // namespace shardstream::report::page
