// How much launches of equal runs scatter at each size of a study: the variance behind every
// interval.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace shardstream::study {

/// Variance of the logarithm of a launch's time (its square root is the relative scatter, 0.01 for
/// 1 %), and its degrees of freedom. With df = 0 the noise is unknown and the variance is 0.
struct Noise {
  double variance = 0;
  double df = 0;
};

/// Resolution of relative times. Smaller scatter is rounding, not noise: a program may print the
/// same time for each launch. Much smaller values would also spoil the weighted fits.
inline constexpr double min_scatter = 1e-6;

/// The noise of the launches of one size alone.
struct SizeNoise {
  double ranks = 0;
  Noise own;
};

/// Whether the scatter may depend on the number of ranks.
enum class Trend { possible, none };

/// The variances of launches. Three launches measure their scatter poorly, and a scatter that is
/// the same at all sizes is often a wrong assumption: it may grow with the ranks, or belong to one
/// size. So each variance has two parts:
///   v = (d v_own + d0 v_fitted) / (d + d0) and d0 = 0.3
/// where v_own is the variance of the size's own launches with d degrees of freedom, but at least
/// v_fitted / (2 d), since a smaller one is probably chance; and v_fitted is fitted to all sizes:
/// the mean of a constant variance and of one that is proportional to the ranks, weighted by how
/// well each explains the scatter of all sizes (60 % and 40 % before any measurement). Without a
/// trend, the fitted variance is the pooled one.
///
/// A size is marked, and is left out of the fit and uses only its own variance, if its standard
/// deviation is at least three times the others' and the F test of the two variances is below 1 %
/// (shared between the sizes): the factor alone would mark every fifth study of two sizes and three
/// launches with equal noise.
///
/// tests/unit/study_coverage_test.cpp has the simulations behind these choices.
class Scatter {
 public:
  Scatter() = default;
  /// `sizes` in ascending order of their ranks.
  explicit Scatter(std::span<const SizeNoise> sizes, Trend trend = Trend::possible);

  bool is_marked(std::size_t size) const { return sizes_[size].is_marked; }
  /// The noise pooled over all sizes that are not marked; df = runs - sizes. With df = 0, the noise
  /// is unknown.
  const Noise& pooled() const { return pooled_; }
  /// The noise of a launch at a size.
  Noise at(std::size_t size) const;
  /// The variance of a launch at a size for weights and tests: the fitted one, or that of a marked
  /// size, or min_scatter^2.
  double fitted_at(std::size_t size) const;
  /// The noise of a sum of independent launches in which the variance of size i counts `weights[i]`
  /// times: f^2 / n for f times the mean of the size's n launches. Degrees of freedom by Welch and
  /// Satterthwaite.
  Noise of(std::span<const double> weights) const;
  /// The weights in of() of one new launch on `ranks` ranks: interpolated between the sizes, and
  /// with the fitted trend beyond the largest size.
  std::vector<double> of_launch(double ranks) const;

 private:
  struct SizeScatter {
    double ranks = 0;
    Noise own;          ///< of the launches of the size; unless marked, the variance has its weight
    double shared = 0;  ///< the fitted variance, times its weight
    bool is_marked = false;
  };

  void mark(std::span<const SizeNoise> sizes);
  void pool(std::span<const SizeNoise> sizes);
  void fit_trend(std::span<const SizeNoise> sizes);
  double fitted(double ranks) const;

  std::vector<SizeScatter> sizes_;
  Noise pooled_;
  double growing_ = 0;      ///< weight of the variance that grows with the ranks
  double of_smallest_ = 0;  ///< that variance, at the smallest size
};

}  // namespace shardstream::study
