// The rung of `reduction` that a user's own kernel is.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "experiments/ladders/own_rung.hpp"
#include "experiments/ladders/rungs.cuh"

namespace shardstream::experiments::ladders {

/// The blocks of a launch of the own kernel for `count` elements.
inline unsigned own_blocks(const OwnRung& own, std::uint64_t count) {
  const unsigned covering = blocks_for(count, own["block_x"] * own["per_thread"]);
  return own["blocks"] > 0 ? std::min(own["blocks"], covering) : covering;
}

/// Enqueues the own kernel until one sum is left, or once. Returns the array whose first element is
/// the sum.
inline const DeviceArray<float>& enqueue_own(const OwnRung& own, const Data& data) {
  const float* from = data.x.data();
  const DeviceArray<float>* to = &data.scratch;
  for (std::uint64_t left = data.count;;) {
    const unsigned blocks = own_blocks(own, left);
    float* sums = to->data();
    if (own["one_launch"] != 0) {
      check(cudaMemsetAsync(sums, 0, sizeof(float), data.stream), "cudaMemsetAsync");
    }
    auto count_of_4_bytes = static_cast<std::uint32_t>(left);
    void* const count = own["form"] == 4 ? static_cast<void*>(&count_of_4_bytes) : &left;
    std::array<void*, 3> arguments = {static_cast<void*>(&from), count, &sums};
    own.launch(blocks, own["block_x"], arguments, data.stream);
    if (blocks == 1 || own["one_launch"] != 0) return *to;
    from = sums;
    left = blocks;
    to = to == &data.scratch ? &data.more_scratch : &data.scratch;
  }
}

/// Measures the own kernel. Throws Unverified if the sum is wrong.
inline void climb_own_sum(Ladder& ladder, const OwnRung& own, const Data& data, double expected) {
  if (own["form"] == 4 && data.count > std::numeric_limits<std::int32_t>::max()) {
    throw Error(formatted("its count has 4 bytes, too few for {} elements", data.count));
  }
  const auto elements = static_cast<double>(data.count);
  const double bytes = elements * sizeof(float);
  const Work work{.operations = elements, .bytes = bytes, .arithmetic = "fp32", .distinct = bytes};
  const std::string launch =
      formatted("{} threads in a block, {} blocks{}", own["block_x"], own_blocks(own, data.count),
                std::string(own["one_launch"] != 0 ? ", one launch" : ""));
  const DeviceArray<float>* result = nullptr;
  ladder.climb(
      own.rung(launch, work), [&] { result = &enqueue_own(own, data); },
      [&] {
        const double sum = result->read(0, 1)[0];
        if (std::abs(sum / expected - 1) < sum_tolerance) return true;
        throw Unverified(formatted(
            "the sum of {} elements is {} instead of {}; a relative error of {} is allowed",
            data.count, sum, expected, sum_tolerance));
      });
}

}  // namespace shardstream::experiments::ladders
#endif  // SHARDSTREAM_HAS_CUDA
