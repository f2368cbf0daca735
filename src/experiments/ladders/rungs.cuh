// The data of the ladder `reduction`, and the launches of its kernels.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cmath>
#include <functional>

#include "experiments/gpu.hpp"
#include "experiments/ladders/ladder.hpp"
#include "kernels/reduce/reduce.hpp"

namespace shardstream::experiments::ladders {

constexpr unsigned threads = 512;  // of a block

/// The data of all rungs.
struct Data {
  cudaStream_t stream;
  unsigned multiprocessors;
  unsigned blocks;  ///< of kernels with many elements per thread: two waves
  std::uint64_t count;
  DeviceArray<float> x, scratch, sums, more_sums, sum;
  DeviceArray<unsigned> finished;

  Data(std::uint64_t elements, const cudaDeviceProp& gpu, cudaStream_t on)
      : stream(on),
        multiprocessors(static_cast<unsigned>(gpu.multiProcessorCount)),
        blocks(2 * multiprocessors *
               static_cast<unsigned>(gpu.maxThreadsPerMultiProcessor / int{threads})),
        count(elements),
        x(elements),
        scratch(elements + threads),
        sums(std::max(blocks_for(elements, threads), blocks)),
        more_sums(sums.size()),
        sum(1),
        finished(1) {
    fill(x, on);
    finished.clear(on);
  }
};

using BlockSums = void (*)(const float*, std::uint64_t, float*, float*);

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

/// Launches `kernel` with a fixed number of blocks, and once more with one block for their sums.
inline void add_strided(const Data& data, BlockSums kernel) {
  kernel<<<data.blocks, threads, 0, data.stream>>>(data.x.data(), data.count, data.scratch.data(),
                                                   data.sums.data());
  kernel<<<1, threads, 0, data.stream>>>(data.sums.data(), data.blocks, data.scratch.data(),
                                         data.sum.data());
  check_launch("sum of blocks");
}

/// The reduction of this program, launched as in a run with one batch.
class FixedOrder {
 public:
  explicit FixedOrder(const Data& data)
      : stream_(data.stream),
        leaves_(blocks_for(data.count, reduce::leaf_elements)),
        partials_(leaves_ + reduce::max_subtrees),
        exchange_(reduce::exchange_words<float>(leaves_)) {
    exchange_.clear(stream_);
    args_.elements = data.x.data();
    args_.count = data.count;
    args_.leaves = partials_.data();
    args_.largest = partials_.data() + leaves_;
    args_.exchange = exchange_.data();
  }
  void enqueue() const {
    reduce::batch_kernel<float>().cuda(args_, stream_);
    check_launch("reduction in a fixed order");
  }
  double sum() const {
    double all = 0;
    for (const auto& part : partials_.read(leaves_, reduce::subtrees(args_.leaf_range()).size()))
      all += part.sum;
    return all;
  }

 private:
  cudaStream_t stream_;
  std::uint64_t leaves_;
  DeviceArray<reduce::Partial<double>> partials_;
  DeviceArray<std::uint64_t> exchange_;
  reduce::BatchArgs<float> args_{};
};

/// One step of the ladder.
struct Step {
  const char* name;
  Place place;
  const char* remark;
  double tolerance = 1e-4;  ///< relative error of the sum
};

/// Climbs kernels that add the same data.
class Sums {
 public:
  /// `expected` is the sum of the data.
  Sums(Ladder& ladder, const Data& data, double expected)
      : ladder_(ladder), data_(data), expected_(expected) {}

  /// `sum` reads the result.
  void climb(const Step& step, const std::function<void()>& enqueue,
             const std::function<double()>& sum) {
    data_.sum.clear(data_.stream);
    const auto count = static_cast<double>(data_.count);
    ladder_.climb({step.name, step.place, step.remark, {count, count * sizeof(float)}}, enqueue,
                  [&] { return std::abs(sum() / expected_ - 1) < step.tolerance; });
  }
  void climb(const Step& step, const std::function<void()>& enqueue) {
    climb(step, enqueue, [&] { return static_cast<double>(data_.sum.read()[0]); });
  }

 private:
  Ladder& ladder_;
  const Data& data_;
  double expected_;
};

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
