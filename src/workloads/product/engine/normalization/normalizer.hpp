// Products that change values. The first samples of each variable determine its shift and its
// scale. Then the data are read once. If the mean or the deviation of some variable differs too
// much from that of its first samples, the data are read a second time, rarely a third time. If
// samples with missing values are left out, another pass may be needed to find them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/engine.hpp"
#include "workloads/product/engine/normalization/first_samples.hpp"
#include "workloads/product/engine/normalization/normalization.hpp"
#include "workloads/product/engine/normalization/samples.hpp"

namespace shardstream::workloads::product {

/// The normalization of `variables` variables. `stored` has their first `samples` samples in the
/// type of the matrix, variable by variable if variables are rows, else sample by sample.
///
/// If samples of type i64 are beyond 2^53, their differences from the first one are taken in
/// integers. Doubles hold other integers exactly.
///
/// The shift is the first sample plus the mean of all differences from it, so that a constant
/// variable becomes zeros. This mean is rounded to a fraction of the deviation. Whole numbers and
/// data of few bits then keep so few bits that their products are exact. The scale is a power of
/// two: it brings the deviation to between a half and one of 2^ElementRange::usual_exponent. If a
/// variable has no deviation, or a sample that is not finite, its scale is 1. With shifts of
/// samples (`sample_shifts`, one for each sample), the deviation is that of the shifted values.
///
/// In a pairwise product, only the samples with a value count. If a variable has none, its scale is
/// 0 and its shift is 0.
Normalization normalization_of(const Operands& operands, const std::byte* stored,
                               std::uint64_t variables, std::uint64_t samples,
                               std::span<const Shift> sample_shifts = {});

/// For operands that normalizes(). Runtime and operands must outlive it.
class Normalizer {
 public:
  Normalizer(runtime::Runtime& runtime, const Operands& operands, unsigned readers);

  /// Finds the samples that count, if they are not known yet, by a pass over the data on the CPUs.
  /// Without this call, run() assumes that no value is missing if none of the first samples is, and
  /// starts over if that was wrong. Collective; throws AgreedError if the matrix cannot be read, or
  /// if too few samples count.
  void find_samples();

  /// Reads the first samples. Call it before timing begins; otherwise run() reads them. Collective.
  void load();
  /// Computes the product once, in one to `max_passes` passes over the data, and one more if its
  /// assumption about missing values was wrong. The samples that count are kept for the next run.
  /// Collective; throws what find_samples(), the matrix and Engine::run() throw.
  ///
  /// The sums of a pass give a better shift and scale to the variables that need them. If shift and
  /// scale have brought values of a variable beyond the range of the precision, or all of them to
  /// 0, its sums are not usable. Then the extremes of its values determine the next shift and
  /// scale, for which its sums are finite.
  void run(Engine& product);

  static constexpr std::uint64_t max_passes = 3;
  /// The number of variables that needed a second pass in the last run.
  std::uint64_t renormalized() const { return renormalized_; }
  std::uint64_t passes() const { return passes_; }
  /// The samples that the last run has counted, or that find_samples() has found.
  const Samples& samples() const { return samples_; }

 private:
  /// The shift and scale of a variable for the next pass.
  struct Renormalization {
    std::uint64_t variable;
    Shift shift;
    double scale;
  };
  /// A normalization from first samples. `lacks_values`: whether a value of them is missing.
  struct First {
    Normalization normalization;
    bool lacks_values;
  };
  Normalization from_first_samples(Range variables, std::atomic<bool>& lacks_values) const;
  First from_first_samples() const;
  Normalization first_pass();
  bool found_missing_values(Engine& product);
  void warn(std::uint64_t variables) const;
  std::vector<Renormalization> unsuitable(Engine& product, const Normalization& now) const;
  Renormalization from_sums(std::uint64_t variable, const VariableSums::Totals& totals,
                            const Normalization& now) const;
  std::vector<bool> lost(Engine& product, const VariableSums::Totals& totals) const;
  std::vector<Renormalization> from_ranges(const std::vector<std::uint64_t>& variables) const;

  runtime::Runtime& runtime_;
  const Operands& operands_;
  unsigned readers_;
  Samples samples_;
  bool knows_samples_;  ///< otherwise samples_ are all of them
  bool loaded_ = false;
  Normalization first_;
  std::uint64_t renormalized_ = 0, passes_ = 1;
};

}  // namespace shardstream::workloads::product
