// The CBLAS that this program was built with: cblas.cpp, or without_cblas.cpp where there was none.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gemm/grid.hpp"

namespace shardstream::gemm::cblas {

bool exists();

/// The library, loaded if need be: its name, version and options, the processor that its kernels
/// are for, and the number of threads that a call uses. Without a library std::runtime_error.
struct Description {
  std::string version, core, threads;
};
Description describe();

/// To be called before prepare(), while the process has one thread: the library, when it is loaded,
/// starts no threads of its own, and on an AMD Zen 4 takes its kernels of AVX2, unless the
/// environment has OPENBLAS_CORETYPE.
void set_environment();

/// From here on a call computes in the thread that calls, and any number of threads may call at
/// once. Returns the library's name and version. Without a library std::runtime_error.
std::string prepare();

/// The dense c of tile.m x tile.n = a b, or += a b unless `first`. Rows of a are lda elements
/// apart, those of b ldb. After prepare(). Throws std::bad_alloc if the library would have no
/// memory to work in.
void multiply(const Tile& tile, const float* a, std::uint64_t lda, const float* b,
              std::uint64_t ldb, float* c, bool first);
void multiply(const Tile& tile, const double* a, std::uint64_t lda, const double* b,
              std::uint64_t ldb, double* c, bool first);

}  // namespace shardstream::gemm::cblas
