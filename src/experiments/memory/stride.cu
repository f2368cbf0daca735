// The cost of a stride. Memory moves whole sectors of 32 bytes, including the words between those
// that a warp reads. From a stride of 8 words on, each word lies in its own sector. A sector that
// is written in part must be read first.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/sectors.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"stride.size", OptionKind::size, "4GiB", "1MiB..",
     "Size of each array. All strides copy as many words as the largest stride can."},
    {"stride.most", OptionKind::count, "32", "1..1024", "The largest stride, in words."},
};
constexpr Axis axes[] = {{.name = "stride",
                          .unit = "words",
                          .values = "1..32,1..*2",
                          .quick = "1..*2",
                          .range = "1..1024",
                          .most = "stride.most",
                          .sentence = "The distance between the words of neighbouring threads."}};

Table stride(Bench& bench);

extern const Experiment about_stride = {
    .name = "stride",
    .group = "memory",
    .summary =
        "With a stride of s words, a warp uses 1/s of the bytes that memory moves, but at least "
        "1/8.",
    .explanation =
        {
            .question =
                "How fast is a copy of every s-th word, compared with a coalesced copy of all "
                "words?",
            .varies =
                "Each thread copies one float. Neighbouring threads copy words that are s words "
                "apart, with s from 1 to stride.most. `asked` has the bytes that the lanes of a "
                "warp load, `moved` those of the sectors in which they lie, and `efficiency` is "
                "their ratio, the load efficiency of profilers. The rate counts the bytes asked "
                "for.",
            .expectation =
                "Memory moves whole sectors of 32 bytes: with s = 2, half of each sector is used, "
                "and from s = 8 on, one word in eight. For s = 2 to 8, expect two thirds of the "
                "efficiency times the rate of a copy, which falls as 1/s. The two thirds are due "
                "to the stores: memory reads a sector to complete it, and then writes it, so three "
                "sectors move where stride 1 moves two. With strides above 8, each word still "
                "needs one sector, but the sectors are spread over more lines and pages of memory, "
                "so the rate falls further than at 8.",
            .pitfalls =
                "Stride 1 stays below the rate of a copy because a thread has only one word in "
                "flight.",
        },
    .read_on = {{Guide::best_practices, "Strided Accesses"},
                {Guide::best_practices, "Throughput Reported by Visual Profiler"}},
    .reference =
        "Tesla V100: a stride of 2 halves the rate, and it falls on towards large strides.",
    .share = "of the rate of a copy in device memory, which moves wider words",
    .options = options,
    .axes = axes,
    .expected =
        [](const MeasuredRow& row) {
          constexpr double words = static_cast<double>(sector) / sizeof(float);
          return row["stride"] >= 2 && row["stride"] <= words
                     ? 2.0 / 3 * row["efficiency"] * row.ceiling("device_copy")
                     : std::nan("");
        },
    .exercise =
        {.task = "Predict the rate in GB/s with strides of 2, 4 and 8 words, from your GPU's rate "
                 "of a copy.",
         .rows = {{{"stride", "2"}}, {{"stride", "4"}}, {{"stride", "8"}}}},
    .figure = {.look = Look::lines, .x = "stride", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<stride>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr std::uint64_t words_of_sector = sector / sizeof(float);

/// Thread i copies word i * stride.
__global__ void copy_strided(const float* from, float* to, std::uint64_t count,
                             std::uint64_t stride) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[i * stride] = from[i * stride];
}

/// Expects every stride-th word to be copied, and zeros elsewhere.
struct IsWrong {
  const float* to;
  std::uint64_t count, stride;

  __device__ bool operator()(std::uint64_t i) const {
    const bool is_copied = i % stride == 0 && i / stride < count;
    return to[i] != (is_copied ? unit_number(i) : 0.0F);
  }
};

/// The rates of a copy of wide words and of stride 8, with which others are compared; NaN before
/// they are measured.
struct Yardsticks {
  double copy, sector = std::nan("");
};

std::string remark(double rate, const Yardsticks& of, std::uint64_t stride, double efficiency) {
  if (stride == 1) return "each sector is used completely";
  if (stride > words_of_sector) {
    if (std::isnan(of.sector)) return "one word per sector, spread over more lines";
    return formatted("{:.2f} of the rate of stride {}: one word per sector, spread over more lines",
                     rate / of.sector, words_of_sector);
  }
  const double relative = rate / of.copy, expected = share_of_copy(efficiency);
  const char* const verdict = relative > 1.1 * expected   ? "better than"
                              : relative > 0.9 * expected ? "as expected,"
                                                          : "worse than";
  return formatted("{:.3f} of the rate of a copy: {} {:.3f}, two thirds of the efficiency",
                   relative, std::string(verdict), expected);
}

}  // namespace

Table stride(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t max = bench.options().count("stride.most");
  const std::uint64_t words = bench.bytes("stride.size") / sizeof(float);
  const std::uint64_t count = words / max;  // words to copy, the same with every stride
  DeviceArray<float> from(words), to(words);
  fill(from, gpu.stream());
  Measurements rows(bench.columns({{"asked", ColumnType::integer, "B/warp"},
                                   {"moved", ColumnType::integer, "B/warp"},
                                   {"efficiency", ColumnType::real}}),
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  Yardsticks yardsticks{.copy = bench.ceiling("device_copy")};
  for (const Point& point : bench.points()) {
    const std::uint64_t s = point["stride"];
    const auto copy = [&] {
      copy_strided<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(from.data(), to.data(),
                                                                             count, s);
      check_launch("copy_strided");
    };
    to.clear(gpu.stream());
    copy();
    bench.verify(count_wrong(words, IsWrong{to.data(), count, s}, gpu.stream()) == 0,
                 "a copy with stride " + std::to_string(s));

    const Access access =
        access_of_warp([&](std::uint64_t lane) { return lane * s * sizeof(float); }, sizeof(float));
    const Work work = streaming(2.0 * static_cast<double>(count * sizeof(float)));
    const Timing timing = gpu.time(copy);
    const Measured rate = timing.rate(work.bytes);
    if (s == words_of_sector) yardsticks.sector = rate.value;
    rows.add(point.cells({static_cast<std::int64_t>(access.asked),
                          static_cast<std::int64_t>(access.moved()), access.efficiency()}),
             rate, rate.value / bench.ceiling("device_copy"),
             remark(rate.value, yardsticks, s, access.efficiency()), work, timing.seconds.value);
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
