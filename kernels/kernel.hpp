// A kernel is one computation with one argument struct and a function for each backend. The host
// function is also the reference that the CUDA one is tested against.
#pragma once

#include <cstdint>
#include <type_traits>

struct CUstream_st;  // what a cudaStream_t points to; so that host code needs no CUDA header

namespace shardstream {

using CudaStream = CUstream_st*;

inline constexpr bool built_with_cuda = SHARDSTREAM_HAS_CUDA;

/// `host` computes part `part` of `parts`; the parts are independent and together are the whole.
/// `cuda` enqueues the whole on a stream and does not wait; it is null in a build without CUDA.
/// Both get a copy of the arguments; what these point to must live until the work is done.
template <class Args>
struct Kernel {
  static_assert(std::is_trivially_copyable_v<Args>);
  using HostFunction = void (*)(const Args&, unsigned part, unsigned parts);
  using CudaFunction = void (*)(const Args&, CudaStream);

  const char* name;
  HostFunction host;
  CudaFunction cuda;
};

/// How a host function's parts share rows.
struct Rows {
  std::uint64_t begin, end;
};

/// Those of part `part` of `parts`, near-equal.
constexpr Rows rows_of(std::uint64_t rows, unsigned part, unsigned parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

/// F in a build with CUDA, else null, without a reference to F that would have to be linked.
template <auto F>
constexpr decltype(F) with_cuda() {
  if constexpr (built_with_cuda) {
    return F;
  } else {
    return nullptr;
  }
}

}  // namespace shardstream
