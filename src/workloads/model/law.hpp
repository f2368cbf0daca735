// The law that the workload `model` follows: the seconds of each part on any number of ranks, and
// the exact nanoseconds that each rank is asked for. Arithmetic only.
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
  double work = 1;       ///< W, seconds of the whole on one rank; above 0
  double serial = 0.05;  ///< s, the share of W that runs on rank 0 alone
  double overhead = 0;   ///< seconds for each doubling of the ranks
  /// The share by which the slowest of several ranks exceeds the mean parallel part. The parts grow
  /// linearly with the rank, and their mean stays.
  double imbalance = 0;
};

/// One repetition by its parts, which follow each other.
struct Seconds {
  double serial, parallel, overhead;  ///< `parallel` is the slowest rank's

  double total() const { return serial + parallel + overhead; }
};

/// T(p) = s W + (1 - s) W / p * (1 + imbalance) + overhead * log2(p), the imbalance only for p > 1.
/// Without overhead and imbalance T(1) / T(p) = 1 / (s + (1 - s) / p), which is Amdahl's law.
Seconds predict(const Law& law, std::uint64_t ranks);

/// T(1) / T(p).
double speedup(const Law& law, std::uint64_t ranks);

/// T(1) / (p T(p)).
double efficiency(const Law& law, std::uint64_t ranks);

/// The work that rates count, in seconds: serial plus parallel, without overhead. On any number of
/// ranks it is W.
double counted_work(const Law& law);

/// `factor` times the parallel seconds; the serial seconds stay. With the number of ranks as
/// `factor`, without overhead and imbalance, T is the same on any number of ranks, and the counted
/// work per second grows as Gustafson's law says: s + p (1 - s) = p - s (p - 1).
Law scaled(const Law& law, double factor);

/// Random variation of the parallel parts.
struct Noise {
  double deviation = 0;  ///< relative standard deviation of a part, from 0 to 1
  std::uint64_t seed = 1;
};

/// What a rank's parallel part is multiplied by in a repetition: log-normal, so that it is
/// positive, with a mean of 1 and the given deviation. A function of its arguments alone.
double factor(const Noise& noise, std::uint64_t rank, std::uint64_t repetition);

/// What one rank is asked for, in nanoseconds.
struct Parts {
  std::int64_t serial, parallel, overhead;

  std::int64_t counted() const { return serial + parallel; }
};

/// Of one repetition, counted from 0; of a warm-up, which has no noise, if there is none.
Parts parts_of(const Law& law, const Noise& noise, std::uint64_t rank, std::uint64_t ranks,
               std::optional<std::uint64_t> repetition);

/// The counted nanoseconds of all ranks together.
std::int64_t counted_of_all(const Law& law, const Noise& noise, std::uint64_t ranks,
                            std::optional<std::uint64_t> repetition);

}  // namespace shardstream::workloads::model
