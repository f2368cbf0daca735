// Centred and scaled products. The first samples of each variable determine its shift and its
// scale. Then the data are read once. If the mean or the deviation of some variable differs too
// much from that of its first samples, the data are read a second time, rarely a third time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/runtime.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/engine.hpp"
#include "workloads/product/engine/normalization.hpp"

namespace shardstream::workloads::product {

/// The number of samples that determine shifts and scales; all samples if there are fewer. It does
/// not depend on ranks or memory, so C's bits do not depend on them either.
inline constexpr std::uint64_t first_samples = 256;

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
/// variable has no deviation, or a sample that is not finite, its scale is 1.
Normalization normalization_of(const Operands& operands, const std::byte* stored,
                               std::uint64_t variables, std::uint64_t samples);

/// For operands that are centred or scaled. Runtime and operands must outlive it.
class Normalizer {
 public:
  Normalizer(runtime::Runtime& runtime, const Operands& operands, unsigned readers)
      : runtime_(runtime), operands_(operands), readers_(readers) {}

  /// Reads the first samples. Call it before timing begins; otherwise run() reads them. Collective.
  void load();
  /// Computes the product once, in one to `max_passes` passes over the data. Collective; throws
  /// what the matrix and Engine::run() throw.
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

 private:
  /// The shift and scale of a variable for the next pass.
  struct Renormalization {
    std::uint64_t variable;
    Shift shift;
    double scale;
  };
  Normalization from_first_samples() const;
  void warn(std::uint64_t variables) const;
  std::vector<Renormalization> unsuitable(Engine& product, const Normalization& now) const;
  Renormalization from_sums(std::uint64_t variable, double sum, double squares,
                            const Normalization& now) const;
  std::vector<bool> lost(Engine& product, const VariableSums::Totals& totals) const;
  std::vector<Renormalization> from_ranges(const std::vector<std::uint64_t>& variables) const;

  runtime::Runtime& runtime_;
  const Operands& operands_;
  unsigned readers_;
  bool loaded_ = false;
  Normalization first_;
  std::uint64_t renormalized_ = 0, passes_ = 1;
};

}  // namespace shardstream::workloads::product
