#include "experiments/instructions/issue_rate.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/instructions/unit_rates.hpp"

namespace shardstream::experiments::instructions {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned real_chains = 4, bit_chains = 2, steps = 16, rounds = 500;
// Machine code for compute capability 9.0: of the bits of a step, and of a round besides its steps.
constexpr unsigned bit_instructions = 3, loop = 3;

struct Values {
  float real[real_chains];
  unsigned bits[bit_chains];
};

/// One step: multiply-adds that change signs, and selections of bits, which another unit executes.
__host__ __device__ inline void advance(Values& values, float minus_two, unsigned mask) {
  for (float& x : values.real) x = fmaf(x, minus_two, x);
  for (unsigned c = 0; c < bit_chains; ++c) {
    values.bits[c] = (values.bits[c] & mask) ^ values.bits[(c + 1) % bit_chains];
  }
}

__host__ __device__ inline Values start_of(unsigned thread) {
  Values values;
  for (unsigned c = 0; c < real_chains; ++c) values.real[c] = static_cast<float>(thread % 64 + c);
  for (unsigned c = 0; c < bit_chains; ++c) values.bits[c] = 0x9e3779b9U * (thread % 64 + c + 1);
  return values;
}

/// One number that depends on all values.
__host__ __device__ inline unsigned total_of(const Values& values) {
  unsigned total = 0;
  for (const float x : values.real) total = 31 * total + static_cast<unsigned>(static_cast<int>(x));
  for (const unsigned x : values.bits) total = 31 * total + x;
  return total;
}

__global__ void __launch_bounds__(threads) issue(float minus_two, unsigned mask, unsigned* totals) {
  const unsigned thread = blockIdx.x * threads + threadIdx.x;
  Values values = start_of(thread);
#pragma unroll 1
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned step = 0; step < steps; ++step) advance(values, minus_two, mask);
  }
  totals[thread] = total_of(values);
}

constexpr float minus_two = -2;
constexpr unsigned mask = 0x5bd1e995U;

bool are_right(const std::vector<unsigned>& totals) {
  std::vector<unsigned> expected;
  for (unsigned thread = 0; thread < 64; ++thread) {
    Values values = start_of(thread);
    for (unsigned step = 0; step < rounds * steps; ++step) advance(values, minus_two, mask);
    expected.push_back(total_of(values));
  }
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (totals[i] != expected[i % expected.size()]) return false;
  }
  return true;
}

}  // namespace

IssueRate measure_issue_rate(Bench& bench, Gpu& gpu) {
  const unsigned blocks = resident_blocks(gpu, reinterpret_cast<const void*>(issue), threads);
  const DeviceArray<unsigned> totals(std::uint64_t{blocks} * threads);
  const auto launch = [&] {
    issue<<<blocks, threads, 0, gpu.stream()>>>(minus_two, mask, totals.data());
    check_launch("issue");
  };
  launch();
  bench.verify(are_right(totals.read()), "instructions of two units");
  const double warps = static_cast<double>(totals.size()) / warp;
  const double all = warps * rounds * (steps * (real_chains + bit_instructions) + loop);
  const Timing timing = gpu.time(launch);
  int clock = 0;  // kHz
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, current_gpu()),
        "cudaDeviceGetAttribute");
  const double operations = warps * warp * rounds * steps * (2 * real_chains + 2 * bit_chains);
  return {timing,
          {.operations = operations,
           .bytes = static_cast<double>(totals.bytes()),
           .distinct = static_cast<double>(totals.bytes()),
           .shared = 0,
           .instructions = all},
          all / timing.seconds.value / gpu.properties().multiProcessorCount / clock / 1e3};
}

}  // namespace shardstream::experiments::instructions
