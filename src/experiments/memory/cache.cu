// The rates and the sizes of the caches. Each multiprocessor reads a slice of its own repeatedly. A
// slice that fits in L1 is read at the rate of L1, a set of slices that fits in L2 at the rate of
// L2, and a larger one at the rate of device memory.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/read_again.cuh"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"cache.most", OptionKind::size, "512MiB", "16MiB..64GiB",
     "The largest working set: the slices of all multiprocessors."},
};

Table cache(Bench& bench);

namespace {

/// The remark names the memory from which the slice is read. The smallest slice shows its rate.
double expected_rate(const MeasuredRow& row) {
  const std::string remark = row.text("remark");
  if (remark == "expected from L1") return row.measured({{"loads", "L1"}});
  if (remark == "expected from L2") return row.measured({{"loads", "L2"}});
  return remark == "expected from device memory" ? row.ceiling("device_read") : std::nan("");
}

}  // namespace

extern const Experiment about_cache = {
    .name = "cache",
    .group = "memory",
    .summary = "Data that is read again comes from L1 or L2, several times as fast as from memory.",
    .explanation =
        {
            .question =
                "How much faster does data come from L1 or L2 than from memory, and up to which "
                "size?",
            .varies =
                "Each multiprocessor reads a slice of its own repeatedly, with one block. `slice` "
                "is its size, and `set` that of all slices together, up to cache.most. Two kinds "
                "of loads read it: `L1` through all caches, and `L2` with loads that do not use "
                "L1 (ld.global.cg).",
            .expectation =
                "Every multiprocessor has its own L1, so a slice that fits in it is read at the "
                "rate of all L1 caches together. L1 delivers at most 128 bytes in a clock of its "
                "multiprocessor. L2 serves all multiprocessors, so it is the set that must fit. "
                "Expect each line to have one step down, at the size of its cache, and both to end "
                "at the rate of device memory. The notes name the sizes between which the rate "
                "falls most. L1 and shared memory are one memory: a slice of nearly all of it "
                "fits.",
            .pitfalls =
                "An L2 cache may serve several multiprocessors that ask for one line at nearly "
                "the same time by one read of it. A set that all of them read would then seem "
                "faster than the cache, so each has its own. The smallest slice has as many bytes "
                "as a block has in flight.",
        },
    .read_on = {{Guide::best_practices, "Device Memory Spaces"}},
    .reference =
        "Tesla V100, measured by gpu-benches (github.com/te42kyfo/gpu-benches): L1 13700, L2 2500 "
        "GB/s.",
    .share = "of the rate of reading device memory",
    .options = options,
    .expected = expected_rate,
    .exercise =
        {.task = "Predict the rate in GB/s through L1 of slices of 128 KiB, from the clock and the "
                 "number of multiprocessors, and of slices of 1 MiB by both kinds of loads, from "
                 "the rate of reading memory.",
         .rows = {{{"loads", "L1"}, {"slice", "131072"}},
                  {{"loads", "L1"}, {"slice", "1048576"}},
                  {{"loads", "L2"}, {"slice", "1048576"}}}},
    .figure = {.look = Look::lines,
               .x = "slice",
               .y = "rate",
               .series = "loads",
               .log_x = true,
               .log_y = true},
    .needs = {.ceilings = {"device_read"}},
    .run = with_cuda<cache>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Slices in steps: powers of two, and all multiples near the sizes at which L1 (`l1` bytes) and L2
/// (`l2` bytes for each multiprocessor) are full.
std::vector<std::uint64_t> slices(std::uint64_t max, std::uint64_t l1, std::uint64_t l2,
                                  bool quick) {
  std::vector<std::uint64_t> all = sizes_up_to(1, max / step_bytes, quick ? 4 : 2);
  const auto add_near = [&](std::uint64_t size) {
    for (std::uint64_t n = size / step_bytes / 4 * 3; n <= size / step_bytes * 5 / 4 + 1; ++n) {
      if (n > 0 && n * step_bytes <= max) all.push_back(n);
    }
  };
  add_near(l1);
  if (!quick) add_near(l2);
  std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  for (std::uint64_t& each : all) each *= step_bytes;
  return all;
}

struct Reading {
  std::uint64_t slice;
  double rate;  ///< GB/s
};

/// The neighbours between which the rate falls by the largest factor. There are at least two.
std::pair<Reading, Reading> step_of(const std::vector<Reading>& line) {
  std::size_t at = 1;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i - 1].rate / line[i].rate > line[at - 1].rate / line[at].rate) at = i;
  }
  return {line[at - 1], line[at]};
}

std::string remark(Through caches, std::uint64_t slice, std::uint64_t set,
                   const cudaDeviceProp& gpu) {
  const std::uint64_t l1 = gpu.sharedMemPerMultiprocessor;
  if (caches == Through::l1 && slice <= l1) return "expected from L1";
  if (caches == Through::l1 && slice <= 2 * l1) return "L1 may still hold a part";
  return set <= static_cast<std::uint64_t>(gpu.l2CacheSize) ? "expected from L2"
                                                            : "expected from device memory";
}

}  // namespace

Table cache(Bench& bench) {
  Gpu gpu(bench);
  const auto multiprocessors = static_cast<std::uint64_t>(gpu.properties().multiProcessorCount);
  const std::uint64_t l1 = gpu.properties().sharedMemPerMultiprocessor;
  const auto l2 = static_cast<std::uint64_t>(gpu.properties().l2CacheSize);
  const std::uint64_t max =
      std::max<std::uint64_t>(2, bench.bytes("cache.most") / multiprocessors / step_bytes) *
      step_bytes;
  RepeatedReads reads(bench, gpu, max);
  Measurements rows({{"loads", ColumnType::text},
                     {"slice", ColumnType::integer, "B"},
                     {"set", ColumnType::integer, "B"}},
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  for (const Through caches : {Through::l1, Through::l2}) {
    const std::string name = caches == Through::l1 ? "L1" : "L2";
    std::vector<Reading> line;
    for (const std::uint64_t slice : slices(max, l1, l2 / multiprocessors, bench.is_quick())) {
      const std::uint64_t set = slice * multiprocessors;
      const auto [timing, all] = reads.measure(slice, caches);
      const Measured rate = timing.rate(all);
      line.push_back({slice, rate.value});
      rows.add(
          {name, static_cast<std::int64_t>(slice), static_cast<std::int64_t>(set)}, rate,
          rate.value / bench.ceiling("device_read"), remark(caches, slice, set, gpu.properties()),
          {.operations = all / sizeof(unsigned), .bytes = all, .shared = 0}, timing.seconds.value);
    }
    if (line.size() < 2) continue;
    const auto [before, after] = step_of(line);
    const bool is_l1 = caches == Through::l1;
    const std::uint64_t factor = is_l1 ? 1 : multiprocessors;
    bench.note(
        formatted("{}: the rate falls most, from {:.0f} to {:.0f} GB/s, between {} of {} and of "
                  "{}. {} has {}.",
                  name, before.rate, after.rate, std::string(is_l1 ? "slices" : "sets"),
                  format_size(before.slice * factor), format_size(after.slice * factor),
                  std::string(is_l1 ? "Shared memory, which is a part of L1," : "L2"),
                  format_size(is_l1 ? l1 : l2)));
  }
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
