#include "kernels/gemm/cblas.hpp"

#include <cblas.h>

#include <limits>
#include <stdexcept>

namespace shardstream::gemm::cblas {
namespace {

constexpr CBLAS_ORDER order = CblasRowMajor;
constexpr CBLAS_TRANSPOSE as_stored = CblasNoTrans;

blasint to_blas(std::uint64_t size) {
  if (size > static_cast<std::uint64_t>(std::numeric_limits<blasint>::max())) {
    throw std::logic_error("a panel is wider than CBLAS can count");
  }
  return static_cast<blasint>(size);
}

/// OpenBLAS for OpenMP keeps the number of threads for each thread that calls, others for all.
void use_one_thread() {
  thread_local const bool told = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  (void)told;
}

}  // namespace

bool exists() {
  return true;
}

std::string prepare() {
  // Here first, before threads call at once: a change of the number is not safe among them.
  openblas_set_num_threads(1);
  return std::string(openblas_get_config()) + ", one thread a call";
}

void multiply(const Tile& tile, const float* a, std::uint64_t lda, const float* b,
              std::uint64_t ldb, float* c, bool first) {
  use_one_thread();
  const blasint m = to_blas(tile.m), n = to_blas(tile.n), k = to_blas(tile.k);
  cblas_sgemm(order, as_stored, as_stored, m, n, k, 1, a, to_blas(lda), b, to_blas(ldb),
              first ? 0 : 1, c, n);
}

void multiply(const Tile& tile, const double* a, std::uint64_t lda, const double* b,
              std::uint64_t ldb, double* c, bool first) {
  use_one_thread();
  const blasint m = to_blas(tile.m), n = to_blas(tile.n), k = to_blas(tile.k);
  cblas_dgemm(order, as_stored, as_stored, m, n, k, 1, a, to_blas(lda), b, to_blas(ldb),
              first ? 0 : 1, c, n);
}

}  // namespace shardstream::gemm::cblas
