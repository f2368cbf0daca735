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
};

/// The consecutive parts of one repetition in seconds.
struct Seconds {
  double serial, parallel, overhead;  ///< `parallel` is the time of the slowest rank

  double total() const { return serial + parallel + overhead; }
};

/// T(p) = s W + (1 - s) W / p * (1 + imbalance) + overhead * log2(p), the imbalance only for p > 1.
/// Without overhead and imbalance T(1) / T(p) = 1 / (s + (1 - s) / p), which is Amdahl's law.
Seconds predict(const Law& law, std::uint64_t ranks);

/// T(1) / T(p).
double speedup(const Law& law, std::uint64_t ranks);

/// T(1) / (p T(p)).
double efficiency(const Law& law, std::uint64_t ranks);

/// The work for rates in seconds: serial plus parallel, without overhead. It is W on any number of
/// ranks.
double counted_work(const Law& law);

/// Multiplies the parallel time by `factor`; the serial time does not change. If `factor` is the
/// number of ranks, and without overhead and imbalance, T is the same on any number of ranks, and
/// the counted work per second follows Gustafson's law: s + p (1 - s) = p - s (p - 1).
Law scaled(const Law& law, double factor);

/// Random variation of the parallel parts.
struct Noise {
  double deviation = 0;  ///< relative standard deviation of a part, from 0 to 1
  std::uint64_t seed = 1;
};

/// The random factor of a rank's parallel part in a repetition: log-normal (and therefore positive)
/// with a mean of 1 and the given deviation. It depends only on the arguments.
double factor(const Noise& noise, std::uint64_t rank, std::uint64_t repetition);

/// The requested times of one rank in nanoseconds.
struct Parts {
  std::int64_t serial, parallel, overhead;

  std::int64_t counted() const { return serial + parallel; }
};

/// The parts of one repetition, counted from 0, or of a warm-up without noise if there is none.
Parts parts_of(const Law& law, const Noise& noise, std::uint64_t rank, std::uint64_t ranks,
               std::optional<std::uint64_t> repetition);

/// The counted nanoseconds of all ranks together.
std::int64_t counted_of_all(const Law& law, const Noise& noise, std::uint64_t ranks,
                            std::optional<std::uint64_t> repetition);

}  // namespace shardstream::workloads::model
