#include <algorithm>

#include "kernels/data/convert.hpp"
#include "types/convert_element.hpp"

namespace shardstream::cuda {
namespace {

constexpr unsigned threads = 256, per_thread = 8;

/// The block's part of the elements. Returns the number of missing values of this thread.
template <class S, class T>
__device__ unsigned convert_block(const ConvertArgs& args) {
  const Conversion& how = args.conversion;
  const auto* const stored = reinterpret_cast<const conversion::Word<S>*>(args.stored);
  auto* const elements = reinterpret_cast<T*>(args.elements);
  const bool unpacks = how.unpacking.any();
  const std::uint64_t first = std::uint64_t{blockIdx.x} * (threads * per_thread) + threadIdx.x;
  conversion::Word<S> word[per_thread];
#pragma unroll
  for (unsigned i = 0; i < per_thread; ++i) {
    const std::uint64_t at = first + i * threads;
    word[i] = at < args.count ? stored[at] : conversion::Word<S>{};
  }
  unsigned missing = 0;
#pragma unroll
  for (unsigned i = 0; i < per_thread; ++i) {
    const std::uint64_t at = first + i * threads;
    if (at >= args.count) break;
    const conversion::Word<S> bits = how.is_reversed ? conversion::reversed(word[i]) : word[i];
    const conversion::Number<S> x = conversion::number_of_bits<S>(bits);
    T element =
        unpacks ? static_cast<T>(conversion::unpacked(x, how.unpacking)) : static_cast<T>(x);
    if (conversion::is_missing<S>(how.missing, x)) {
      element = conversion::missing_element<T>(how);
      ++missing;
    }
    elements[at] = element;
  }
  return missing;
}

/// The stored type is the same for all threads, so a kernel serves all of them.
template <class T>
__global__ void __launch_bounds__(threads)
    convert_elements(const __grid_constant__ ConvertArgs args) {
  unsigned missing = 0;
  with_stored_type(args.conversion.from, [&](auto tag) {
    using S = typename decltype(tag)::type;
    if constexpr (conversion::always_fits<S, T>() || std::is_floating_point_v<T>) {
      missing = convert_block<S, T>(args);
    }
  });
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    missing += __shfl_down_sync(0xffffffffu, missing, distance);
  }
  if (threadIdx.x % 32 == 0 && missing > 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(args.missing), missing);
  }
}

}  // namespace

void convert(const ConvertArgs& args, CudaStream stream) {
  const auto blocks =
      static_cast<unsigned>((args.count + threads * per_thread - 1) / (threads * per_thread));
  with_element_type(args.conversion.to, [&](auto tag) {
    convert_elements<typename decltype(tag)::type><<<blocks, threads, 0, stream>>>(args);
  });
}

}  // namespace shardstream::cuda
