// What a stride costs. Memory moves sectors of 32 bytes, so that the words between those that a
// warp wants are moved, too, and thrown away.
#include <string>

#include "experiments/gpu.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t words_of_sector = 8;  // floats in 32 bytes

/// Thread i copies word i * stride.
__global__ void copy_strided(const float* from, float* to, std::uint64_t count,
                             std::uint64_t stride) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i * stride] = from[i * stride];
}

/// Counts words that are not what the copy should have left: every stride-th word copied, all
/// others zero.
__global__ void count_wrong(const float* to, std::uint64_t words, std::uint64_t count,
                            std::uint64_t stride, unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const bool is_copied = i % stride == 0 && i / stride < count;
  if (to[i] != (is_copied ? unit_number(i) : 0.0F)) atomicAdd(wrong, 1);
}

std::string remark(double relative, std::uint64_t stride) {
  const double expected = 1.0 / static_cast<double>(std::min(stride, words_of_sector));
  if (stride == 1) return "the whole of each sector is used";
  if (relative > 1.2 * expected) return "better than its share of each sector";
  if (relative > 0.8 * expected) return "as expected: its share of each sector";
  return "worse than its share: a warp's sectors lie in more rows of memory";
}

}  // namespace

Table stride(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t most = bench.options().count("stride.most");
  const std::uint64_t words = bench.bytes("stride.size") / sizeof(float);
  const std::uint64_t count = words / most;  // words to copy, the same with every stride
  DeviceArray<float> from(words), to(words);
  DeviceArray<unsigned> wrong(1);
  fill(from, gpu.stream());
  Measurements rows({{"stride", ColumnType::integer, "words"}}, {"rate", ColumnType::real, "GB/s"});
  double dense = 0;
  for (std::uint64_t s = 1; s <= most; s = bench.is_quick() || s >= 8 ? 2 * s : s + 1) {
    const auto copy = [&] {
      copy_strided<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(from.data(), to.data(),
                                                                             count, s);
      check_launch("copy_strided");
    };
    to.clear(gpu.stream());
    wrong.clear(gpu.stream());
    copy();
    count_wrong<<<blocks_for(words, threads), threads, 0, gpu.stream()>>>(to.data(), words, count,
                                                                          s, wrong.data());
    check_launch("count_wrong");
    bench.verify(wrong.read()[0] == 0, "a copy with stride " + std::to_string(s));

    const Estimate rate = gpu.time(copy).rate(2.0 * static_cast<double>(count * sizeof(float)));
    if (s == 1) dense = rate.value;
    rows.add({static_cast<std::int64_t>(s)}, rate, rate.value / bench.ceiling("device_copy"),
             remark(rate.value / dense, s));
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
