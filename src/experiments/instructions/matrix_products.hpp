// Products of matrices in the precisions of runs, for `precision`: the products of the library,
// with the work that splits floats or makes residues.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "experiments/gpu.hpp"
#include "kernels/gemm/multiply/multiply.hpp"

namespace shardstream::experiments::instructions {

/// C = A B for n x n matrices of the generator: doubles or floats in [0, 1). They are in the memory
/// of a GPU as panels, two for each block of K, as in a run. Not thread-safe.
class MatrixProduct {
 public:
  /// A product needs less device memory than `bytes_of_element` * n^2 + `other_bytes`.
  static constexpr double bytes_of_element = 3 * sizeof(double) + 2 * gemm::max_moduli;
  static constexpr double other_bytes = 1.5e9;
  /// n is a multiple of this.
  static constexpr std::uint64_t granule = 256;

  /// Loads the library, and makes A and B. Throws std::runtime_error if the library rejects the
  /// product.
  MatrixProduct(Gpu& gpu, gemm::Precision precision, std::uint64_t n);

  /// Enqueues the product on the stream of the GPU.
  void enqueue() const;

  /// The largest relative error of some elements of C, in 16 rows and 16 columns. Waits for the
  /// GPU.
  double error() const;
  /// The limit of error(): a sum of n terms has n rounding errors (Higham, "Accuracy and Stability
  /// of Numerical Algorithms", 2002, section 3.1).
  double max_error() const;

  /// Bytes of A, B and C.
  double bytes() const;

 private:
  DeviceArray<std::byte> factor(gemm::Side side) const;
  void generate(gemm::Side side);
  gemm::Residues make_residues(gemm::Side side, const std::byte* panel) const;
  const std::byte* split(gemm::Side side, const std::byte* panel) const;
  template <class T>
  double error_of() const;

  Gpu& gpu_;
  gemm::Precision precision_;
  std::uint64_t n_;
  gemm::Tile tile_;
  std::vector<gemm::TileAt> at_;
  std::uint64_t rows_, columns_, depth_;  ///< n, padded to whole tiles and blocks
  std::uint64_t lda_;
  std::unique_ptr<gemm::MultiplyPlan> plan_;
  DeviceArray<std::byte> a_, b_, c_;            ///< panels of A and B, block by block; tiles of C
  DeviceArray<std::byte> a_factor_, b_factor_;  ///< of one block
};

/// The largest relative error of the elements of C = A B in 16 rows and 16 columns, for the n x n
/// matrices of MatrixProduct. `found_at` returns an element that was computed. Infinite if one of
/// them is not finite.
template <class T>
double product_error(std::uint64_t n,
                     const std::function<T(std::uint64_t row, std::uint64_t column)>& found_at);
extern template double product_error<double>(
    std::uint64_t, const std::function<double(std::uint64_t, std::uint64_t)>&);

/// The rows of A or B of a MatrixProduct in fp64, n x n doubles.
std::vector<double> generated_doubles(gemm::Side side, std::uint64_t n);

}  // namespace shardstream::experiments::instructions
#endif  // SHARDSTREAM_HAS_CUDA
