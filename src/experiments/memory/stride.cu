// What a stride costs. Memory moves sectors of 32 bytes, so that words between those that a warp
// wants are moved, too, and thrown away.
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

/// Whether every stride-th word has been copied, and no other.
bool is_right(const DeviceArray<float>& to, std::uint64_t count, std::uint64_t stride) {
  const std::vector<float> words = to.read();
  for (std::uint64_t i = 0; i < words.size(); ++i) {
    const bool is_copied = i % stride == 0 && i / stride < count;
    if (words[i] != (is_copied ? unit_number(i) : 0)) return false;
  }
  return true;
}

std::string remark(double relative, std::uint64_t stride) {
  const double expected = 1.0 / static_cast<double>(std::min(stride, words_of_sector));
  if (stride == 1) return "the whole of each sector is used";
  if (relative > 1.2 * expected) return "better than its share of each sector";
  if (relative > 0.8 * expected) return "as expected: its share of each sector";
  return "worse than its share: each warp touches more pages and rows of memory";
}

}  // namespace

Table stride(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t most = bench.options().count("stride.most");
  const std::uint64_t words = bench.bytes("stride.size") / sizeof(float);
  const std::uint64_t count = words / most;  // words copied, the same with every stride
  DeviceArray<float> from(words), to(words);
  fill(from, gpu.stream());
  Measurements rows({{"stride", ColumnType::integer, "words"}},
                    {"rate", ColumnType::real, "GB/s"}, bench.ceiling("device_copy"));
  double dense = 0;
  for (std::uint64_t s = 1; s <= most; s = bench.is_quick() || s >= 8 ? 2 * s : s + 1) {
    const auto copy = [&] {
      copy_strided<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(from.data(), to.data(),
                                                                             count, s);
      check_launch("copy_strided");
    };
    check(cudaMemset(to.data(), 0, to.bytes()), "cudaMemset");
    copy();
    bench.verify(is_right(to, count, s), "a copy with stride " + std::to_string(s));
    const Estimate rate = gpu.time(copy).rate(2.0 * static_cast<double>(count * sizeof(float)));
    if (s == 1) dense = rate.value;
    rows.add({static_cast<std::int64_t>(s)}, rate, remark(rate.value / dense, s));
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
