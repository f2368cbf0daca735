#include "report/comparison/sides.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::report {
namespace {

namespace fs = std::filesystem;

std::string value_of(const Values& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "" : found->second;
}

/// The shape of a product, "MxNxK"; empty if the run is no product.
std::string shape_of(const RunFile& run) {
  std::string shape;
  for (const char* extent : {"m", "n", "k"}) {
    const std::string text = run.text(extent);
    if (!text.empty()) shape += (shape.empty() ? "" : "x") + text;
  }
  return shape;
}

std::vector<Trait> traits_of(const RunFile& run, const Setup& setup) {
  return {{"workload", run.workload},
          {"work", fmt::format("{:.9g} {}", run.work, run.work_unit)},  // but for rounding
          {"shape", shape_of(run)},
          {"type", value_of(setup.plan, "input.type")},
          {"precision", run.text("precision")},
          {"backend", run.text("backend")},
          {"scale.metric", run.options.text("scale.metric")},  // which time counts
          {"ranks", std::to_string(run.size.ranks)}};
}

/// The traits of `there` that differ from those of `here`.
std::vector<Trait> differences(const ComparedPoint& here, const ComparedPoint& there) {
  std::vector<Trait> different;
  for (std::size_t i = 0; i < here.traits.size(); ++i) {
    const std::string &a = here.traits[i].value, &b = there.traits[i].value;
    if (a != b && !a.empty() && !b.empty()) different.push_back(there.traits[i]);
  }
  return different;
}

std::string why_unmatched(const ComparedPoint& point, const Side& other) {
  std::vector<Trait> nearest;
  for (const ComparedPoint& each : other.points) {
    std::vector<Trait> different = differences(point, each);
    if (nearest.empty() || different.size() < nearest.size()) nearest = std::move(different);
  }
  std::string list;
  for (const auto& [name, value] : nearest) {
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", name, excerpt(value));
  }
  if (list.empty()) return fmt::format("{} has it only once", other.name);
  return fmt::format("the nearest point of {} has {}", other.name, list);
}

/// Why the launches of a point cannot count together; empty if they can.
std::string why_ambiguous(const ComparedPoint& point, const Side& side) {
  if (point.studies.size() < 2) return {};
  std::vector<std::string_view> names(point.studies.begin(), point.studies.end());
  return fmt::format("{} has it in several studies ({}): name the files of one of them", side.name,
                     join(names, ", "));
}

void add_run(Side& side, std::map<std::vector<std::string>, std::size_t>& places,
             const std::string& study, ComparedRun run) {
  std::vector<Trait> traits = traits_of(run.file, run.setup);
  std::vector<std::string> key;
  for (const Trait& trait : traits) key.push_back(trait.value);
  const auto [place, is_new] = places.try_emplace(key, side.points.size());
  if (is_new) side.points.push_back({.traits = std::move(traits), .runs = {}, .studies = {}});
  ComparedPoint& point = side.points[place->second];
  point.runs.push_back(std::move(run));
  point.studies.insert(study);
}

}  // namespace

std::string words_of(const std::vector<Trait>& traits) {
  std::string words;
  for (const auto& [name, value] : traits) {
    if (value.empty()) continue;
    words += fmt::format("{}{}", words.empty() ? "" : ", ", value);
    if (name == "ranks") words += value == "1" ? " rank" : " ranks";
  }
  return words;
}

std::size_t Side::launches() const {
  std::size_t sum = 0;
  for (const ComparedPoint& point : points) sum += point.runs.size();
  return sum;
}

Side read_side(const std::string& name, const std::string& path) {
  Report report = make_report(result_files({&path, 1}));
  Side side;
  side.name = name;
  side.path = path;
  side.unreadable = std::move(report.unreadable);
  std::map<std::vector<std::string>, std::size_t> places;
  for (StudyReport& study : report.studies) {
    std::ranges::move(study.excluded, std::back_inserter(side.excluded));
    std::ranges::move(study.unfinished.failed, std::back_inserter(side.failed));
    std::ranges::move(study.unfinished.missing, std::back_inserter(side.missing));
    for (RunFile& run : study.runs) {
      try {
        Setup setup = read_setup(run);
        add_run(side, places, study.name, {std::move(run), std::move(setup)});
      } catch (const UsageError& error) {
        side.unreadable.push_back({run.path, error.what()});
      }
    }
  }
  if (side.points.empty()) {
    throw UsageError(side.unreadable.empty()
                         ? fmt::format("{} has no usable run: name results of run", path)
                         : side.unreadable.front().reason);
  }
  const auto order = [](const ComparedPoint& point) {
    const RunFile& run = point.first();
    return std::tuple(run.workload, run.text("precision"), run.text("backend"), run.size.ranks,
                      run.work);
  };
  std::ranges::stable_sort(side.points, {}, order);
  return side;
}

void check_distinct(const Side& before, const Side& after) {
  std::map<std::string, fs::path> seen;
  for (const ComparedPoint& point : before.points) {
    for (const ComparedRun& run : point.runs) seen.emplace(run.file.provenance.uuid, run.file.path);
  }
  seen.erase("");
  for (const ComparedPoint& point : after.points) {
    for (const ComparedRun& run : point.runs) {
      const auto found = seen.find(run.file.provenance.uuid);
      if (found == seen.end()) continue;
      throw UsageError(fmt::format("'{}' is the same run as '{}': name results of two runs",
                                   run.file.path.string(), found->second.string()));
    }
  }
}

std::vector<Pair> match(const Side& before, const Side& after, std::vector<Unmatched>& unmatched) {
  std::vector<Pair> pairs;
  std::set<const ComparedPoint*> taken;
  for (const ComparedPoint& point : before.points) {
    const auto found = std::ranges::find_if(after.points, [&](const ComparedPoint& each) {
      return !taken.contains(&each) && differences(point, each).empty();
    });
    if (found == after.points.end()) {
      unmatched.push_back({before.name, words_of(point.traits), why_unmatched(point, after)});
      continue;
    }
    taken.insert(&*found);
    std::string why = why_ambiguous(point, before);
    if (why.empty()) why = why_ambiguous(*found, after);
    if (why.empty()) {
      pairs.emplace_back(&point, &*found);
    } else {
      unmatched.push_back({before.name, words_of(point.traits), why});
    }
  }
  for (const ComparedPoint& point : after.points) {
    if (taken.contains(&point)) continue;
    unmatched.push_back({after.name, words_of(point.traits), why_unmatched(point, before)});
  }
  return pairs;
}

}  // namespace shardstream::report
