// A cycle through the lines of a working set in random order: what a pointer chase follows.
#pragma once

#include <cstdint>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// The address of the next link, so that a step of the chase is one load without arithmetic.
struct Link {
  const Link* next;
};
/// Bytes of a cache line. Each has one link, so that no load finds the line of another one.
constexpr std::uint64_t line = 128;
constexpr std::uint64_t links_of_line = line / sizeof(Link);

/// A walk that visits every number below `count`, a power of two, once before it returns to the
/// first one: the numbers of a linear congruential generator with full period (Hull and Dobell,
/// "Random number generators", 1962). place() mixes them by a bijection, because their low bits are
/// regular.
struct Walk {
  std::uint64_t count;

  __host__ __device__ std::uint64_t next(std::uint64_t x) const {
    return (x * 6364136223846793005U + 1442695040888963407U) & (count - 1);
  }
  __host__ __device__ std::uint64_t place(std::uint64_t x) const {
    unsigned bits = 0;
    while ((std::uint64_t{1} << bits) < count) ++bits;
    for (int round = 0; round < 2; ++round) {
      x ^= x >> (bits / 2 + 1);
      x = (x * 0x9e3779b97f4a7c15U) & (count - 1);
    }
    return x ^ (x >> (bits / 2 + 1));
  }
};

/// The place that the walk has reached after `steps` steps.
inline std::uint64_t end_of(const Walk& walk, std::uint64_t steps) {
  std::uint64_t x = 0;
  for (std::uint64_t i = 0; i < steps % walk.count; ++i) x = walk.next(x);
  return walk.place(x);
}

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

}  // namespace shardstream::experiments::memory
