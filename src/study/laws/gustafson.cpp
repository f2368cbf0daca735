#include "study/laws/gustafson.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "study/statistics/distributions.hpp"

namespace shardstream::study {
namespace {

/// Returns the change of s' if the log time of a size grows: (q-1) S/p0 / sum (q-1)^2, and the
/// opposite of their sum for the smallest size, which all speed-ups share.
std::vector<double> find_serial_share(const Study& study, double inflation, Estimate& share) {
  double products = 0, squares = 0;
  std::vector<double> changes;
  for (const Size& size : study.sizes) {
    const double q = static_cast<double>(size.ranks) / study.anchor;
    const double speedup = size.speedup.value / study.anchor;
    products += (q - 1) * (q - speedup);
    squares += (q - 1) * (q - 1);
    changes.push_back((q - 1) * speedup);
  }
  for (double& each : changes) each /= squares;
  changes.front() = -std::accumulate(changes.begin(), changes.end(), 0.0);
  share.value = products / squares;
  const Noise noise = noise_of(study, changes);
  if (noise.df == 0) return changes;
  share.standard_error = std::sqrt(inflation * noise.variance);
  const double half = students_t_95(noise.df) * share.standard_error;
  share.interval = {share.value - half, share.value + half};
  return changes;
}

}  // namespace

Estimate Gustafson::predict_efficiency(double ranks) const {
  const double slope = 1 - reference / ranks;
  Estimate efficiency{.value = 1 - serial_share.value * slope};
  std::vector<double> weights = scatter_.of_launch(ranks);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double change = slope * changes_[i];
    weights[i] *= efficiency.value * efficiency.value;
    weights[i] = inflation_ * (weights[i] + change * change / launches_[i]);
  }
  const Noise noise = scatter_.of(weights);
  if (noise.df == 0) return efficiency;
  efficiency.standard_error = std::sqrt(noise.variance);
  const double half = students_t_95(noise.df) * efficiency.standard_error;
  efficiency.interval = {efficiency.value - half, efficiency.value + half};
  return efficiency;
}

Result<Gustafson> fit_gustafson(const Study& study) {
  using Fitted = Result<Gustafson>;
  if (study.mode != Mode::weak) {
    return Fitted::none("Gustafson's law is for weak scaling, and the study is a strong one");
  }
  if (study.sizes.size() < 2) return Fitted::none("Gustafson's law needs two numbers of ranks");
  Gustafson gustafson;
  // The law says W/T = (W0/T0) (s' + (1 - s') q): a straight line.
  const LinearFit line = fit_linear(
      {.parameters = 2,
       .basis =
           [](double q) {
             return std::array<double, 3>{1, q};
           },
       .quantity = [](const MeasuredLaunch& launch) { return launch.work / launch.seconds; }},
      study);
  gustafson.fit = line.fit;
  gustafson.inflation_ = line.inflation;
  gustafson.reference = study.anchor;
  gustafson.changes_ = find_serial_share(study, line.inflation, gustafson.serial_share);
  gustafson.scatter_ = study.scatter;
  for (const Size& size : study.sizes) {
    gustafson.launches_.push_back(static_cast<double>(size.launches));
    const double more = size.ranks - study.anchor;
    const double law = size.ranks - gustafson.serial_share.value * more;
    gustafson.residuals.push_back({size.ranks, 1 - law / size.speedup.value});
  }
  return Fitted::of(gustafson);
}

double share_of_reference(double share, double q) {
  return share / (share + q * (1 - share));
}

}  // namespace shardstream::study
