// The gain of keeping data in the L2 cache. A stream of data that is used once evicts data that is
// used repeatedly. An access policy window keeps the latter in a part of the cache that is set
// aside. If the window is larger than that part, it may evict its own lines, unless hitRatio limits
// the lines that stay to as many as fit. The lines stay after the kernel, until they are reset.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/units.hpp"
#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/hot_region.cuh"
#include "experiments/memory/kernel_graph.hpp"
#include "experiments/memory/l2_sizes.hpp"

namespace shardstream::experiments::memory {

constexpr OptionRow options[] = {
    {"l2-window.stream", OptionKind::size, "1GiB", "64MiB..",
     "Size of the stream of data that is used once, at least four times the part of the L2 "
     "cache that is set aside."},
};

Table l2_window(Bench& bench);

namespace {

/// The rate of a copy if nothing of the hot regions stays in the cache: as many bytes of the stream
/// pass between two uses of a line, and twice the part that can be set aside exceeds the cache. NaN
/// if the regions are smaller than that part.
double rate_without_hits(const MeasuredRow& row) {
  const double streams = row.text("varied") == "hot regions of two streams in MiB" ? 2 : 1;
  const double part = row.of_row("region", {{"policy", "set aside, marked stream"}});
  return streams * row["region"] >= part ? row.ceiling("device_copy") : std::nan("");
}

/// The last part, on the next kernel, has no such reference.
double expected_rate(const MeasuredRow& row) {
  const std::string policy = row.text("policy");
  const auto of = [&](const char* other) {
    return row.measured({{"policy", other}}, {"varied", "value"});
  };
  if (policy == "hit ratio 1, graph node") return of("hit ratio 1");
  if (policy == "reset by a normal window") return of("nothing set aside");
  if (policy == "persisting, else normal" && row["ratio"] == 1) {
    return of("persisting, else streaming");
  }
  const bool is_stream = row.text("varied") != "data of the next kernel in MiB";
  return policy == "nothing set aside" && is_stream ? rate_without_hits(row) : std::nan("");
}

}  // namespace

extern const Experiment about_l2_window = {
    .name = "l2-window",
    .group = "memory",
    .summary = "A part of the L2 cache can be reserved for data that is used repeatedly.",
    .explanation =
        {
            .question =
                "How much does it gain to reserve a part of the L2 cache for data that is used "
                "repeatedly?",
            .varies =
                "A kernel updates each word of a long stream once and, with each of them, a word "
                "of a small hot region, which it passes through repeatedly. An access policy "
                "window keeps lines of the region in a part of the cache that is set aside. Five "
                "parts vary one quantity each, which `varied` names. The first row of each has "
                "nothing set aside and no window: the others compare with it. (1) The hot region "
                "grows from a third of the largest set-aside part to twice its size. The part is "
                "as large as the region, if it can be. The window covers the region with hit "
                "ratio 1. The guide's tuned window covers two thirds of the set-aside "
                "part, and its hit ratio is that size over the region; the tuned ratio alone, on "
                "a window over the whole region, keeps as many bytes of the region as two thirds "
                "of the part hold. A part that is set aside without a window is only taken away "
                "from the stream. If the region is as large as the part, two more ways are "
                "measured: the window on the node of a graph, and no window, but loads and stores "
                "that mark the stream as streaming. (2) The hit ratio, for a region of one and a "
                "half times the part, and the properties of the accesses that hit and miss: "
                "persisting, streaming, normal. (3) The size of the set-aside part. (4) Two "
                "streams with a region each, whose windows share the part. (5) The next kernel, "
                "which reads other data repeatedly, after the persisting lines were reset in one "
                "of three ways or not at all.",
            .expectation =
                "Without a window, the stream evicts a large hot region from the L2 cache. As many "
                "bytes of the stream as the region has pass between two uses of a line. If twice "
                "the region exceeds the cache, nothing of it is left: expect the rate of a copy. "
                "If all of it is left, memory moves only the stream, so the rate, which counts "
                "both, is at most twice that of a copy. Expect a small gain while the region fits "
                "in the set-aside part, and a loss if a part is set aside that no window uses: a "
                "stream that writes needs cache to collect its lines. Beyond that, GPUs differ: "
                "with hit ratio 1 the kernel may be slower than without a window, or still gain, "
                "and the tuned ratio keeps a part of the gain. With two streams, hit ratio 0.5 "
                "each prevents that they evict each other's lines. The window of a graph node does "
                "the same as that of a stream, and with hit ratio 1 the property of misses does "
                "not matter. Expect the next kernel to be slower without a reset. After a reset by "
                "a window, it has its usual rate. The reset by a call also costs the next kernel "
                "some microseconds, whatever its data.",
            .pitfalls =
                "Compare with nothing set aside: beside a set-aside part that no window uses, "
                "every window seems to gain much. Set aside no more than the region needs.",
        },
    .read_on = {{Guide::best_practices, "L2 Cache Access Window"},
                {Guide::best_practices, "Tuning the Access Window Hit-Ratio"},
                {Guide::programming, "L2 Policy for Persisting Accesses"},
                {Guide::programming, "Reset L2 Access to Normal"}},
    .reference =
        "A100, 30 MB set aside: up to 50 % faster while the region fits, 10 % slower if it does "
        "not fit; the tuned window recovers that.",
    .share = "of the rate of the same kernel with nothing set aside and no window",
    .options = options,
    .expected = expected_rate,
    .exercise =
        {.task =
             "Predict the rate in GB/s with nothing set aside, for the smallest hot region and for "
             "one of one and a half times the set-aside part, and with hit ratio 1 for the "
             "smallest region, from the rate of a copy.",
         .rows = {{{"varied", "hot region in MiB"}, {"policy", "nothing set aside"}},
                  {{"varied", "hit ratio"}, {"policy", "nothing set aside"}},
                  {{"varied", "hot region in MiB"}, {"policy", "hit ratio 1"}}}},
    .figure =
        {.look = Look::lines, .x = "value", .y = "rate", .series = "policy", .panel = "varied"},
    .needs = {.compute_capability = 80, .ceilings_of_expected = {"device_copy"}},
    .run = with_cuda<l2_window>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

__device__ uint4 plus_one(uint4 x) {
  return {x.x + 1, x.y + 1, x.z + 1, x.w + 1};
}

/// Adds one to each element of `stream` and, for each of them, to an element of `hot`. A thread has
/// its own elements of both, so no two threads update the same one. An index that starts over takes
/// the place of a remainder, which would be slower than the memory. `hot_count` is at least the
/// number of threads. Loads do not use L1, which could hold a part of the hot region. If `Marked`,
/// the accesses to the stream are marked as streaming.
template <bool Marked>
__global__ void __launch_bounds__(threads) add_one(uint4* __restrict__ stream, std::uint64_t count,
                                                   uint4* __restrict__ hot, unsigned hot_count) {
  const unsigned first = blockIdx.x * threads + threadIdx.x, step = gridDim.x * threads;
  unsigned at = first;
  for (std::uint64_t i = first; i < count; i += step) {
    const uint4 once = Marked ? __ldcs(&stream[i]) : __ldcg(&stream[i]);
    const uint4 again = __ldcg(&hot[at]);
    if constexpr (Marked) {
      __stcs(&stream[i], plus_one(once));
    } else {
      stream[i] = plus_one(once);
    }
    hot[at] = plus_one(again);
    at += step;
    if (at >= hot_count) at = first;
  }
}

/// Sets each word to its index.
__global__ void count_up(unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i);
}

/// The kernel after the one with the window: reads `count` elements `passes` times, not through L1.
__global__ void __launch_bounds__(threads)
    read_again(const uint4* from, unsigned count, unsigned passes, unsigned* sums) {
  const unsigned first = blockIdx.x * threads + threadIdx.x, step = gridDim.x * threads;
  unsigned sum = 0;
  for (unsigned pass = 0; pass < passes; ++pass) {
    for (unsigned i = first; i < count; i += step) {
      const uint4 x = __ldcg(&from[i]);
      sum += x.x + x.y + x.z + x.w;
    }
  }
  sums[first] = sum;
}

template <bool Marked = false>
void launch(const HotStream& piece, cudaStream_t stream) {
  add_one<Marked><<<piece.blocks, threads, 0, stream>>>(piece.stream, piece.count, piece.hot,
                                                        static_cast<unsigned>(piece.hot_count));
  check_launch("add_one");
}

ExecutableGraph graph_of(HotStream piece, const cudaAccessPolicyWindow& window) {
  auto hot_count = static_cast<unsigned>(piece.hot_count);
  void* arguments[] = {&piece.stream, &piece.count, &piece.hot, &hot_count};
  cudaKernelNodeParams kernel{};
  kernel.func = reinterpret_cast<void*>(add_one<false>);
  kernel.gridDim = piece.blocks;
  kernel.blockDim = threads;
  kernel.kernelParams = static_cast<void**>(arguments);
  return kernel_graph(kernel, window);
}

/// The rate with nothing set aside.
double measure_reference(WindowCases& cases, const WindowCase& each, const HotStream& piece) {
  return cases.measure_reference(each, {piece}, [&] { launch(piece, cases.gpu().stream()); });
}

/// `reference` is the rate with nothing set aside.
void measure_with(const cudaAccessPolicyWindow& window, WindowCases& cases, const WindowCase& each,
                  const HotStream& piece, double reference) {
  const WindowGuard guard(cases.gpu().stream(), window);
  cases.measure(
      each, {piece}, [&] { launch(piece, cases.gpu().stream()); }, reference);
}

// ------------------------------------------------------------------------ 1. the hot region grows

void vary_region(WindowCases& cases) {
  const cudaStream_t stream = cases.gpu().stream();
  for (const unsigned sixths : {2U, 4U, 6U, 8U, 12U}) {
    if (cases.bench().is_quick() && sixths != 2 && sixths != 6 && sixths != 12) continue;
    const std::uint64_t region = region_of(sixths / 6.0, cases.set_aside());
    const HotStream piece = cases.piece(region);
    WindowCase each{"hot region in MiB", in_mebibytes(region), "", region};
    const double reference = measure_reference(cases, each, piece);
    // No more than the region needs: the rest is taken from the stream.
    const LimitGuard part(cudaLimitPersistingL2CacheSize, std::min(region, cases.set_aside()));
    each.policy = "set aside, no window";
    cases.measure(
        each, {piece}, [&] { launch(piece, stream); }, reference);
    if (sixths == 6) {
      each.policy = "set aside, marked stream";
      cases.measure(
          each, {piece}, [&] { launch<true>(piece, stream); }, reference);
    }
    each.policy = "hit ratio 1";
    each.ratio = 1;
    measure_with(window_on(piece.hot, region, 1), cases, each, piece, reference);
    if (sixths == 6) {
      each.policy = "hit ratio 1, graph node";
      const WindowGuard resets_lines(stream, no_window());
      const ExecutableGraph graph = graph_of(piece, window_on(piece.hot, region, 1));
      cases.measure(
          each, {piece}, [&] { graph.launch(stream); }, reference);
    }
    const TunedWindow tuned = tuned_window(cases.set_aside(), region);
    if (tuned.bytes == region) continue;  // the same as hit ratio 1
    each.ratio = tuned.hit_ratio;
    each.policy = "tuned window";
    measure_with(window_on(piece.hot, tuned.bytes, tuned.hit_ratio), cases, each, piece, reference);
    each.policy = "tuned ratio";
    measure_with(window_on(piece.hot, region, tuned.hit_ratio), cases, each, piece, reference);
  }
}

// ----------------------------------------------------------- 2. the hit ratio and the properties

void vary_ratio(WindowCases& cases) {
  struct Properties {
    const char* name;
    cudaAccessProperty hit, miss;
  };
  constexpr Properties all[] = {
      {"persisting, else streaming", cudaAccessPropertyPersisting, cudaAccessPropertyStreaming},
      {"persisting, else normal", cudaAccessPropertyPersisting, cudaAccessPropertyNormal},
      {"streaming, else normal", cudaAccessPropertyStreaming, cudaAccessPropertyNormal}};
  const std::uint64_t region = region_of(1.5, cases.set_aside());
  const HotStream piece = cases.piece(region);
  const double reference = measure_reference(cases, {"hit ratio", 0, "", region}, piece);
  for (const Properties& properties : all) {
    for (const double ratio : {0.5, 1.0}) {
      measure_with(window_on(piece.hot, region, ratio, properties.hit, properties.miss), cases,
                   {"hit ratio", ratio, properties.name, region, ratio}, piece, reference);
    }
  }
}

// --------------------------------------------------------------- 3. the part that is set aside

void vary_set_aside(WindowCases& cases) {
  const std::uint64_t region = region_of(0.5, cases.set_aside());
  const HotStream piece = cases.piece(region);
  WindowCase each{"set-aside part in MiB", 0, "", region};
  const double reference = measure_reference(cases, each, piece);
  for (const unsigned quarters : {1U, 2U, 3U, 4U}) {
    if (cases.bench().is_quick() && quarters % 2 != 0) continue;
    const std::uint64_t part = cases.set_aside() / 4 * quarters;
    const LimitGuard guard(cudaLimitPersistingL2CacheSize, part);
    each = {each.varied, in_mebibytes(part), "set aside, no window", region};
    cases.measure(
        each, {piece}, [&] { launch(piece, cases.gpu().stream()); }, reference);
    each.policy = "hit ratio 1";
    each.ratio = 1;
    measure_with(window_on(piece.hot, region, 1), cases, each, piece, reference);
  }
}

// -------------------------------------------------- 4. the windows of two streams share the part

void use_two_streams(WindowCases& cases) {
  const SideStreams sides(2);
  for (const double fraction : {1.0, 2.0}) {
    const std::uint64_t region = region_of(fraction / 2, cases.set_aside());  // of each stream
    const std::vector<HotStream> pieces = {cases.piece(region, 0, 2), cases.piece(region, 1, 2)};
    const auto both = [&] {
      sides.fork(cases.gpu().stream());
      for (unsigned i = 0; i < 2; ++i) launch(pieces[i], sides[i]);
      sides.join(cases.gpu().stream());
    };
    WindowCase each{"hot regions of two streams in MiB", in_mebibytes(2 * region), "", region};
    const double reference = cases.measure_reference(each, pieces, both);
    for (const double ratio : {1.0, 0.5}) {
      const WindowGuard first(sides[0], window_on(pieces[0].hot, region, ratio));
      const WindowGuard second(sides[1], window_on(pieces[1].hot, region, ratio));
      each.policy = ratio == 1 ? "hit ratio 1 each" : "hit ratio 0.5 each";
      each.ratio = ratio;
      cases.measure(each, pieces, both, reference);
    }
  }
}

// ------------------------------------------------ 5. persisting lines are in the way of the next

enum class Reset { nothing_set_aside, none, window, call, time };
constexpr auto undisturbed = std::chrono::milliseconds(20);

/// Runs the kernel with the window ten times, removes the window and resets the persisting lines.
void prepare(Reset way, const HotStream& piece, const WindowGuard& window, Gpu& gpu) {
  constexpr unsigned launches = 10;
  const std::uint64_t bytes = piece.hot_count * sizeof(uint4);
  if (way != Reset::nothing_set_aside) window.replace(window_on(piece.hot, bytes, 1));
  for (unsigned i = 0; i < launches; ++i) launch(piece, gpu.stream());
  if (way == Reset::window) {  // whose accesses make persisting lines normal ones
    window.replace(
        window_on(piece.hot, bytes, 1, cudaAccessPropertyNormal, cudaAccessPropertyNormal));
    launch(piece, gpu.stream());
  }
  window.replace(no_window());
  gpu.synchronize();
  if (way == Reset::call) {
    check(cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache");
  }
  if (way == Reset::time) std::this_thread::sleep_for(undisturbed);
}

/// `share` is the rate over `reference`, that of the kernel with nothing set aside, which reads
/// `bytes`.
std::string remark_on_next(Reset way, double share, double reference, double bytes) {
  if (way == Reset::nothing_set_aside) return "the reference";
  const double microseconds = bytes / reference * (1 / share - 1) / 1e3;
  const std::string change = formatted("{:+.0f} %, {:+.1f} us", 100 * (share - 1), microseconds);
  if (share > 0.97) return change + ": all of the cache serves the next kernel";
  return change + (way == Reset::call ? ": the cost of the call for the next kernel"
                                      : ": persisting lines occupy a part of the cache");
}

void measure_resets(WindowCases& cases) {
  constexpr std::pair<Reset, const char*> ways[] = {{Reset::nothing_set_aside, "nothing set aside"},
                                                    {Reset::none, "not reset"},
                                                    {Reset::window, "reset by a normal window"},
                                                    {Reset::call, "cudaCtxResetPersistingL2Cache"},
                                                    {Reset::time, "left alone for 20 ms"}};
  constexpr unsigned passes = 8;
  Gpu& gpu = cases.gpu();
  HotStream piece = cases.piece(region_of(1, cases.set_aside()));
  piece.count = std::min(piece.count, 4 * piece.hot_count);  // enough to use all lines repeatedly
  const auto l2 = static_cast<std::uint64_t>(gpu.properties().l2CacheSize);
  const DeviceArray<uint4> data(l2 / sizeof(uint4));
  const std::uint64_t words = data.bytes() / sizeof(unsigned);
  count_up<<<blocks_for(words, threads), threads, 0, gpu.stream()>>>(
      reinterpret_cast<unsigned*>(data.data()), words);
  check_launch("count_up");
  const DeviceArray<unsigned> sums(std::uint64_t{cases.max_blocks()} * threads);
  for (const unsigned quarters : {2U, 3U}) {
    if (cases.bench().is_quick() && quarters != 2) continue;
    const std::uint64_t bytes = region_of(quarters / 4.0, l2);
    const auto next = [&] {
      read_again<<<cases.max_blocks(), threads, 0, gpu.stream()>>>(
          data.data(), static_cast<unsigned>(bytes / sizeof(uint4)), passes, sums.data());
      check_launch("read_again");
    };
    double reference = 0;
    for (const auto& [way, name] : ways) {
      const LimitGuard part(cudaLimitPersistingL2CacheSize,
                            way == Reset::nothing_set_aside ? 0 : cases.set_aside());
      const WindowGuard window(gpu.stream(), no_window());
      prepare(way, piece, window, gpu);
      sums.clear(gpu.stream());
      next();
      unsigned sum = 0, expected = 0;
      for (const unsigned each : sums.read()) sum += each;
      for (std::uint64_t i = 0; i < bytes / sizeof(unsigned); ++i) {
        expected += static_cast<unsigned>(i);
      }
      cases.bench().verify(sum == passes * expected, "reading after a window");
      const double all = static_cast<double>(passes * bytes);
      const Timing timing =
          gpu.time_after([&, way = way] { prepare(way, piece, window, gpu); }, next);
      const Measured rate = timing.rate(all);
      if (way == Reset::nothing_set_aside) reference = rate.value;
      cases.add({"data of the next kernel in MiB", in_mebibytes(bytes), name, bytes}, rate,
                way == Reset::nothing_set_aside ? 0 : reference,
                remark_on_next(way, rate.value / reference, reference, all),
                {.operations = all / sizeof(unsigned), .bytes = all, .shared = 0},
                timing.seconds.value);
    }
  }
}

/// As much of the L2 cache as the GPU can set aside, but at most half of the largest window, since
/// a region may be twice as large.
std::uint64_t max_set_aside(const cudaDeviceProp& gpu) {
  return static_cast<std::uint64_t>(
      std::min(gpu.persistingL2CacheMaxSize, gpu.accessPolicyMaxWindowSize / 2));
}

/// Throws NotAvailable if `max` is zero or the process may not set aside a part of the cache.
LimitGuard set_aside_guard(std::uint64_t max) {
  if (max == 0) throw NotAvailable(reason_for_no_set_aside(max, "", 0));
  try {
    return LimitGuard(cudaLimitPersistingL2CacheSize, max);
  } catch (const Error& error) {
    if (context_is_lost()) throw;
    throw NotAvailable(reason_for_no_set_aside(max, error.what(), 0));
  }
}

}  // namespace

Table l2_window(Bench& bench) {
  Gpu gpu(bench);
  const cudaDeviceProp& properties = gpu.properties();
  const std::uint64_t max = max_set_aside(properties);
  const LimitGuard guard = set_aside_guard(max);
  std::size_t set_aside = 0;
  check(cudaDeviceGetLimit(&set_aside, cudaLimitPersistingL2CacheSize), "cudaDeviceGetLimit");
  set_aside = std::min<std::size_t>(set_aside, max);
  const std::string reason = reason_for_no_set_aside(max, "", set_aside);
  if (!reason.empty()) throw NotAvailable(reason);
  int of_multiprocessor = 0;
  check(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_multiprocessor, add_one<false>, threads, 0),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  Measurements rows({{"varied", ColumnType::text},
                     {"value", ColumnType::real},
                     {"policy", ColumnType::text},
                     {"region", ColumnType::integer, "B"},
                     {"ratio", ColumnType::real}},
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  WindowCases cases(bench, gpu, rows, set_aside,
                    static_cast<unsigned>(of_multiprocessor * properties.multiProcessorCount));
  vary_region(cases);
  vary_ratio(cases);
  vary_set_aside(cases);
  use_two_streams(cases);
  measure_resets(cases);
  bench.note(formatted("{} of the {} of L2 cache were set aside.", format_size(set_aside),
                       format_size(static_cast<std::uint64_t>(properties.l2CacheSize))));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
