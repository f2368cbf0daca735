// The data of the ladder `reduction`, and the launches of its kernels.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <cub/device/device_reduce.cuh>

#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/gpu_row.cuh"
#include "experiments/ladders/ladder.hpp"
#include "experiments/launch_attributes.cuh"
#include "experiments/memory/shared_reads.cuh"

namespace shardstream::experiments::ladders {

constexpr unsigned threads = 512;  // of a block

/// `value`, as a number that the compiler does not know. From 2, 4, 8, ... it would make a mask of
/// a modulo.
__device__ inline unsigned unknown(unsigned value) {
  asm("" : "+r"(value));
  return value;
}

/// The data of all rungs. `scratch` and `more_scratch` have as many elements as `x`, rounded up to
/// whole blocks.
struct Data {
  cudaStream_t stream;
  unsigned multiprocessors;
  std::uint64_t count;
  DeviceArray<float> x, scratch, more_scratch, sums, more_sums, sum;
  DeviceArray<unsigned> finished;

  Data(std::uint64_t elements, const cudaDeviceProp& gpu, cudaStream_t on)
      : stream(on),
        multiprocessors(static_cast<unsigned>(gpu.multiProcessorCount)),
        count(elements),
        x(elements),
        scratch(std::uint64_t{blocks_for(elements, threads)} * threads),
        more_scratch(scratch.size()),
        // One word for each block of a launch: one per `threads` elements, or as many as fit.
        sums(std::max(
            blocks_for(elements, threads),
            multiprocessors * static_cast<unsigned>(gpu.maxThreadsPerMultiProcessor) / threads)),
        more_sums(sums.size()),
        sum(1),
        finished(1) {
    fill(x, on);
    finished.clear(on);
  }

  /// The number of blocks of `kernel` that the GPU can run at the same time.
  template <class Kernel>
  unsigned resident_blocks(Kernel kernel) const {
    return blocks_per_multiprocessor(address_of(kernel), threads) * multiprocessors;
  }
};

// ------------------------------------------------------------------ launches and their work

/// A launch of `kernel` with `blocks` blocks of `threads` threads.
template <class... Parameters>
KernelLaunch launch_of(void (*kernel)(Parameters...), unsigned blocks) {
  return {address_of(kernel), dim3(blocks), dim3(threads)};
}

/// The elements that the threads of one launch add to.
enum class Adds {
  all,   ///< every element
  pairs  ///< the first element of every pair
};

/// Adds element i + `stride` of `from` to element i; the result goes to `to`.
using AddStride = void (*)(const float* from, float* to, std::uint64_t count, std::uint64_t stride);

/// Launches `kernel` once for each stride 1, 2, 4, ... below the count. The first element of the
/// returned array is the sum.
inline const DeviceArray<float>& add_strides(const Data& data, AddStride kernel, Adds adds) {
  const DeviceArray<float>* from = &data.x;
  for (std::uint64_t stride = 1; stride < data.count; stride *= 2) {
    const DeviceArray<float>& to = from == &data.scratch ? data.more_scratch : data.scratch;
    const std::uint64_t each = adds == Adds::all ? 1 : 2 * stride;  // elements per thread
    kernel<<<blocks_for((data.count + each - 1) / each, threads), threads, 0, data.stream>>>(
        from->data(), to.data(), data.count, stride);
    check_launch("sum of two elements");
    from = &to;
  }
  return *from;
}

/// The instructions of a warp are those that Nsight Compute counts on compute capability 9.0.
inline Work work_of_strides(std::uint64_t count, Adds adds) {
  const double of_warp = adds == Adds::all ? 30 : 36;
  Work work{.operations = 0, .bytes = 0, .arithmetic = "fp32", .shared = 0, .instructions = 0};
  for (std::uint64_t stride = 1; stride < count; stride *= 2) {
    const std::uint64_t each = adds == Adds::all ? 1 : 2 * stride;
    const auto stored = static_cast<double>((count + each - 1) / each);
    const auto added = static_cast<double>((count - stride + each - 1) / each);
    work.operations += added;
    work.bytes += (2 * stored + added) * sizeof(float);
    work.instructions += of_warp * stored / warp;
  }
  return work;
}

/// What a block of `threads` threads costs besides global memory, as Nsight Compute counts it on
/// compute capability 9.0 with 2^24 elements.
struct CostOfBlock {
  /// Turns of shared memory, with conflicts and accesses that are switched off.
  double accesses = not_counted;
  /// Instructions of all warps for each 32 elements that the block adds.
  double instructions = not_counted;
};

/// Adds the elements of each block of threads. `scratch` has a word for every thread.
using BlockSums = void (*)(const float* x, std::uint64_t count, float* scratch, float* sums);

/// Launches `kernel` until one sum is left, with one block per `threads` elements.
inline void add_blocks(const Data& data, BlockSums kernel) {
  const float* from = data.x.data();
  float* to = data.sums.data();
  for (std::uint64_t left = data.count; left > 1; left = blocks_for(left, threads)) {
    const unsigned blocks = blocks_for(left, threads);
    kernel<<<blocks, threads, 0, data.stream>>>(from, left, data.scratch.data(),
                                                blocks == 1 ? data.sum.data() : to);
    check_launch("sum of blocks");
    from = to;
    to = to == data.sums.data() ? data.more_sums.data() : data.sums.data();
  }
}

/// `is_in_global`: whether the tree lies in global memory. Then each element is stored there, and
/// each addition loads two words and stores one.
inline Work work_of_blocks(std::uint64_t count, const CostOfBlock& cost, bool is_in_global) {
  Work work{.operations = 0, .bytes = 0, .arithmetic = "fp32", .shared = 0, .instructions = 0};
  for (std::uint64_t left = count; left > 1; left = blocks_for(left, threads)) {
    const auto elements = static_cast<double>(left);
    const auto blocks = static_cast<double>(blocks_for(left, threads));
    const double added = elements - blocks;
    work.operations += added;
    work.bytes += (elements + blocks) * sizeof(float);
    if (is_in_global) work.bytes += (elements + 3 * added + blocks) * sizeof(float);
    work.shared += blocks * cost.accesses * memory::shared_access;
    work.instructions += elements / warp * cost.instructions;
  }
  return work;
}

/// Launches `kernel` with as many blocks as the GPU can run at once, and once more with one block
/// for their sums.
inline void add_in_two_launches(const Data& data, BlockSums kernel, unsigned blocks) {
  kernel<<<blocks, threads, 0, data.stream>>>(data.x.data(), data.count, data.scratch.data(),
                                              data.sums.data());
  kernel<<<1, threads, 0, data.stream>>>(data.sums.data(), blocks, data.scratch.data(),
                                         data.sum.data());
  check_launch("sum of blocks");
}

/// The same. The second launch may begin before the first one ends.
inline void add_in_dependent_launches(const Data& data, BlockSums kernel, unsigned blocks) {
  kernel<<<blocks, threads, 0, data.stream>>>(data.x.data(), data.count, data.scratch.data(),
                                              data.sums.data());
  check_launch("sum of blocks");
  const AttributedLaunch second(1, threads, data.stream, before_previous_ends());
  second(kernel, data.sums.data(), std::uint64_t{blocks}, data.scratch.data(), data.sum.data());
}

/// Launches `kernel` so that all of its blocks run at the same time. `blocks` is at most
/// resident_blocks().
inline void launch_cooperatively(const Data& data,
                                 void (*kernel)(const float* x, std::uint64_t count, float* sums,
                                                float* sum),
                                 unsigned blocks) {
  const float* x = data.x.data();
  std::uint64_t count = data.count;
  float *sums = data.sums.data(), *sum = data.sum.data();
  void* arguments[] = {&x, &count, &sums, &sum};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks),
                                    dim3(threads), arguments, 0, data.stream),
        "cudaLaunchCooperativeKernel");
}

/// The remark of a rung whose grid follows from the registers of its kernel.
inline std::string with_blocks(std::string sentence, unsigned blocks) {
  return formatted("{} ({} blocks)", std::move(sentence), blocks);
}

/// Each element is loaded once; each block stores its sum, which is loaded once.
inline Work work_of_one_pass(std::uint64_t count, unsigned blocks, const CostOfBlock& cost) {
  const auto elements = static_cast<double>(count);
  const double bytes = (elements + 2.0 * blocks) * sizeof(float);
  return {.operations = elements,
          .bytes = bytes,
          .arithmetic = "fp32",
          .distinct = bytes,
          .shared = blocks * cost.accesses * memory::shared_access,
          .instructions = elements / warp * cost.instructions};
}

/// The relative error of a sum of floats that are added in an order of the kernel's own.
constexpr double sum_tolerance = 1e-4;

/// Climbs kernels that add the same data.
class Sums {
 public:
  /// `expected` is the sum of the data.
  Sums(Ladder& ladder, const Data& data, double expected)
      : ladder_(ladder), data_(data), expected_(expected) {}

  /// `sum` reads the result.
  void climb(const Rung& rung, const std::function<void()>& enqueue,
             const std::function<double()>& sum) {
    data_.sum.clear(data_.stream);
    ladder_.climb(rung, enqueue, [&] { return std::abs(sum() / expected_ - 1) < sum_tolerance; });
  }
  void climb(const Rung& rung, const std::function<void()>& enqueue) {
    climb(rung, enqueue, [&] { return static_cast<double>(data_.sum.read()[0]); });
  }

 private:
  Ladder& ladder_;
  const Data& data_;
  double expected_;
};

/// Climbs this program's own reduction and CUB's.
inline void climb_yardsticks(Sums& sums, const Data& data) {
  const auto count = static_cast<double>(data.count);
  Work once = streaming(count * sizeof(float));
  once.operations = count;
  once.arithmetic = "fp32";
  const GpuRow<float> fixed(data.x.data(), data.count, cells::RowUnits(data.count), {});
  sums.climb(
      {"fixed order", {}, "this program's reduction: the same bits on any number of GPUs", once},
      [&] { fixed.enqueue(data.stream); }, [&] { return fixed.sum(); });
  std::size_t bytes = 0;
  const auto cub_sum = [&](void* scratch) {
    check(cub::DeviceReduce::Sum(scratch, bytes, data.x.data(), data.sum.data(),
                                 static_cast<std::int64_t>(data.count), data.stream),
          "cub::DeviceReduce::Sum");
  };
  cub_sum(nullptr);
  const DeviceArray<std::byte> scratch(bytes);
  sums.climb({"CUB", {}, "cub::DeviceReduce::Sum, the yardstick", once},
             [&] { cub_sum(scratch.data()); });
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
