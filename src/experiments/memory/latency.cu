// The latency of a load, and of other ways to a value. A single thread follows pointers in random
// order through a working set, so that each load waits for the previous one. The time rises when
// the set exceeds a cache; a set that is a little larger than a cache lies partly in it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/levels.hpp"
#include "experiments/memory/texture_objects.hpp"
#include "experiments/memory/walk.cuh"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"latency.most", OptionKind::size, "8GiB", "64KiB..",
     "The largest working set, rounded down to a power of two."},
};

Table latency(Bench& bench);

namespace {

/// The latency of L1, which the smallest set shows, times the ratios of the expectation. A texture
/// adds the same time to each level. The remark names the level that a set fits in.
double expected_latency(const MeasuredRow& row) {
  constexpr double register_cycles = 4, l2_over_l1 = 10, memory_over_l2 = 2;
  const auto of_smallest = [&](const char* column) {
    return row.of_row(column, {{"memory", "device"}, {"set", "1024"}});
  };
  const auto in_l1 = [&](const char* memory) {
    return row.measured({{"memory", memory}, {"set", "16384"}});
  };
  const std::string memory = row.text("memory"), remark = row.text("remark");
  const double l1 = of_smallest("latency");
  if (memory == "register") return register_cycles * l1 / of_smallest("cycles");
  if (memory == "shared") return l1;
  if (memory == "texture") {
    return row.measured({{"memory", "device"}}, {"set"}) + in_l1("texture") - in_l1("device");
  }
  if (remark == "expected in L1") return l1;
  if (remark == "expected in L2") return l2_over_l1 * l1;
  return remark == "expected in device memory" ? memory_over_l2 * l2_over_l1 * l1 : std::nan("");
}

}  // namespace

extern const Experiment about_latency = {
    .name = "latency",
    .group = "memory",
    .summary = "A load takes tens of cycles from L1 and hundreds from memory.",
    .explanation =
        {
            .question = "How many clocks does a single load take from each kind of memory?",
            .varies =
                "A single thread follows pointers in random order, one in each line of 128 bytes, "
                "through working sets of 1 KiB to latency.most. Each load waits for the previous "
                "one, so the time of a step is the latency. The other memories are measured in the "
                "same way: shared and constant memory, fetches of a texture, pinned host memory "
                "(over the link) and, if there is one, another GPU's memory. A register has no "
                "latency of its own, but the next instruction that needs it waits for the "
                "instruction that writes it: a chain of fused multiply-adds shows how long.",
            .expectation =
                "The latency rises when the working set exceeds L1, L2, and the memory that the "
                "TLB covers; a note names the levels that were found. Expect some four cycles for "
                "registers, L2 to take about ten times as long as L1, memory twice as long as L2, "
                "and a texture to save no time: a fetch from its cache takes longer than a load "
                "from L1. Shared memory is a part of L1 without a search for a line: expect at "
                "most its latency. A texture adds as much to the latency of L2 and of memory as to "
                "that of L1. A GPU needs many warps because others run while one waits.",
            .pitfalls =
                "If a set is a little larger than a cache, a part of it still lies there, and its "
                "time is between two levels; so may be that of a set above half of an L2 cache "
                "that has two partitions.",
        },
    .read_on = {{Guide::best_practices, "Device Memory Spaces"},
                {Guide::programming, "Maximize Instruction Throughput"}},
    .reference =
        "Tesla V100, measured by gpu-benches (github.com/te42kyfo/gpu-benches): L1 30, L2 214, "
        "memory 435 cycles.",
    .options = options,
    .expected = expected_latency,
    .exercise = {.task = "Predict the latency in ns of a register, and of loads from device memory "
                         "with sets of 16 KiB, 4 MiB and 256 MiB, from the clock of the GPU.",
                 .rows = {{{"memory", "register"}},
                          {{"memory", "device"}, {"set", "16384"}},
                          {{"memory", "device"}, {"set", "4194304"}},
                          {{"memory", "device"}, {"set", "268435456"}}}},
    .figure = {.look = Look::lines,
               .x = "set",
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

constexpr std::uint64_t constant_line = 64;  // bytes
constexpr std::uint64_t constant_bytes = std::uint64_t{32} << 10;
/// Offsets in bytes, one in each line.
__constant__ unsigned constant_links[constant_bytes / sizeof(unsigned)];

/// The same in constant memory, after one pass that is not measured.
__global__ void follow_constant(std::uint64_t before, std::uint64_t steps, Answer* answer) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(constant_links);
  auto at = static_cast<unsigned>(answer->last);
  for (std::uint64_t i = 0; i < before; ++i) at = *reinterpret_cast<const unsigned*>(bytes + at);
  const long long begin = clock64();
  for (std::uint64_t i = 0; i < steps; ++i) at = *reinterpret_cast<const unsigned*>(bytes + at);
  *answer = {at, static_cast<std::uint64_t>(clock64() - begin)};
}

constexpr std::uint64_t texels_of_line = line / sizeof(unsigned);

/// Makes the texel at the beginning of each line the index of the next one of the walk.
__global__ void write_texels(unsigned* texels, Walk walk) {
  const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
  for (std::uint64_t x = blockIdx.x * std::uint64_t{blockDim.x} + threadIdx.x; x < walk.count;
       x += step) {
    texels[walk.place(x) * texels_of_line] =
        static_cast<unsigned>(walk.place(walk.next(x)) * texels_of_line);
  }
}

/// The same in a texture.
__global__ void follow_texels(cudaTextureObject_t texture, std::uint64_t before,
                              std::uint64_t steps, Answer* answer) {
  auto at = static_cast<int>(answer->last);
  for (std::uint64_t i = 0; i < before; ++i) at = tex1Dfetch<int>(texture, at);
  const long long begin = clock64();
  for (std::uint64_t i = 0; i < steps; ++i) at = tex1Dfetch<int>(texture, at);
  *answer = {static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(clock64() - begin)};
}

/// A chain of fused multiply-adds, each of which waits for the register that the previous one
/// writes. With `factor` and `summand` 1, which the compiler does not know, x counts the steps.
__global__ void multiply_and_add(float factor, float summand, std::uint64_t steps, Answer* answer) {
  auto x = static_cast<float>(answer->last);
  const long long begin = clock64();
#pragma unroll 16  // so that the loop adds next to nothing
  for (std::uint64_t i = 0; i < steps; ++i) x = fmaf(x, factor, summand);
  *answer = {static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(clock64() - begin)};
}

/// The smallest level that can hold a working set. L1 and shared memory are one memory.
const char* place_of(std::uint64_t bytes, const cudaDeviceProp& gpu) {
  if (bytes <= gpu.sharedMemPerMultiprocessor) return "expected in L1";
  if (bytes <= static_cast<std::uint64_t>(gpu.l2CacheSize)) return "expected in L2";
  return "expected in device memory";
}

/// Steps of a pass that is not measured: one through all of a set that may fit in L1. The measured
/// steps then begin at the same place as without it.
std::uint64_t steps_before(const Walk& walk) {
  constexpr std::uint64_t max_in_l1 = 2048;  // lines, which are 256 KiB
  return walk.count <= max_in_l1 ? walk.count : 0;
}

/// A launch of follow().
auto following(const Link* links, const Walk& walk, cudaStream_t stream) {
  const std::uint64_t before = steps_before(walk);
  return [=](std::uint64_t steps, Answer* answer) {
    follow<<<1, 1, 0, stream>>>(links, before, steps, answer);
    check_launch("follow");
  };
}

/// The work of a step that loads a link.
constexpr Work of_link = {.operations = 0, .bytes = sizeof(Link), .shared = 0, .instructions = 2};

/// Adds the rows of memories of the own multiprocessor: registers, shared and constant memory.
void add_own_memories(Gpu& gpu, Chase& chase) {
  const auto multiply = [&](std::uint64_t steps, Answer* answer) {
    multiply_and_add<<<1, 1, 0, gpu.stream()>>>(1, 1, steps, answer);
    check_launch("multiply_and_add");
  };
  chase.add("register",
            chase.measure(
                sizeof(float), 1, [](std::uint64_t steps) { return steps; }, multiply),
            "a chain of fused multiply-adds",
            {.operations = 2, .bytes = 0, .arithmetic = "fp32", .shared = 0, .instructions = 1});
  const Walk in_shared{2048};
  const auto chase_in_shared = [&](std::uint64_t steps, Answer* answer) {
    follow_shared<<<1, 1, in_shared.count * sizeof(unsigned), gpu.stream()>>>(in_shared, steps,
                                                                              answer);
    check_launch("follow_shared");
  };
  chase.add(
      "shared", chase.measure(in_shared, in_shared.count * sizeof(unsigned), 1, chase_in_shared),
      "of the own multiprocessor", {.operations = 0, .bytes = 0, .shared = 128, .instructions = 2});
  for (const std::uint64_t bytes : {std::uint64_t{1} << 10, constant_bytes}) {
    const Walk walk{bytes / constant_line};
    std::vector<unsigned> words(bytes / sizeof(unsigned));
    for (std::uint64_t x = 0; x < walk.count; ++x) {
      words[walk.place(x) * constant_line / sizeof(unsigned)] =
          static_cast<unsigned>(walk.place(walk.next(x)) * constant_line);
    }
    check(cudaMemcpyToSymbol(constant_links, words.data(), bytes), "cudaMemcpyToSymbol");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the copy may return before it ends
    const auto follow_links = [&](std::uint64_t steps, Answer* answer) {
      follow_constant<<<1, 1, 0, gpu.stream()>>>(walk.count, steps, answer);
      check_launch("follow_constant");
    };
    // CUDA C++ Programming Guide, Technical Specifications per Compute Capability.
    constexpr std::uint64_t cache = 8192;
    chase.add("constant", chase.measure(walk, bytes, constant_line, follow_links),
              bytes <= cache ? "fits in the constant cache of 8 KiB"
                             : "exceeds the constant cache of 8 KiB",
              {.operations = 0, .bytes = 0, .shared = 0, .instructions = 2});
  }
}

/// Adds rows of fetches from a texture in `memory`, for some of the working sets in `points`.
void add_textures(Gpu& gpu, Chase& chase, const DeviceArray<Link>& memory,
                  const std::vector<Point>& points) {
  auto* const texels = reinterpret_cast<int*>(memory.data());
  for (const Point& loads : points) {
    const std::uint64_t bytes = loads.bytes;
    // Sizes that lie in L1, in L2 and in memory on today's GPUs.
    if (bytes != 16 << 10 && bytes != 4 << 20 && bytes != 256 << 20) continue;
    const Walk walk{bytes / line};
    write_texels<<<1024, 256, 0, gpu.stream()>>>(reinterpret_cast<unsigned*>(texels), walk);
    check_launch("write_texels");
    const Texture texture(linear_resource(texels, bytes / sizeof(int)), {});
    const auto fetch = [&](std::uint64_t steps, Answer* answer) {
      follow_texels<<<1, 1, 0, gpu.stream()>>>(texture.get(), steps_before(walk), steps, answer);
      check_launch("follow_texels");
    };
    const Point point = chase.measure(walk, bytes, texels_of_line, fetch);
    const double ratio = point.nanoseconds.value / loads.nanoseconds.value;
    chase.add("texture", point,
              formatted("{:.2f} times the latency of a load in a set of this size", ratio),
              {.operations = 0, .bytes = sizeof(int), .shared = 0, .instructions = 2});
  }
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
              "over NVLink or PCIe", of_link);
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
                  : "between two levels: a part lies in the faster one",
              of_link);
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
                     {"set", ColumnType::integer, "B"},
                     {"cycles", ColumnType::real}},
                    {"latency", ColumnType::real, "ns"}, Rows::of_kernels);
  Chase chase(bench, gpu, rows);
  add_own_memories(gpu, chase);
  std::vector<Point> points;
  const DeviceArray<Link> links(max / sizeof(Link));
  for (const std::uint64_t bytes : sizes_up_to(1024, max, bench.is_quick() ? 4 : 2)) {
    const Walk walk{bytes / line};
    enqueue_links(links.data(), walk, gpu.stream());
    points.push_back(
        chase.measure(walk, bytes, links_of_line, following(links.data(), walk, gpu.stream())));
  }
  add_sets(bench, chase, points, gpu.properties());
  add_textures(gpu, chase, links, points);
  const Walk of_host{(std::uint64_t{8} << 20) / line};
  if (visible_gpus() > 1) add_other_gpu(bench, gpu, chase);
  const PinnedArray<Link> mapped(of_host.count * links_of_line, cudaHostAllocMapped);
  enqueue_links(mapped.data(), of_host, gpu.stream());
  chase.add("mapped host",
            chase.measure(of_host, of_host.count * line, links_of_line,
                          following(mapped.data(), of_host, gpu.stream())),
            "over the host link", of_link);
  bench.note(
      "`latency` is the median of all launches, without the time to launch; the multiprocessor "
      "counts `cycles` in the last launch.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
