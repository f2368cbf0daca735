#include "workloads/product/engine/normalization/variable_statistics.hpp"

#include <cmath>
#include <limits>

#include "kernels/gemm/panel/shifted.hpp"
#include "kernels/gemm/panel/variables.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {
namespace {

/// shift + by. The integer part of the shift may need more bits than a double has.
double add(const Shift& shift, double by) {
  const auto near = static_cast<double>(shift.whole);
  // 2^63 is beyond the largest integer.
  const double rest =
      near < 0x1p63 ? gemm::difference(shift.whole, static_cast<std::int64_t>(near))
                    : gemm::difference(shift.whole, std::numeric_limits<std::int64_t>::max()) - 1;
  return near + (rest + (shift.part + by));
}

}  // namespace

VariableStatistics statistics_of(const VariableMoments& moments, const Shift& shift, double scale,
                                 bool center) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto& [sum, squares, weights, count, degrees] = moments;
  VariableStatistics made{.mean = nan, .deviation = nan, .count = count};
  if (!std::isfinite(sum) || !std::isfinite(squares) || !(weights > 0)) return made;
  if (!center) {
    made.deviation = std::sqrt(squares / weights) / scale;
    return made;
  }
  made.mean = add(shift, sum / weights / scale);
  const double about = gemm::squares_about_mean(sum, squares, weights);
  made.deviation = std::sqrt(about / degrees) / scale;
  return made;
}

std::vector<VariableStatistics> statistics_of(const Operands& operands,
                                              const Normalization& normalization,
                                              const VariableSumsOf& variables) {
  const Samples& samples = *normalization.samples;
  std::vector<VariableStatistics> made;
  for (std::uint64_t i = 0; i < variables.sums.size(); ++i) {
    const std::uint64_t variable = variables.first + i;
    const double scale = normalization.scale[variable];
    VariableMoments moments{.sum = variables.sums[i],
                            .squares = variables.squares[i],
                            .weights = samples.total,
                            .count = samples.count,
                            .degrees = samples.degrees(operands.ddof())};
    if (!variables.counts.empty()) {
      moments.weights = variables.counts[i];
      moments.count = static_cast<std::uint64_t>(moments.weights);
      moments.degrees = moments.weights - operands.ddof();
    }
    if (scale == 0) moments.weights = 0, moments.count = 0;  // the variable is left out
    made.push_back(
        statistics_of(moments, shift_of(normalization, variable), scale, operands.center));
  }
  return made;
}

}  // namespace shardstream::workloads::product
