// A block counts its keys in shared memory, and adds its counters to those in device memory at the
// end. A thread of the other kernel takes one element of the sample.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/memory/vector.cuh"
#include "kernels/order/digits.hpp"

namespace shardstream::order::cuda {
namespace {

using shardstream::cuda::resident_blocks;

constexpr unsigned threads = 1024, warp = 32, all_lanes = 0xffffffffU;
constexpr unsigned flight = 4;  // keys that are on their way to a thread
constexpr std::uint64_t max_keys_of_block = std::uint64_t{1} << 31;

/// The number of ranges that end before the key.
template <class K>
__device__ unsigned range_of(const DigitRange<K>* ranges, unsigned number, K key) {
  unsigned begin = 0, end = number;
  while (begin < end) {
    const unsigned middle = (begin + end) / 2;
    if (ranges[middle].last < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

template <class K>
__global__ void __launch_bounds__(threads)
    count_digits(const __grid_constant__ DigitArgs<K> args, unsigned bins) {
  extern __shared__ uint4 shared[];
  auto* const ranges = reinterpret_cast<DigitRange<K>*>(shared);
  auto* const counters = reinterpret_cast<unsigned*>(ranges + args.number);
  for (unsigned i = threadIdx.x; i < args.number; i += threads) ranges[i] = args.ranges[i];
  for (unsigned i = threadIdx.x; i < bins; i += threads) counters[i] = 0;
  __syncthreads();
  const auto count = [&](K key) {
    const unsigned r = range_of(ranges, args.number, key);
    if (r == args.number || key < ranges[r].first) return;
    const auto bin = static_cast<unsigned>((key - ranges[r].first) >> ranges[r].shift);
    atomicAdd(counters + (r << args.bits) + bin, 1U);
  };
  const std::uint64_t step = std::uint64_t{gridDim.x} * threads;
  std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  for (; i + (flight - 1) * step < args.count; i += flight * step) {
    K key[flight];
#pragma unroll
    for (unsigned k = 0; k < flight; ++k) key[k] = args.keys[i + k * step];
#pragma unroll
    for (unsigned k = 0; k < flight; ++k) count(key[k]);
  }
  for (; i < args.count; i += step) count(args.keys[i]);
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < bins; bin += threads) {
    if (counters[bin] == 0) continue;
    atomicAdd(reinterpret_cast<unsigned long long*>(args.counts + bin), counters[bin]);
  }
}

template <class T>
__global__ void __launch_bounds__(threads)
    take_sample(const __grid_constant__ SampleArgs<T> args, std::uint64_t first_stratum,
                std::uint64_t strata) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * threads + threadIdx.x;
  T x = {};
  bool taken = false;
  if (i < strata) {
    // It wraps around for an element before the batch.
    const std::uint64_t place = sampled_place(first_stratum + i, args.stride) - args.first;
    if (place < args.count) {
      x = args.elements[place];
      taken = !args.missing(x);
    }
  }
  // Each warp reserves space in the block's, so that blocks seldom meet at the counter.
  __shared__ unsigned taken_by_block;
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) taken_by_block = 0;
  __syncthreads();
  const unsigned others = __ballot_sync(all_lanes, taken), lane = threadIdx.x % warp;
  unsigned place_in_block = 0;
  if (lane == 0) place_in_block = atomicAdd(&taken_by_block, __popc(others));
  place_in_block = __shfl_sync(all_lanes, place_in_block, 0) + __popc(others & ((1U << lane) - 1));
  __syncthreads();
  if (threadIdx.x == 0) {
    first = atomicAdd(reinterpret_cast<unsigned long long*>(args.sampled), taken_by_block);
  }
  __syncthreads();
  const std::uint64_t at = first + place_in_block;
  if (taken && at < args.capacity) args.keys[at] = key_of(x);
}

}  // namespace

template <class K>
void digits(const DigitArgs<K>& args, CudaStream stream) {
  if (args.count == 0) return;
  const unsigned bins = args.number << args.bits;
  const std::size_t bytes = args.number * sizeof(DigitRange<K>) + bins * sizeof(unsigned);
  const std::uint64_t fitting = resident_blocks(count_digits<K>, threads, bytes);
  const std::uint64_t filled = args.count / (threads * flight) + 1;
  const std::uint64_t blocks = std::max(std::min(fitting, filled), args.count / max_keys_of_block);
  count_digits<K><<<static_cast<unsigned>(blocks), threads, bytes, stream>>>(args, bins);
}

template <class T>
void sample(const SampleArgs<T>& args, CudaStream stream) {
  const std::uint64_t begin = args.first >> args.stride;
  const std::uint64_t strata = ((args.first + args.count - 1) >> args.stride) + 1 - begin;
  const auto blocks = static_cast<unsigned>((strata + threads - 1) / threads);
  take_sample<T><<<blocks, threads, 0, stream>>>(args, begin, strata);
}

template void digits(const DigitArgs<std::uint32_t>&, CudaStream);
template void digits(const DigitArgs<std::uint64_t>&, CudaStream);

template void sample(const SampleArgs<float>&, CudaStream);
template void sample(const SampleArgs<double>&, CudaStream);
template void sample(const SampleArgs<std::int32_t>&, CudaStream);
template void sample(const SampleArgs<std::int64_t>&, CudaStream);
template void sample(const SampleArgs<std::int8_t>&, CudaStream);
template void sample(const SampleArgs<std::uint8_t>&, CudaStream);
template void sample(const SampleArgs<std::uint64_t>&, CudaStream);

}  // namespace shardstream::order::cuda
