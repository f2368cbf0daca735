// Every kernel of the ladders `matmul` and `gram` against a host reference.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/gram.hpp"
#include "experiments/ladders/library_product.hpp"
#include "experiments/ladders/matmul.hpp"

namespace shardstream::experiments::ladders {
namespace {

/// Elements before and behind C, which must not change.
constexpr std::uint64_t margin = 64;

/// A, B and C of a product in device memory, filled with test data.
template <class T>
class Operands {
 public:
  Operands(unsigned m, unsigned n, unsigned k, float alpha, float beta, BGiven b_given)
      : a_(std::uint64_t{m} * k),
        b_(std::uint64_t{k} * n),
        c_(std::uint64_t{m} * n + 2 * margin),
        p_{a_.data(), b_.data(), c_.data() + margin, m, n, k, alpha, beta},
        b_given_(b_given) {
    fill_matrix(a_, first_of_a, stream());
    fill_matrix(b_, b_given == BGiven::plainly ? first_of_b : first_of_a, stream());
    fill_c();
  }

  void fill_c() const { fill_matrix(c_, first_of_c - margin, stream()); }
  cudaStream_t stream() const { return stream_.get(); }
  const Product<T>& product() const { return p_; }
  std::vector<float> c() const { return c_.read(); }

  /// The expected contents of c().
  std::vector<float> expected() const {
    std::vector<float> c(c_.size());
    for (std::uint64_t i = 0; i < c.size(); ++i) c[i] = matrix_number(first_of_c - margin + i);
    for (unsigned i = 0; i < p_.m; ++i) {
      std::vector<double> sums(p_.n);
      for (unsigned l = 0; l < p_.k; ++l) {
        const double of_a = matrix_number(first_of_a + std::uint64_t{i} * p_.k + l);
        for (unsigned j = 0; j < p_.n; ++j) sums[j] += of_a * b_at(l, j);
      }
      for (unsigned j = 0; j < p_.n; ++j) {
        float& element = c[margin + std::uint64_t{i} * p_.n + j];
        element = static_cast<float>(p_.alpha * sums[j] + p_.beta * double{element});
      }
    }
    return c;
  }

 private:
  double b_at(std::uint64_t row, std::uint64_t column) const {
    return b_given_ == BGiven::plainly ? matrix_number(first_of_b + row * p_.n + column)
                                       : matrix_number(first_of_a + column * p_.k + row);
  }

  device::cuda::StreamHandle stream_{device::Priority::normal};
  DeviceArray<T> a_, b_;
  DeviceArray<float> c_;
  Product<T> p_;
  BGiven b_given_;
};

template <class T>
void expect_right(const ProductKernel<T>& kernel, unsigned m, unsigned n, unsigned k, float alpha,
                  float beta, BGiven b) {
  const Operands<T> operands(m, n, k, alpha, beta, b);
  kernel.launch(operands.product(), operands.stream());
  EXPECT_EQ(operands.c(), operands.expected())
      << kernel.name << ' ' << m << " x " << k << " x " << n;
}

int capability() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, current_gpu()), "cudaGetDeviceProperties");
  return properties.major * 10 + properties.minor;
}

/// The smallest product, one that is longer in each direction, and one that is not square.
template <class T>
void expect_right(std::span<const ProductKernel<T>> kernels) {
  for (const auto& kernel : kernels) {
    const unsigned m = kernel.m, n = kernel.n, k = kernel.k;
    expect_right(kernel, m, n, k, 1.5F, 0.5F, BGiven::plainly);
    expect_right(kernel, 3 * m, 2 * n, 5 * k, 1.5F, 0.5F, BGiven::plainly);
    expect_right(kernel, 2 * m, 3 * n, 2 * k, 1, 0, BGiven::plainly);
  }
}

/// More tiles than any GPU has multiprocessors, and more steps than any kernel has stages.
template <class T>
void expect_right_at_length(std::span<const ProductKernel<T>> kernels) {
  for (const auto& kernel : kernels) {
    const Operands<T> operands(17 * kernel.m, 19 * kernel.n, 33 * kernel.k, 1.5F, 0.5F,
                               BGiven::plainly);
    const Product<T>& p = operands.product();
    const DeviceArray<float> c(std::uint64_t{p.m} * p.n);
    fill_matrix(c, first_of_c, operands.stream());
    Product<T> of_c = p;
    of_c.c = c.data();
    const ProductCheck check(of_c, BGiven::plainly, operands.stream());
    kernel.launch(of_c, operands.stream());
    EXPECT_TRUE(check.is_right(c)) << kernel.name;
  }
}

TEST(Matmul, WithInnerDimension32IsRight) {
  for (const auto& kernel : narrow_kernels()) {
    for (const auto& [m, n] : {std::pair{32U, 32U}, {96U, 64U}, {64U, 160U}}) {
      expect_right(kernel, m, n, 32, 1, 0, BGiven::plainly);
    }
  }
}

TEST(Matmul, OnCudaCoresIsRight) {
  expect_right(core_kernels());
  expect_right_at_length(core_kernels());
}

TEST(Matmul, ByMmaIsRight) {
  if (capability() < 80) GTEST_SKIP() << "compute capability 8.0 is needed";
  expect_right(mma_kernels_for_floats());
  expect_right(mma_kernels());
  expect_right_at_length(mma_kernels_for_floats());
  expect_right_at_length(mma_kernels());
}

TEST(Matmul, ByWgmmaIsRight) {
  if (capability() != 90) GTEST_SKIP() << "compute capability 9.0 is needed";
  expect_right(wgmma_kernels());
  expect_right_at_length(wgmma_kernels());
}

/// Every size that the experiment accepts.
TEST(Matmul, TilesDivideTheGranule) {
  const auto expect_divides = [](const auto& kernels) {
    for (const auto& kernel : kernels) {
      for (const unsigned edge : {kernel.m, kernel.n, kernel.k}) {
        EXPECT_EQ(matmul_granule % edge, 0U) << kernel.name;
      }
    }
  };
  expect_divides(core_kernels());
  expect_divides(mma_kernels_for_floats());
  expect_divides(mma_kernels());
  expect_divides(wgmma_kernels());
}

TEST(Gram, IsRight) {
  for (const auto& kernel : gram_kernels()) {
    for (const auto& [m, k] : {std::pair{32U, 32U}, {96U, 32U}, {160U, 96U}}) {
      expect_right(kernel, m, m, k, 1, 0, BGiven::transposed);
    }
  }
}

/// Counted by hand for C of 64 x 64 and k = 32.
TEST(ProductKernel, LoadsAnElementOnceForItsUses) {
  const Product<float> p{nullptr, nullptr, nullptr, 64, 64, 32, 1, 0};
  constexpr double c = 64 * 64 * 4.0, all = 64 * 64 * 32.0;
  const Work plain = work_of(narrow_kernels()[0], p), tiles = work_of(narrow_kernels()[2], p);
  EXPECT_EQ(plain.operations, 2 * all);
  EXPECT_EQ(plain.bytes, 8 * all + c);
  EXPECT_EQ(tiles.bytes, 4 * (2 * 32 * 32 * 4) + c);  // four blocks, two tiles each
  // Three of four blocks compute, and all of C is stored.
  const Work symmetric = work_of(gram_kernels()[3], p);
  EXPECT_EQ(symmetric.operations, 1.5 * all);
  EXPECT_EQ(symmetric.bytes, 3 * (2 * 32 * 32 * 4) + c);
  Product<float> blended = p;
  blended.beta = 1;
  EXPECT_EQ(work_of(narrow_kernels()[0], blended).bytes, plain.bytes + c);
}

/// The choice of an algorithm overwrites C.
template <class T>
void expect_library_is_right(gemm::Precision precision, const Operands<T>& operands, BGiven b) {
  const LibraryProduct library(precision, operands.product(), b, operands.stream());
  operands.fill_c();
  library.enqueue(operands.product(), operands.stream());
  EXPECT_EQ(operands.c(), operands.expected());
}

TEST(LibraryProduct, IsRight) {
  for (const BGiven b : {BGiven::plainly, BGiven::transposed}) {
    const Operands<float> operands(256, 512, 128, 1.5F, 0.5F, b);
    expect_library_is_right(gemm::Precision::fp32, operands, b);
  }
  const Operands<bf16> operands(256, 512, 128, 1.5F, 0.5F, BGiven::plainly);
  expect_library_is_right(gemm::Precision::bf16, operands, BGiven::plainly);
}

TEST(ProductCheck, FindsASingleWrongElement) {
  constexpr unsigned m = 64, n = 96, k = 32;
  const Operands<float> operands(m, n, k, 1.5F, 0.5F, BGiven::plainly);
  Product<float> p = operands.product();
  const DeviceArray<float> c(std::uint64_t{m} * n);
  fill_matrix(c, first_of_c, operands.stream());
  p.c = c.data();
  const ProductCheck check(p, BGiven::plainly, operands.stream());
  EXPECT_FALSE(check.is_right(c));  // not yet multiplied
  core_kernels()[0].launch(p, operands.stream());
  EXPECT_TRUE(check.is_right(c));
  const float right = c.read(m * n / 2, 1)[0], wrong = right + 0x1p-7F;
  experiments::check(
      cudaMemcpy(c.data() + m * n / 2, &wrong, sizeof(wrong), cudaMemcpyHostToDevice),
      "cudaMemcpy");
  EXPECT_FALSE(check.is_right(c));
}

}  // namespace
}  // namespace shardstream::experiments::ladders
