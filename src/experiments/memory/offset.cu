// What it costs if a warp's words do not begin where a line of memory does: the warp touches one
// sector more than it needs. The neighbouring warp reads the rest of that sector, so that a cache
// gives most of it back.
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/memory.hpp"

namespace shardstream::experiments::memory {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned words_of_sector = 8;  // floats in 32 bytes

/// Thread i copies word offset + i.
__global__ void copy_shifted(const float* from, float* to, std::uint64_t count, unsigned offset) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[offset + i] = from[offset + i];
}

__global__ void count_wrong(const float* to, std::uint64_t words, std::uint64_t count,
                            unsigned offset, unsigned* wrong) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i >= words) return;
  const bool is_copied = i >= offset && i < offset + count;
  if (to[i] != (is_copied ? unit_number(i) : 0.0F)) atomicAdd(wrong, 1);
}

const char* remark(double relative, unsigned offset) {
  if (offset == 0) return "aligned";
  if (offset % words_of_sector == 0) return "aligned to a sector of 32 bytes: no loss is expected";
  if (relative > 0.98) return "no loss: the caches give the shared sectors back";
  if (relative > 0.8) return "as expected: one sector in five is read twice at the most";
  return "more than the sector that a warp reads twice";
}

}  // namespace

Table offset(Bench& bench) {
  Gpu gpu(bench);
  constexpr unsigned most = 32;
  const std::uint64_t words = bench.bytes("offset.size") / sizeof(float);
  const std::uint64_t count = words - most;
  DeviceArray<float> from(words), to(words);
  DeviceArray<unsigned> wrong(1);
  fill(from, gpu.stream());
  Measurements rows({{"offset", ColumnType::integer, "words"}}, {"rate", ColumnType::real, "GB/s"});
  double aligned = 0;
  for (unsigned words_off = 0; words_off <= most; words_off += bench.is_quick() ? 4 : 1) {
    const auto copy = [&] {
      copy_shifted<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(from.data(), to.data(),
                                                                             count, words_off);
      check_launch("copy_shifted");
    };
    to.clear(gpu.stream());
    wrong.clear(gpu.stream());
    copy();
    count_wrong<<<blocks_for(words, threads), threads, 0, gpu.stream()>>>(to.data(), words, count,
                                                                          words_off, wrong.data());
    check_launch("count_wrong");
    bench.verify(wrong.read()[0] == 0, formatted("a copy with offset {}", words_off));
    const Estimate rate = gpu.time(copy).rate(2.0 * sizeof(float) * static_cast<double>(count));
    if (words_off == 0) aligned = rate.value;
    rows.add({std::int64_t{words_off}}, rate, rate.value / bench.ceiling("device_copy"),
             remark(rate.value / aligned, words_off));
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::memory
