// A pointer chase: a cycle through the lines of a working set in random order, and the time of a
// step.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "experiments/gpu.hpp"
#include "experiments/memory/walk.hpp"

namespace shardstream::experiments::memory {

/// The address of the next link, so that a step of the chase is one load without arithmetic.
struct Link {
  const Link* next;
};
/// Bytes of a cache line. Each has one link, so that no load finds the line of another one.
constexpr std::uint64_t line = 128;
constexpr std::uint64_t links_of_line = line / sizeof(Link);

__global__ void write_links(Link* links, Walk walk) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t x = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; x < walk.count;
       x += step) {
    links[walk.place(x) * links_of_line].next = links + walk.place(walk.next(x)) * links_of_line;
  }
}

/// Makes the link in each line point to the next line of the walk, in the order of `stream`.
inline void enqueue_links(Link* links, const Walk& walk, cudaStream_t stream) {
  constexpr unsigned threads = 256, blocks = 1024;
  write_links<<<blocks, threads, 0, stream>>>(links, walk);
  check_launch("write_links");
}

/// The place that a chase has reached, in links, and the cycles that it took.
struct Answer {
  std::uint64_t last, cycles;
};

/// One measured working set.
struct Point {
  std::uint64_t bytes;
  double cycles;
  Measured nanoseconds;
};

/// Measures chases and adds their rows. The time of a launch is subtracted.
class Chase {
 public:
  Chase(Bench& bench, Gpu& gpu, Measurements& rows)
      : bench_(bench),
        gpu_(gpu),
        rows_(rows),
        answer_(1),
        steps_(bench.is_quick() ? 4096 : 16384) {}

  /// Measures `launch`, which makes `steps` dependent steps from the place of the answer on. `end`
  /// is the place after so many steps from 0. `lap` steps fill the caches. The cycles are those of
  /// the last launch.
  Point measure(std::uint64_t bytes, std::uint64_t lap,
                const std::function<std::uint64_t(std::uint64_t steps)>& end,
                const std::function<void(std::uint64_t steps, Answer*)>& launch) {
    answer_.clear(gpu_.stream());
    launch(lap, answer_.data());
    launch(steps_, answer_.data());
    bench_.verify(answer_.read()[0].last == end(lap + steps_), "dependent steps");
    const auto enqueue = [&](std::uint64_t steps) {
      return gpu_.time([&] { launch(steps, answer_.data()); });
    };
    const Measured many = enqueue(steps_).seconds;
    const Answer answer = answer_.read()[0];
    const Measured none = enqueue(0).seconds;
    const auto per_step = [&](double seconds) {
      return (seconds - none.value) * 1e9 / static_cast<double>(steps_);
    };
    return {bytes,
            static_cast<double>(answer.cycles) / static_cast<double>(steps_),
            {per_step(many.value), per_step(many.lo), per_step(many.hi)}};
  }
  /// The same for a walk whose places are `scale` links long.
  Point measure(const Walk& walk, std::uint64_t bytes, std::uint64_t scale,
                const std::function<void(std::uint64_t steps, Answer*)>& launch) {
    // One pass through the set fills the caches; for large sets, a part of it must do.
    const std::uint64_t lap = std::min<std::uint64_t>(walk.count, 1U << 18);
    return measure(
        bytes, lap, [&](std::uint64_t steps) { return end_of(walk, steps) * scale; }, launch);
  }

  /// `of_step`: the work of one step.
  void add(const char* memory, const Point& point, const std::string& remark, const Work& of_step) {
    const auto steps = static_cast<double>(steps_);
    rows_.add({memory, static_cast<std::int64_t>(point.bytes), point.cycles}, point.nanoseconds,
              std::numeric_limits<double>::quiet_NaN(), remark,
              {.operations = of_step.operations * steps,
               .bytes = of_step.bytes * steps,
               .arithmetic = of_step.arithmetic,
               .shared = of_step.shared * steps,
               .instructions = of_step.instructions * steps},
              point.nanoseconds.value * 1e-9 * steps);
  }

 private:
  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  DeviceArray<Answer> answer_;
  std::uint64_t steps_;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
