// The operands of a product.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/source/dimension_match.hpp"
#include "io/source/matrix.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/moments.hpp"
#include "kernels/gemm/panel/pairwise.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::workloads::product {

/// How missing values (NaN) enter a symmetric product. `propagate`: as NaN. `complete`: samples
/// with a missing value are left out. `pairwise`: each pair of variables has its own samples, those
/// in which both have a value.
enum class Missing : std::uint8_t { propagate, complete, pairwise };

/// The number that sums of products are divided by. `n`: the number of the values that a mean is
/// taken over. These are the samples, or with weights the sum of their weights, or the variables if
/// means are those of samples. `n_minus_1`: with weights, n - (sum of their squares) / n. Pairwise
/// products divide each element by the number of its own samples.
using gemm::Divisor;

/// Weights of the samples or of the variables of a symmetric product.
struct Weights {
  enum class Of : std::uint8_t { samples, variables };

  Of of = Of::samples;
  std::vector<double> values = {};  ///< one for each; finite, none below 0, and not all 0
  std::string name = {};            ///< "w.h5:/w"
  io::PairedDimensions paired = {};
  io::Origin origin = {};
};

/// C = alpha op(A) op(B) + beta C0; op(A) is m x k, op(B) k x n. `c` is null if beta is 0.
struct Operands {
  std::unique_ptr<io::Matrix> a, b, c;
  bool transpose_a = false, transpose_b = false;
  /// Whether op(B) is the transpose of op(A). C is then symmetric.
  bool symmetric = false;
  /// Each row of op(A) is a variable, each column a sample. `center`: the mean of each variable is
  /// subtracted. `scale`: each variable is divided by its standard deviation.
  bool center = false, scale = false;
  /// The mean of each sample over the variables is subtracted; `center` and `scale` are then false.
  bool center_over_variables = false;
  Missing missing = Missing::propagate;
  /// The root of a sample's weight multiplies its values, and that of a variable's weight its
  /// values after centring and scaling.
  std::optional<Weights> weights = {};
  /// The factors of gemm. `alpha` is 1 / `divisor` if a symmetric product does not change values.
  double alpha = 1, beta = 0;
  Divisor divisor = Divisor::one;  ///< of a product that changes values, or of pairs
  /// A variance of n samples is the sum of their squared deviations, divided by n - ddof.
  unsigned ddof() const { return divisor == Divisor::n_minus_1 ? 1 : 0; }
  /// Whether values are changed before they are multiplied.
  bool normalizes() const {
    return center || scale || center_over_variables || weights || missing == Missing::complete;
  }
  bool pairwise() const { return missing == Missing::pairwise; }
  /// Whether elements are uploaded as they are stored, since kernels change them or need to know
  /// which are missing.
  bool uploads_as_stored() const { return normalizes() || pairwise(); }
  /// The tile of the product. Panels with several planes cannot be folded.
  gemm::Tile tile(Backend backend) const {
    gemm::Tile tile = gemm::tile_for(m, n, k, precision, backend, symmetric, !pairwise());
    if (moduli > 0) tile.moduli = moduli;
    return tile;
  }
  gemm::Moments moments() const {
    return pairwise() ? gemm::pair_moments(center, scale) : gemm::Moments{};
  }
  /// Whether a shift is subtracted from each value: that of its variable, or of its sample.
  bool shifts() const { return center || center_over_variables; }
  /// Whether shifts have integer parts, which are subtracted from i64 elements in integers.
  bool has_whole_shifts() const { return shifts() && a->type() == ElementType::i64; }
  /// Whether the values of each sample are multiplied by a factor.
  bool has_sample_factors() const {
    return missing == Missing::complete || !weights_of(Weights::Of::samples).empty();
  }
  /// Whether elements of C can be NaN because they have no samples. They then do not count in C's
  /// norm.
  bool may_lack_elements() const { return missing != Missing::propagate; }
  /// The weights of the samples, or of the variables; empty if there are none.
  std::span<const double> weights_of(Weights::Of of) const {
    return weights && weights->of == of ? std::span<const double>(weights->values)
                                        : std::span<const double>();
  }
  /// The dimensions of the samples, or of the variables, as indices into Source::dimensions().
  const std::vector<std::size_t>& dimensions_of(Weights::Of of) const {
    const io::MatrixDimensions& dimensions = a->dimensions();
    return (of == Weights::Of::samples) == transpose_a ? dimensions.rows : dimensions.columns;
  }
  const io::Matrix& matrix(gemm::Side side) const { return side == gemm::Side::b ? *b : *a; }
  bool transposed(gemm::Side side) const {
    return side == gemm::Side::b ? transpose_b : transpose_a;
  }
  gemm::Precision precision = gemm::Precision::fp64;
  unsigned moduli = 0;  ///< product.planes; 0: as many as the precision needs
  std::uint64_t m = 0, n = 0, k = 0;
  /// The values that replace `auto` in the workload's own options, by key.
  std::vector<std::pair<std::string, std::string>> resolved = {};
  /// Warnings about the operands, for the run and the dry run.
  std::vector<std::string> warnings = {};
};

}  // namespace shardstream::workloads::product
