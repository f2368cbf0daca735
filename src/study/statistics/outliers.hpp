// Launches whose time is far from that of the other launches of their size.
#pragma once

#include <cstddef>
#include <vector>

#include "study/sizes.hpp"

namespace shardstream::study {

/// A smaller factor between launches of one size is scatter.
inline constexpr double min_outlier_factor = 1.5;

struct Outlier {
  std::size_t launch = 0;  ///< its index in Study::launches
  double factor = 1;       ///< its time over the median of the other launches of its size
};

/// The launches whose time differs from the median of the others of their size by at least
/// min_outlier_factor, and by at least six times the median absolute deviation of the others (both
/// for log times). If a size has two launches, only the slower one can be an outlier. Outliers
/// count in all numbers.
std::vector<Outlier> find_outliers(const Study& study);

}  // namespace shardstream::study
