// Pairwise products: C of variables with missing values, in which each pair of variables has its
// own samples, those in which both have a value. With x the values (0 where missing) and m the mask
// (1 where there is a value, else 0), the sums over the samples of a pair are products themselves:
//
//   products  P_ij = sum of x_i x_j        sums     S_ij = sum of x_i m_j, and S_ji
//   counts    N_ij = sum of m_i m_j        squares  Q_ij = sum of x_i^2 m_j, and Q_ji
//
// So a panel has several *planes*: the values, the mask and, for correlations, the squares. Each
// tile of C has several accumulators, one for each *moment*: the product of a plane of its rows and
// a plane of its columns. pairwise_kernel() (panel/pairwise.hpp) makes a tile of C from them.
#pragma once

#include <array>
#include <cstdint>

namespace shardstream::gemm {

enum class Plane : std::uint8_t { values, mask, squares };

/// The planes of a panel. They are interleaved tile by tile: first the values of the variables of a
/// tile, then their masks, then their squares.
struct Planes {
  std::uint64_t count = 1;  ///< 1: an ordinary panel, which has only values
  std::uint64_t edge = 1;   ///< number of variables of a tile

  /// The row (A) or column (B) of the panel with this plane of a variable.
  constexpr std::uint64_t place(std::uint64_t variable, Plane plane) const {
    if (count == 1) return variable;
    return (variable / edge * count + static_cast<std::uint64_t>(plane)) * edge + variable % edge;
  }
};

/// The planes of A and B whose product is a moment.
struct Moment {
  Plane row, column;

  friend bool operator==(const Moment&, const Moment&) = default;
};

/// Whether a moment sums the values, or squares, of one variable over the samples of another one.
constexpr bool is_sum(Moment moment) {
  return (moment.row == Plane::mask) != (moment.column == Plane::mask);
}

/// The moments of a tile, in the order of its accumulators. An ordinary tile has one, the products.
struct Moments {
  std::uint64_t planes = 1, count = 1;
  std::array<Moment, 6> all{};  ///< the first `count` are used

  constexpr bool pairwise() const { return count > 1; }
  /// The number of matrices that leave a tile: C and, if it is pairwise, the counts.
  constexpr std::uint64_t results() const { return pairwise() ? 2 : 1; }
  /// The index of a moment; `count` if it is not needed.
  constexpr std::uint64_t index_of(Moment moment) const {
    std::uint64_t index = 0;
    while (index < count && all[index] != moment) ++index;
    return index;
  }
};

inline constexpr Moment products_of_pair{Plane::values, Plane::values},
    counts_of_pair{Plane::mask, Plane::mask}, row_sums_of_pair{Plane::values, Plane::mask},
    column_sums_of_pair{Plane::mask, Plane::values},
    row_squares_of_pair{Plane::squares, Plane::mask},
    column_squares_of_pair{Plane::mask, Plane::squares};

/// The moments of a pairwise product. `center`: means are subtracted, which needs sums. `scale`:
/// deviations divide, which needs squares. The products are the first moment and the counts the
/// second one.
constexpr Moments pair_moments(bool center, bool scale) {
  Moments made{.planes = scale ? 3U : 2U, .count = 2};
  made.all[0] = products_of_pair;
  made.all[1] = counts_of_pair;
  const auto add = [&](Moment row, Moment column) {
    made.all[made.count++] = row;
    made.all[made.count++] = column;
  };
  if (center) add(row_sums_of_pair, column_sums_of_pair);
  if (scale) add(row_squares_of_pair, column_squares_of_pair);
  return made;
}

}  // namespace shardstream::gemm
