// The law of the workload `model`: the time of each part on any number of ranks, and the exact time
// of each rank in nanoseconds. Pure arithmetic.
//
// Fixed work follows G. Amdahl, "Validity of the single processor approach to achieving large scale
// computing capabilities", AFIPS 1967; work that grows with the ranks follows J. Gustafson,
// "Reevaluating Amdahl's law", Communications of the ACM 31 (1988).
#pragma once

#include <cstdint>
#include <optional>

namespace shardstream::workloads::model {

/// Shares are from 0 to 1.
struct Law {
  double work = 1;       ///< W, total time on one rank in seconds; above 0
  double serial = 0.05;  ///< s, the share of W that runs on rank 0 alone
  double overhead = 0;   ///< seconds for each doubling of the ranks
  /// The share by which the parallel part of the slowest rank exceeds the mean. The parts grow
  /// linearly with the rank; their mean does not change.
  double imbalance = 0;
  /// The relative standard deviation of a rank's parallel part, from 0 to 1. Each part is
  /// multiplied by a log-normal factor with a mean of 1.
  double noise = 0;
};

/// The consecutive parts of one repetition in seconds.
struct Seconds {
  double serial, parallel, overhead;  ///< `parallel` is the median time of the slowest rank

  double total() const { return serial + parallel + overhead; }
};

/// The median parallel time of the slowest of `ranks` ranks, divided by the mean of all ranks.
/// Without noise, it is 1 on one rank, and 1 + imbalance on more ranks. It is the median, not the
/// mean, since reports compare it with medians of repetitions.
///
/// With noise, the time of rank r is m_r exp(d Z - d^2 / 2), with its share m_r of the mean, a
/// normal deviate Z, and d^2 = log(1 + noise^2). The maximum of independent times has the product
/// of their distribution functions as its own (H. A. David and H. N. Nagaraja, Order Statistics,
/// 3rd edition, Wiley 2003, section 2.1), and its median is where that is 1/2. Above 1024 ranks
/// with imbalance, neighbouring ranks count as equal.
double median_of_slowest(const Law& law, std::uint64_t ranks);

/// The median time T(p) = s W + (1 - s) W / p * median_of_slowest(p) + overhead * log2(p).
/// Without overhead, imbalance and noise T(1) / T(p) = 1 / (s + (1 - s) / p), which is Amdahl's
/// law.
Seconds predict(const Law& law, std::uint64_t ranks);

/// T(1) / T(p), a ratio of median times.
double speedup(const Law& law, std::uint64_t ranks);

/// T(1) / (p T(p)).
double efficiency(const Law& law, std::uint64_t ranks);

/// The work for rates in seconds: serial plus parallel, without overhead. It is W on any number of
/// ranks.
double counted_work(const Law& law);

/// Multiplies the parallel time by `factor`; the serial time does not change. If `factor` is the
/// number of ranks, and without overhead, imbalance and noise, T is the same on any number of
/// ranks, and the counted work per second follows Gustafson's law: s + p (1 - s) = p - s (p - 1).
Law scaled(const Law& law, double factor);

/// The random numbers of one launch.
struct Draws {
  std::uint64_t seed = 1;
  std::uint64_t replicate = 0;  ///< the number of the launch in its study; 0 outside a study
};

/// The random factor of a rank's parallel part in a repetition on `ranks` ranks. It depends only on
/// the arguments. Launches of a study that differ in `replicate` or in `ranks` are independent.
double factor(double noise, const Draws& draws, std::uint64_t ranks, std::uint64_t rank,
              std::uint64_t repetition);

/// The requested times of one rank in nanoseconds.
struct Parts {
  std::int64_t serial, parallel, overhead;

  std::int64_t counted() const { return serial + parallel; }
};

/// The parts of one repetition, counted from 0, or of a warm-up without noise if there is none.
Parts parts_of(const Law& law, const Draws& draws, std::uint64_t rank, std::uint64_t ranks,
               std::optional<std::uint64_t> repetition);

/// The counted nanoseconds of all ranks together.
std::int64_t counted_of_all(const Law& law, const Draws& draws, std::uint64_t ranks,
                            std::optional<std::uint64_t> repetition);

}  // namespace shardstream::workloads::model
