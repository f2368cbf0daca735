// The functions of a StudyReport and of lists of its runs.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/statistics.hpp"
#include "report/studies.hpp"

namespace shardstream::report {

const study::Fit* StudyReport::fit() const {
  return laws.amdahl ? &laws.amdahl->law.fit : laws.gustafson ? &laws.gustafson->fit : nullptr;
}

study::FitVerdict StudyReport::fit_verdict() const {
  return fit() == nullptr ? study::FitVerdict::untested : fit()->verdict;
}

bool StudyReport::is_law_rejected() const {
  return fit_verdict() == study::FitVerdict::does_not_fit;
}

std::size_t StudyReport::throttled() const {
  std::size_t launches = 0;
  for (const SizeFacts& each : facts) launches += each.throttled;
  return launches;
}

std::size_t StudyReport::unconverged() const {
  std::size_t launches = 0;
  for (const SizeFacts& each : facts) launches += each.unconverged;
  return launches;
}

std::size_t StudyReport::partly_verified() const {
  return static_cast<std::size_t>(std::ranges::count_if(runs, [](const RunFile& run) {
    const std::string verified = run.text("verified");
    return verified == "partly" || verified == "unchecked";
  }));
}

const RunFile* StudyReport::timeline_on(std::uint64_t ranks) const {
  const auto found = std::ranges::find_if(
      timelines, [ranks](const RunFile& run) { return run.size.ranks == ranks; });
  return found == timelines.end() ? nullptr : &*found;
}

std::vector<const RunFile*> StudyReport::runs_on(int ranks) const {
  std::vector<const RunFile*> found;
  for (const RunFile& run : runs) {
    if (run.size.ranks == static_cast<std::uint64_t>(ranks)) found.push_back(&run);
  }
  return found;
}

double median_of(const std::vector<const RunFile*>& runs,
                 const std::function<double(const RunFile&)>& number) {
  std::vector<double> values;
  for (const RunFile* run : runs) {
    values.push_back(number(*run));
  }
  return median(std::move(values));
}

}  // namespace shardstream::report
