#include "study/gustafson.hpp"

#include <algorithm>
#include <cmath>

#include "study/distributions.hpp"

namespace shardstream::study {
namespace {

void find_serial_share(const Study& study, Gustafson& gustafson) {
  double products = 0, squares = 0;
  for (const Size& size : study.sizes) {
    const double more = size.ranks - 1;
    products += more * (size.ranks - size.speedup.value);
    squares += more * more;
  }
  Estimate& share = gustafson.serial_share;
  share.value = products / squares;
  // ds'/d(log T(p)) = (p-1) S / sum (p-1)^2, and the opposite of their sum for T(1)
  std::vector<LogTerm> terms = {{&study.sizes.front(), 0}};
  for (const Size& size : study.sizes) {
    if (size.ranks == 1) continue;
    const double factor = (size.ranks - 1) * size.speedup.value / squares;
    terms.push_back({&size, factor});
    terms.front().factor -= factor;
  }
  const Noise noise = noise_of(study, terms);
  gustafson.df = noise.df;
  if (noise.df == 0) return;
  share.standard_error = std::sqrt(noise.variance);
  const double half = students_t_95(noise.df) * share.standard_error;
  share.interval = {share.value - half, share.value + half};
}

}  // namespace

Estimate Gustafson::predict_efficiency(int ranks, const Noise& own) const {
  const double slope = static_cast<double>(ranks - 1) / ranks;
  Estimate efficiency{.value = 1 - serial_share.value * slope};
  if (df == 0) return efficiency;
  const Noise& launch = own.df > 0 ? own : noise;
  efficiency.standard_error = std::hypot(serial_share.standard_error * slope,
                                         efficiency.value * std::sqrt(launch.variance));
  const double half = students_t_95(std::min(df, launch.df)) * efficiency.standard_error;
  efficiency.interval = {efficiency.value - half, efficiency.value + half};
  return efficiency;
}

Result<Gustafson> fit_gustafson(const Study& study) {
  using Fitted = Result<Gustafson>;
  if (study.mode != Mode::weak) {
    return Fitted::none("Gustafson's law is for weak scaling, and the study is a strong one");
  }
  if (study.sizes.size() < 2) return Fitted::none("Gustafson's law needs two numbers of ranks");
  if (study.anchor != 1) return Fitted::none("Gustafson's law needs a run on 1 rank");
  Gustafson gustafson;
  find_serial_share(study, gustafson);
  gustafson.noise = study.noise;
  for (const Size& size : study.sizes) {
    const double law = size.ranks - gustafson.serial_share.value * (size.ranks - 1);
    gustafson.residuals.push_back({size.ranks, 1 - law / size.speedup.value});
  }
  // The law says W/T = (W1/T1) (s' + (1 - s') p): a straight line.
  const LinearFit line =
      fit_linear({.parameters = 2,
                  .basis =
                      [](double p) {
                        return std::array<double, 3>{1, p};
                      },
                  .quantity = [](const Launch& launch) { return launch.work / launch.seconds; }},
                 study);
  gustafson.fit = line.fit;
  return Fitted::of(gustafson);
}

double share_of_one_rank(double share, int ranks) {
  return share / (share + ranks * (1 - share));
}

}  // namespace shardstream::study
