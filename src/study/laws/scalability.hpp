// The universal scalability law: X = gamma p / (1 + sigma (q-1) + kappa q (q-1)), q = p / p0.
#pragma once

#include "study/laws/least_squares.hpp"

namespace shardstream::study {

/// Fewer sizes do not tell contention and coherency apart.
inline constexpr std::size_t min_scalability_sizes = 6;

/// Gunther, Guerrilla Capacity Planning, 2007, chapter 4, relative to the smallest size p0. Nothing
/// is clamped.
struct Scalability {
  Estimate rate_of_one;  ///< gamma, work per second of one rank of the smallest size
  Estimate contention;   ///< sigma
  Estimate coherency;    ///< kappa
  /// p* = p0 sqrt((1 - sigma) / kappa), the number of ranks with the greatest rate. No value if
  /// kappa is not positive or sigma is 1 or more.
  Result<double> peak_ranks;
  LinearFit law;
};

/// Least squares on p/X = (1 + sigma (q-1) + kappa q (q-1)) / gamma, linear in 1/gamma, sigma/gamma
/// and kappa/gamma, with weights (X/p)^2; standard errors by the delta method. No value for
/// fewer than six sizes.
Result<Scalability> fit_scalability(const Study& study);

}  // namespace shardstream::study
