#include "study/statistics/drift.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

struct Point {
  double position = 0, log_seconds = 0;
};

/// The launches, both coordinates relative to the means of their size.
std::vector<Point> centred(const Study& study) {
  std::vector<Point> points;
  std::map<int, Point> sums;
  for (std::size_t i = 0; i < study.launches.size(); ++i) {
    points.push_back({static_cast<double>(i), std::log(study.launches[i].seconds)});
    Point& sum = sums[study.launches[i].ranks];
    sum.position += points.back().position;
    sum.log_seconds += points.back().log_seconds;
  }
  std::map<int, double> launches;
  for (const Size& size : study.sizes) launches[size.ranks] = static_cast<double>(size.launches);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const int ranks = study.launches[i].ranks;
    points[i].position -= sums[ranks].position / launches[ranks];
    points[i].log_seconds -= sums[ranks].log_seconds / launches[ranks];
  }
  return points;
}

}  // namespace

Result<Drift> find_drift(const Study& study) {
  const auto runs = static_cast<double>(study.launches.size());
  const double df = runs - static_cast<double>(study.sizes.size()) - 1;
  if (df < 1) {
    return Result<Drift>::none("drift needs at least two more launches than there are sizes");
  }
  const std::vector<Point> points = centred(study);
  double xx = 0, xy = 0;
  for (const Point& point : points) {
    xx += point.position * point.position;
    xy += point.position * point.log_seconds;
  }
  Drift drift;
  drift.per_launch.value = xy / xx;
  double squares = 0;
  for (const Point& point : points) {
    squares += std::pow(point.log_seconds - drift.per_launch.value * point.position, 2);
  }
  const double variance = std::max(squares / df, min_scatter * min_scatter);
  const double error = std::sqrt(variance / xx);
  const double half = students_t_95(df) * error;
  drift.per_launch.standard_error = error;
  drift.per_launch.interval = {drift.per_launch.value - half, drift.per_launch.value + half};
  drift.total = std::expm1(drift.per_launch.value * (runs - 1));
  drift.p_value = students_t_p_value(drift.per_launch.value / error, df);
  drift.significant = drift.p_value < test_level && std::abs(drift.total) > min_relevant;
  return Result<Drift>::of(drift);
}

}  // namespace shardstream::study
