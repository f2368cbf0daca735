// A kernel is one computation: an argument struct and a function for each backend. Tests compare
// the CUDA function with the host function.
#pragma once

#include <cstdint>
#include <type_traits>

struct CUstream_st;  // the type behind cudaStream_t, so that host code needs no CUDA header

namespace shardstream {

using CudaStream = CUstream_st*;

inline constexpr bool built_with_cuda = SHARDSTREAM_HAS_CUDA;

/// `host` computes part `part` of `parts`. All parts together do the whole work. They may run at
/// the same time, and no part waits for another one. `cuda` enqueues the whole work on a stream of
/// the current GPU and does not wait; it is null in a build without CUDA. The arguments are copied
/// before the call. The caller owns the memory to which they point, and keeps it until the work is
/// done.
template <class Args>
struct Kernel {
  static_assert(std::is_trivially_copyable_v<Args>);
  using HostFunction = void (*)(const Args&, unsigned part, unsigned parts);
  using CudaFunction = void (*)(const Args&, CudaStream);

  const char* name;
  HostFunction host;
  CudaFunction cuda;
};

/// A range of rows, which a host function divides among its parts.
struct Rows {
  std::uint64_t begin, end;
};

/// The rows of part `part` of `parts`; all parts have nearly the same number.
constexpr Rows rows_of(std::uint64_t rows, unsigned part, unsigned parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

/// F in a build with CUDA. Otherwise null, without a reference to F, which would not link.
template <auto F>
constexpr decltype(F) with_cuda() {
  if constexpr (built_with_cuda) {
    return F;
  } else {
    return nullptr;
  }
}

}  // namespace shardstream
