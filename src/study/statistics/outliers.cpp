#include "study/statistics/outliers.hpp"

#include <cmath>

#include "core/statistics.hpp"

namespace shardstream::study {
namespace {

/// The log times of the other launches of a launch's size.
std::vector<double> others_of(const Study& study, std::size_t launch) {
  std::vector<double> others;
  for (std::size_t i = 0; i < study.launches.size(); ++i) {
    if (i == launch || study.launches[i].ranks != study.launches[launch].ranks) continue;
    others.push_back(std::log(study.launches[i].seconds));
  }
  return others;
}

}  // namespace

std::vector<Outlier> find_outliers(const Study& study) {
  std::vector<Outlier> outliers;
  for (std::size_t i = 0; i < study.launches.size(); ++i) {
    std::vector<double> others = others_of(study, i);
    if (others.empty()) continue;
    const double middle = median(others);
    const double off = std::log(study.launches[i].seconds) - middle;
    if (std::abs(off) < std::log(min_outlier_factor)) continue;
    if (others.size() == 1 && off < 0) continue;
    for (double& each : others) each = std::abs(each - middle);
    if (std::abs(off) >= 6 * median(others)) outliers.push_back({i, std::exp(off)});
  }
  return outliers;
}

}  // namespace shardstream::study
