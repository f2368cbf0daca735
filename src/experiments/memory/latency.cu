// The latency of a load. A single thread follows pointers in random order through a working set, so
// that each load waits for the previous one. The time rises when the set exceeds a cache; a set
// that is a little larger than a cache lies partly in it.
#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/levels.hpp"
#include "experiments/memory/walk.cuh"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"latency.most", OptionKind::size, "8GiB", "64KiB..",
     "The largest working set, rounded down to a power of two."},
};

Table latency(Bench& bench);

extern const Experiment about_latency = {
    .name = "latency",
    .group = "memory",
    .summary = "A load takes tens of cycles from L1 and hundreds from memory.",
    .explanation =
        "A single thread follows pointers in random order, one in each line of 128 bytes, "
        "through working sets of 1 KiB to latency.most. Each load waits for the previous one, so "
        "the time of a step is the latency. It rises when the working set exceeds L1, L2, and "
        "the memory that the TLB covers; a note names the levels that were found. If a set is a "
        "little larger than a cache, a part of it still lies there, and its time is between two "
        "levels. The latencies of shared memory, of pinned host memory (over the link) and, if "
        "there is one, of another GPU's memory are measured as well. Expect L2 to take about ten "
        "times as long as L1, and memory twice as long as L2. A GPU needs many warps because "
        "others run while one waits. CUDA C++ Programming Guide, section Maximize Instruction "
        "Throughput; Best Practices Guide, chapter Memory Optimizations.",
    .reference = "Tesla V100: L1 30, L2 214, memory 435 cycles.",
    .options = options,
    .figure = {.look = Look::lines,
               .x = "bytes",
               .y = "latency",
               .series = "memory",
               .log_x = true,
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<latency>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

/// Follows `steps` links from the place that the previous launch reached, so that recently read
/// lines are the last to be read again. First, `before` steps that are not measured fill L1, which
/// is empty when a kernel begins.
__global__ void follow(const Link* links, std::uint64_t before, std::uint64_t steps,
                       Answer* answer) {
  const Link* at = links + answer->last;
  for (std::uint64_t i = 0; i < before; ++i) at = at->next;
  const long long begin = clock64();
  for (std::uint64_t i = 0; i < steps; ++i) at = at->next;
  *answer = {static_cast<std::uint64_t>(at - links), static_cast<std::uint64_t>(clock64() - begin)};
}

/// The same in shared memory. Its links are offsets in bytes, which a load adds to the base address
/// without another instruction.
__global__ void follow_shared(Walk walk, std::uint64_t steps, Answer* answer) {
  extern __shared__ unsigned shared_links[];
  for (std::uint64_t x = 0; x < walk.count; ++x) {
    shared_links[walk.place(x)] =
        static_cast<unsigned>(walk.place(walk.next(x)) * sizeof(unsigned));
  }
  const auto* const bytes = reinterpret_cast<const unsigned char*>(shared_links);
  auto at = static_cast<unsigned>(answer->last * sizeof(unsigned));
  const long long begin = clock64();
  for (std::uint64_t i = 0; i < steps; ++i) {
    at = *reinterpret_cast<const unsigned*>(bytes + at);
  }
  *answer = {at / sizeof(unsigned), static_cast<std::uint64_t>(clock64() - begin)};
}

/// The smallest level that can hold a working set. L1 and shared memory are one memory.
const char* place_of(std::uint64_t bytes, const cudaDeviceProp& gpu) {
  if (bytes <= gpu.sharedMemPerMultiprocessor) return "expected in L1";
  if (bytes <= static_cast<std::uint64_t>(gpu.l2CacheSize)) return "expected in L2";
  return "expected in device memory";
}

/// A launch of follow(). If the set may fit in L1, one unmeasured pass through all of it comes
/// first; the measured steps then begin at the same place as without it.
auto following(const Link* links, const Walk& walk, cudaStream_t stream) {
  constexpr std::uint64_t max_in_l1 = 2048;  // lines, which are 256 KiB
  const std::uint64_t before = walk.count <= max_in_l1 ? walk.count : 0;
  return [=](std::uint64_t steps, Answer* answer) {
    follow<<<1, 1, 0, stream>>>(links, before, steps, answer);
    check_launch("follow");
  };
}

/// Adds a row for the memory of the next GPU if this one can access it.
void add_other_gpu(Bench& bench, Gpu& gpu, Chase& chase) {
  const int other = (current_gpu() + 1) % visible_gpus();
  const Walk walk{(std::uint64_t{64} << 20) / line};
  std::optional<DeviceArray<Link>> links;
  {
    const CurrentGpuGuard guard(other);
    links.emplace(walk.count * links_of_line);
  }
  try {
    const PeerAccessGuard access(other);
    enqueue_links(links->data(), walk, gpu.stream());
    chase.add("other GPU",
              chase.measure(walk, walk.count * line, links_of_line,
                            following(links->data(), walk, gpu.stream())),
              "over NVLink or PCIe");
  } catch (const NotAvailable& error) {
    bench.note(
        formatted("The memory of another GPU is not measured: {}.", std::string(error.what())));
  }
}

/// Adds the rows of working sets in own memory and a note on the levels. The largest set is never
/// between two levels.
void add_sets(Bench& bench, Chase& chase, const std::vector<Point>& points,
              const cudaDeviceProp& gpu) {
  std::vector<double> nanoseconds;
  for (const Point& point : points) nanoseconds.push_back(point.nanoseconds.value);
  const std::vector<Level> levels = levels_of(nanoseconds);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool is_in_level = std::ranges::any_of(
        levels, [&](const Level& level) { return i >= level.begin && i < level.end; });
    chase.add("device", points[i],
              is_in_level || i + 1 == points.size()
                  ? place_of(points[i].bytes, gpu)
                  : "between two levels: a part lies in the faster one");
  }
  std::string text;
  for (const Level& level : levels) {
    text += formatted("{}up to {}: {:.0f} ns", text.empty() ? "" : ", ",
                      format_size(points[level.end - 1].bytes),
                      nanoseconds[(level.begin + level.end) / 2]);
  }
  bench.note(formatted("Levels of device memory: {}.", text));
}

}  // namespace

Table latency(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t max = std::bit_floor(bench.bytes("latency.most", {.of_device = 0.8}));
  Measurements rows({{"memory", ColumnType::text},
                     {"bytes", ColumnType::integer, "B"},
                     {"cycles", ColumnType::real}},
                    {"latency", ColumnType::real, "ns"});
  Chase chase(bench, gpu, rows);
  const Walk in_shared{2048};
  const auto chase_in_shared = [&](std::uint64_t steps, Answer* answer) {
    follow_shared<<<1, 1, in_shared.count * sizeof(unsigned), gpu.stream()>>>(in_shared, steps,
                                                                              answer);
    check_launch("follow_shared");
  };
  chase.add("shared",
            chase.measure(in_shared, in_shared.count * sizeof(unsigned), 1, chase_in_shared),
            "of the own multiprocessor");
  std::vector<Point> points;
  const DeviceArray<Link> links(max / sizeof(Link));
  for (const std::uint64_t bytes : sizes_up_to(1024, max, bench.is_quick() ? 4 : 2)) {
    const Walk walk{bytes / line};
    enqueue_links(links.data(), walk, gpu.stream());
    points.push_back(
        chase.measure(walk, bytes, links_of_line, following(links.data(), walk, gpu.stream())));
  }
  add_sets(bench, chase, points, gpu.properties());
  const Walk of_host{(std::uint64_t{8} << 20) / line};
  if (visible_gpus() > 1) add_other_gpu(bench, gpu, chase);
  const PinnedArray<Link> mapped(of_host.count * links_of_line, cudaHostAllocMapped);
  enqueue_links(mapped.data(), of_host, gpu.stream());
  chase.add("mapped host",
            chase.measure(of_host, of_host.count * line, links_of_line,
                          following(mapped.data(), of_host, gpu.stream())),
            "over the host link");
  bench.note(
      "`latency` is the median of all launches, without the time to launch; the multiprocessor "
      "counts `cycles` in the last launch.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
