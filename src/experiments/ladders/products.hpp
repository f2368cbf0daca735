// Matrix products of the ladders `matmul` and `gram`: their arguments, kernels, data and check.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cuda_bf16.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/ladder.hpp"

namespace shardstream::experiments::ladders {

using bf16 = __nv_bfloat16;

/// C = alpha A B + beta C. All matrices are row-major and dense: A is m x k, B is k x n, C is
/// m x n.
template <class T>
struct Product {
  const T* a;
  const T* b;
  float* c;
  unsigned m, n, k;
  float alpha = 1, beta = 0;
};

/// The multiply-adds of a product, as two operations each.
template <class T>
constexpr double operations_of(const Product<T>& p) {
  return 2.0 * p.m * p.n * p.k;
}

/// The bytes of a product's matrices, each counted once: the useful bytes of the guides. C is also
/// read if beta is not 0.
template <class T>
constexpr double useful_bytes_of(const Product<T>& p) {
  const double c = 1.0 * p.m * p.n * sizeof(float);
  return (1.0 * p.m * p.k + 1.0 * p.k * p.n) * sizeof(T) + (p.beta != 0 ? 2 * c : c);
}

/// The part of C that a kernel computes: a symmetric C is known if the tiles on and below its
/// diagonal are.
enum class ComputedPart : std::uint8_t { all, lower_tiles };

/// What a multiply-add of a thread costs besides global memory, on average: as Nsight Compute
/// counts it on compute capability 9.0, with the operands that tensor cores read from shared
/// memory.
struct CostOfMultiplyAdd {
  double shared = not_counted;        ///< bytes, as Work::shared
  double instructions = not_counted;  ///< of the thread
};

/// A way to launch a kernel, and the shape of that launch.
template <class T>
struct ProductLaunch {
  KernelLaunch (*shape)(const Product<T>& product);
  /// Enqueues the product. Throws Error if that fails.
  void (*enqueue)(const Product<T>& product, cudaStream_t stream);

  void operator()(const Product<T>& product, cudaStream_t stream) const {
    enqueue(product, stream);
  }
};

/// A kernel that computes products: a rung of a ladder.
template <class T>
struct ProductKernel {
  const char* name;
  SourceLine place;
  const char* change;       ///< since the previous rung
  unsigned m, n, k;         ///< the edges of a product must be multiples of these
  unsigned a_uses, b_uses;  ///< number of outputs for which an element is loaded once
  ProductLaunch<T> launch;
  CostOfMultiplyAdd cost = {};
  const char* arithmetic = "fp32";  ///< as Work::arithmetic
  ComputedPart part = ComputedPart::all;
};

/// The share of the tiles of C that the kernel computes. Tiles of a symmetric C are squares.
template <class T>
double computed_share(const ProductKernel<T>& kernel, const Product<T>& p) {
  const double tiles = 1.0 * p.m / kernel.a_uses;  // in a row and in a column
  return kernel.part == ComputedPart::all ? 1 : (tiles + 1) / (2 * tiles);
}

/// The operations of a product, and the bytes that the kernel loads and stores.
template <class T>
Work work_of(const ProductKernel<T>& kernel, const Product<T>& p) {
  const double outputs = 1.0 * p.m * p.n, share = computed_share(kernel, p);
  const double elements = outputs * p.k / kernel.a_uses + outputs * p.k / kernel.b_uses;
  const double multiply_adds = share * outputs * p.k;
  return {.operations = 2 * multiply_adds,
          .bytes = share * elements * sizeof(T) + outputs * sizeof(float) * (p.beta != 0 ? 2 : 1),
          .arithmetic = kernel.arithmetic,
          .distinct = useful_bytes_of(p),
          .shared = multiply_adds * kernel.cost.shared,
          .instructions = multiply_adds * kernel.cost.instructions / warp};
}

/// Test data: a multiple of 1/8 in [-1, 1). Products of two are multiples of 1/64, so that floats
/// hold sums of up to 2^18 of them exactly, in any order. bf16 and tf32 hold the numbers exactly.
constexpr float matrix_number(std::uint64_t i) {
  return static_cast<float>(static_cast<int>(unit_number(i) * 16)) / 8 - 1;
}

/// The indices at which the numbers of each matrix begin.
constexpr std::uint64_t first_of_a = 0, first_of_b = std::uint64_t{1} << 40,
                        first_of_c = std::uint64_t{1} << 41;

/// Fills `x` with matrix_number(first), matrix_number(first + 1), ... in the order of `stream`.
template <class T>
void fill_matrix(const DeviceArray<T>& x, std::uint64_t first, cudaStream_t stream);

/// Whether B is given as it is, or as its transpose, an n x k matrix.
enum class BGiven : std::uint8_t { plainly, transposed };

/// The check of products of matrix_number()s. It compares C v with alpha A (B v) + beta C v for
/// a vector v of positive whole numbers (Freivalds, "Fast probabilistic algorithms", 1979), and 32
/// elements of C with a host reference. All sums are exact in doubles, so the comparison is exact,
/// too. A single wrong element is always found; several in one row are missed with a probability
/// of at most 1/1024.
class ProductCheck {
 public:
  /// Computes the expected C v. The matrices hold the matrix_number()s from first_of_a, first_of_b
  /// and first_of_c on; if B is given as its transpose, it is A. C is not read if beta is 0. Waits
  /// for the device.
  template <class T>
  ProductCheck(const Product<T>& p, BGiven b, cudaStream_t stream);

  /// Whether `c` is right. Waits for the device.
  bool is_right(const DeviceArray<float>& c) const;

 private:
  double expected_element(std::uint64_t row, std::uint64_t column) const;

  unsigned m_, n_, k_;
  double alpha_, beta_;
  BGiven b_;
  cudaStream_t stream_;
  DeviceArray<double> v_, product_;
  std::vector<double> expected_;
};

/// Throws NotAvailable unless this rank may use 512 MiB of device memory, which is enough for the
/// guide's cases, whose C has 8192 x 8192 elements.
void need_memory(const Bench& bench);

/// Climbs the rung of `kernel`, whose products go to `c`. C is filled before.
template <class T>
Measured climb_product(Ladder& ladder, const ProductKernel<T>& kernel, const Product<T>& p,
                       const DeviceArray<float>& c, const ProductCheck& check,
                       cudaStream_t stream) {
  const Work work = work_of(kernel, p);
  const std::string remark = formatted("{}; {:.3g} operations per byte", std::string(kernel.change),
                                       work.operations / work.bytes);
  const Rung rung{kernel.name, kernel.place, remark, work, kernel.launch.shape(p)};
  fill_matrix(c, first_of_c, stream);
  return ladder.climb(
      rung, [&] { kernel.launch(p, stream); }, [&] { return check.is_right(c); });
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
