// The cost of an offset. If the words of a warp begin inside a sector of memory, the warp touches
// one more sector than necessary. The next warp reads the rest of that sector, so a cache serves
// most of it.
#include <cmath>
#include <string>

#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/sectors.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"offset.size", OptionKind::size, "1GiB", "1MiB..", "Size of each array."},
};
constexpr Axis axes[] = {{.name = "offset",
                          .unit = "words",
                          .values = "0..32",
                          .quick = "0..32+4",
                          .sentence = "The words before the first one that is copied."}};

Table offset(Bench& bench);

extern const Experiment about_offset = {
    .name = "offset",
    .group = "memory",
    .summary = "An offset makes each warp read one more sector; caches serve most of it.",
    .explanation =
        {
            .question =
                "What does a coalesced access cost if the words of a warp do not begin at the "
                "start of a sector?",
            .varies =
                "Each thread copies one float, and the first float lies 0 to 32 words after the "
                "start of the array. A warp reads 128 contiguous bytes. `asked` has these bytes, "
                "`moved` those of the sectors in which they lie for a warp alone, and `efficiency` "
                "is their ratio, as profilers report it.",
            .expectation =
                "The 128 bytes are four sectors of 32 bytes if they begin at a sector, otherwise "
                "five. So a warp alone asks for four fifths of the bytes moved. But the next warp "
                "reads the rest of the fifth sector, which is then in a cache, so memory moves it "
                "once: expect a loss of at most a tenth. Since memory moves each sector once, "
                "expect the rate of offset 0. With an offset that is not a multiple of 32 words, a "
                "warp also reads from two lines of 128 bytes instead of one, which may cost a "
                "little.",
            .pitfalls =
                "The efficiency of profilers counts each warp alone, and so predicts a larger loss "
                "than the caches leave. Offset 0 stays below the rate of a copy because a thread "
                "has only one word in flight.",
        },
    .read_on = {{Guide::best_practices, "A Sequential but Misaligned Access Pattern"},
                {Guide::best_practices, "Throughput Reported by Visual Profiler"}},
    .reference =
        "Tesla V100: about 790 GB/s aligned or at multiples of 8 words, nine tenths of that "
        "otherwise.",
    .share = "of the rate of a copy in device memory, which moves wider words",
    .options = options,
    .axes = axes,
    .expected =
        [](const MeasuredRow& row) {
          return row["offset"] == 0 ? row.ceiling("device_copy") : row.measured({{"offset", "0"}});
        },
    .exercise =
        {.task =
             "Predict the rate in GB/s with offsets of 0, 4 and 32 words, from the rate of a copy.",
         .rows = {{{"offset", "0"}}, {{"offset", "4"}}, {{"offset", "32"}}}},
    .figure = {.look = Look::lines, .x = "offset", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<offset>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 256;
constexpr unsigned words_of_sector = sector / sizeof(float);
constexpr unsigned words_of_line = 32;  // floats in 128 bytes

/// Thread i copies word offset + i.
__global__ void copy_shifted(const float* from, float* to, std::uint64_t count, unsigned offset) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) to[offset + i] = from[offset + i];
}

/// Expects `count` words to be copied from `offset` on, and zeros elsewhere.
struct IsWrong {
  const float* to;
  std::uint64_t count;
  unsigned offset;

  __device__ bool operator()(std::uint64_t i) const {
    const bool is_copied = i >= offset && i < offset + count;
    return to[i] != (is_copied ? unit_number(i) : 0.0F);
  }
};

/// `relative` is the rate over the rate with offset 0, NaN if that is not measured.
std::string remark(double relative, unsigned offset) {
  if (offset == 0) return "aligned";
  const std::string begin = offset % words_of_line == 0     ? "begins with a line: "
                            : offset % words_of_sector == 0 ? "begins with a sector: "
                                                            : "begins inside a sector: ";
  if (std::isnan(relative)) return begin + "nothing to compare with";
  if (relative > 1.005) return begin + formatted("{:.1f} % faster", 100 * (relative - 1));
  if (relative > 0.995) return begin + "no loss";
  const std::string loss = begin + formatted("{:.1f} % slower", 100 * (1 - relative));
  return relative < 0.8 ? loss + ", more than one additional sector explains" : loss;
}

}  // namespace

Table offset(Bench& bench) {
  Gpu gpu(bench);
  constexpr unsigned max = 32;
  const std::uint64_t words = bench.bytes("offset.size") / sizeof(float);
  const std::uint64_t count = words - max;
  DeviceArray<float> from(words), to(words);
  fill(from, gpu.stream());
  Measurements rows(bench.columns({{"asked", ColumnType::integer, "B/warp"},
                                   {"moved", ColumnType::integer, "B/warp"},
                                   {"efficiency", ColumnType::real}}),
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  const Work work = streaming(2.0 * sizeof(float) * static_cast<double>(count));
  double aligned = std::nan("");
  for (const Point& point : bench.points()) {
    const auto words_off = static_cast<unsigned>(point["offset"]);
    const auto copy = [&] {
      copy_shifted<<<blocks_for(count, threads), threads, 0, gpu.stream()>>>(from.data(), to.data(),
                                                                             count, words_off);
      check_launch("copy_shifted");
    };
    to.clear(gpu.stream());
    copy();
    bench.verify(count_wrong(words, IsWrong{to.data(), count, words_off}, gpu.stream()) == 0,
                 formatted("a copy with offset {}", words_off));
    const Access access = access_of_warp(
        [&](std::uint64_t lane) { return (words_off + lane) * sizeof(float); }, sizeof(float));
    const Timing timing = gpu.time(copy);
    const Measured rate = timing.rate(work.bytes);
    if (words_off == 0) aligned = rate.value;
    rows.add(point.cells({static_cast<std::int64_t>(access.asked),
                          static_cast<std::int64_t>(access.moved()), access.efficiency()}),
             rate, rate.value / bench.ceiling("device_copy"),
             remark(rate.value / aligned, words_off), work, timing.seconds.value);
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
