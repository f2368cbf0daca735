// Calls of the CBLAS that this program was built with. Implemented by cblas.cpp, or by
// without_cblas.cpp in a build without a CBLAS.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gemm/grid.hpp"

namespace shardstream::gemm::cblas {

/// Whether this program was built with a CBLAS.
bool exists();

/// `version`: the library's name, version and options. `core`: the processor for which its kernels
/// are. `core_chosen_by`: "user" if OPENBLAS_CORETYPE has named it, "program", or "library".
/// `threads`: the number of threads of a call.
struct Description {
  std::string version, core, core_chosen_by, threads;
};
/// Loads the library if needed. Throws std::runtime_error if there is none.
Description describe();

/// Sets the environment variable that makes the library start no threads when it is loaded. Call it
/// before prepare(), while the process has one thread.
void set_environment();

/// Loads the library with the core type that suits this processor (core_type.hpp), unless
/// OPENBLAS_CORETYPE names one, and makes each call compute in the calling thread. Afterwards any
/// number of threads may call multiply() at the same time. Returns the library's name and version.
/// Throws std::runtime_error if there is no library.
std::string prepare();

/// Computes c = a b if `first`, else c += a b. a is tile.m x tile.k with leading dimension lda, b
/// is tile.k x tile.n with leading dimension ldb, c is dense; all are row-major. Call prepare()
/// before. Throws std::bad_alloc if there is no memory for the library's buffer.
void multiply(const Tile& tile, const float* a, std::uint64_t lda, const float* b,
              std::uint64_t ldb, float* c, bool first);
void multiply(const Tile& tile, const double* a, std::uint64_t lda, const double* b,
              std::uint64_t ldb, double* c, bool first);

/// Like multiply() with b = the transpose of b_transposed, which is tile.n x tile.k. All three are
/// dense.
void multiply_transposed(const Tile& tile, const float* a, const float* b_transposed, float* c,
                         bool first);

/// Like multiply() with a = the transpose of x and b = x, which is dense, depth x n. c is n x n.
void square(std::uint64_t n, std::uint64_t depth, const float* x, float* c, bool first);
void square(std::uint64_t n, std::uint64_t depth, const double* x, double* c, bool first);

}  // namespace shardstream::gemm::cblas
