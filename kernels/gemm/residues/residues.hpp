// Residues of panels, and the numbers that their products stand for. Rows of A and columns of B are
// *lines*. Each line of a block of K has a scale of its own (scales.hpp). Nothing here waits or
// synchronises; memory must live until the work is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/precision.hpp"
#include "kernels/gemm/residues/basis.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::gemm {

/// basis_of(count), computed once.
const Basis& basis_with(unsigned count);

/// The residues of lines of k elements: a plane for each modulus, with one byte for each element.
/// The lines of a plane follow one another.
struct Residues {
  const std::int8_t* data;        ///< at a multiple of 16 bytes
  std::uint64_t pitch;            ///< bytes from one plane to the next, a multiple of 16
  const std::int32_t* exponents;  ///< one for each line: of 2, has_nan or has_infinity

  /// Those of the lines from `line` on.
  constexpr Residues from(std::uint64_t line, std::uint64_t k) const {
    return {data + line * k, pitch, exponents + line};
  }
};

/// The number of columns of B that a GPU transposes at a time. They stay in its cache.
inline constexpr std::uint64_t residue_scratch_lines = 512;

/// Rounds the lines of a panel to integers, and writes their residues. A line is multiplied by the
/// largest power of two for which all products are below half of the product of the moduli. Lines
/// with values that are not finite have residues 0.
struct ResiduesArgs {
  /// A row-major panel of doubles or floats (panel_element_bytes). Its rows are the lines of A, its
  /// columns those of B.
  const void* panel;
  Precision precision;
  Side side;
  std::uint64_t lines;
  std::uint64_t k;   ///< elements of a line: a multiple of 16, up to max_residue_k
  std::uint64_t ld;  ///< leading dimension of the panel, in elements; on a GPU a multiple of 4
  unsigned moduli;
  std::int8_t* to;  ///< Residues
  std::uint64_t pitch;
  std::int32_t* exponents;
  /// For B on a GPU: memory for residue_scratch_lines lines of the panel's type.
  void* scratch = nullptr;
  /// Is raised to the largest |line - rounded line| / |line|. Null: not wanted.
  double* error = nullptr;
};
Kernel<ResiduesArgs> residues_kernel();

/// Computes rows x columns elements of C from the sums of products of residues: for each modulus a
/// dense matrix of 32-bit integers. Each element is the integer product of two lines times a power
/// of two, rounded once. If a line has a NaN, the element is NaN. If it has an infinity, the
/// element is computed from the panels.
struct ReconstructArgs {
  const std::int32_t* products;  ///< for each modulus rows x columns, one after another
  Precision precision;
  std::uint64_t rows, columns;  ///< on a GPU columns is a multiple of 4
  std::uint64_t k;
  unsigned moduli;
  const std::int32_t* a_exponents;
  const std::int32_t* b_exponents;
  const void* a;  ///< the panels
  const void* b;
  std::uint64_t lda, ldb;
  void* c;     ///< of accumulator_type(precision), dense
  bool first;  ///< C becomes the product; otherwise the product is added to C
};
Kernel<ReconstructArgs> reconstruct_kernel();

namespace detail {

/// The product of two lines, of which one has an infinity, as IEEE arithmetic computes it. Products
/// of finite floats do not overflow, since the sum is a double.
template <class T>
constexpr T product_of_lines(const T* a, const T* b, std::uint64_t ldb, std::uint64_t k) {
  double sum = 0;
  for (std::uint64_t i = 0; i < k; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i * ldb]);
  }
  return static_cast<T>(sum);
}

}  // namespace detail

}  // namespace shardstream::gemm
