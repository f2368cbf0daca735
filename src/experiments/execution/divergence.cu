// Divergence. The lanes of a warp run one instruction at a time. If they go different ways at a
// branch, the warp runs all of these ways, one after the other.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/execution/ways.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>

#include <cuda/atomic>
#endif

namespace shardstream::experiments::execution {

Table divergence(Bench& bench);

extern const Experiment about_divergence = {
    .name = "divergence",
    .group = "execution",
    .summary = "A warp runs all ways that its lanes take, so decide for whole warps.",
    .explanation =
        {
            .question =
                "What does warp divergence cost: how much longer does a kernel take if the lanes "
                "of a warp go k different ways?",
            .varies =
                "Each thread goes one of k ways, all of the same length, and the way depends on "
                "the lane or on the warp. The table has the share of the warps that diverge and "
                "the average number of ways in a warp. The other rows are remedies: tiles "
                "(tiled_partition) that decide together; a shorter branch, since the part that "
                "both ways share stands before it; a very short branch; elements of four random "
                "kinds as they are, sorted by kind, and sorted within each block of 256. In the "
                "last rows, odd lanes wait for a flag that even lanes of the same warp set, or all "
                "lanes exchange the value by a shuffle.",
            .expectation =
                "Expect a time in proportion to the number of ways in a warp: k times as long if "
                "lanes decide, and once if warps do. Tiles help only if they are as large as a "
                "warp. A shorter branch helps. A very short branch costs nothing: the compiler "
                "predicates its instructions, and all lanes run them. Elements of random kinds "
                "diverge; sorted elements do not, and it is enough to sort them within each block: "
                "the 8 warps of a block of 256 threads then have at most 11 ways in all, since "
                "three of them have a boundary between two of the four kinds. "
                "A lane that waits for another one ends, since each lane has its own program "
                "counter from compute capability 7.0 on (independent thread scheduling); a "
                "shuffle, which also synchronises the warp, is faster.",
            .pitfalls =
                "The compiler may turn a branch into predicated instructions, which does not "
                "diverge. The numbers of ways are counted by hand.",
        },
    .read_on = {{Guide::best_practices, "Branching and Divergence"},
                {Guide::best_practices, "Branch Predication"},
                {Guide::programming, "Control Flow Instructions"},
                {Guide::programming, "SIMT Architecture"}},
    .reference =
        "Tesla V100, a tree in blocks of 256 threads in which every 2s-th thread adds: 73.4 % of "
        "the branches diverge.",
    .share = "of the speed without divergence",
    .expected =
        [](const MeasuredRow& row) {
          const std::string name = row.text("case");
          if (name == "shuffles" || name == "flags") return std::nan("");
          const char* const one = name.starts_with("short, ") ? "short, by warp" : "1 way";
          return row["ways"] * row.measured({{"case", one}});
        },
    .exercise = {.task = "Predict the time in us of 2 and 8 ways by lane, of 8 ways by warp and "
                         "of elements of four kinds that are sorted in blocks of 256, if one way "
                         "takes 50 us.",
                 .rows = {{{"case", "2 ways by lane"}},
                          {{"case", "8 ways by lane"}},
                          {{"case", "8 ways by warp"}},
                          {{"case", "sorted in blocks"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "time", .more_is_better = false},
    .needs = {.compute_capability = 70},
    .run = with_cuda<divergence>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

namespace cg = cooperative_groups;

constexpr unsigned threads = 256;
constexpr unsigned rounds = 256;         // the length of a way
constexpr unsigned shared_rounds = 192;  // the part that two ways may share
constexpr unsigned max_ways = 32;

/// The first value of a thread.
__host__ __device__ constexpr float start_of(unsigned thread) {
  return static_cast<float>(thread % 16) / 16;
}
__host__ __device__ inline float step(float x, float summand) {
  return fmaf(x, 1 - 0x1p-10F, summand);
}

/// A way: `Rounds` steps with a summand of its own. The comment in assembly keeps the compiler from
/// making one loop of several ways.
template <unsigned Way, unsigned Rounds>
__device__ float go(float x) {
#pragma unroll 8
  for (unsigned r = 0; r < Rounds; ++r) {
    asm volatile("// way %0" ::"n"(Way));
    x = step(x, Way + 1);
  }
  return x;
}

/// Goes the way with the number `way`, from Way to Ways - 1.
template <unsigned Way, unsigned Ways>
__device__ float choose(unsigned way, float x) {
  if constexpr (Way + 1 == Ways) {
    return go<Way, rounds>(x);
  } else {
    if (way == Way) return go<Way, rounds>(x);
    return choose<Way + 1, Ways>(way, x);
  }
}

__device__ unsigned own_index() {
  return blockIdx.x * threads + threadIdx.x;
}

/// The way changes after every `width` threads: with 1 it depends on the lane, with 32 on the warp.
template <unsigned Ways>
__global__ void __launch_bounds__(threads) branch(unsigned width, float* to) {
  to[own_index()] = choose<0, Ways>(threadIdx.x / width % Ways, start_of(threadIdx.x));
}

/// Each tile of `Size` lanes decides together.
template <unsigned Size>
__global__ void __launch_bounds__(threads) branch_by_tiles(float* to) {
  const auto tile = cg::tiled_partition<Size>(cg::this_thread_block());
  to[own_index()] = choose<0, 2>(tile.meta_group_rank() % 2, start_of(threadIdx.x));
}

constexpr unsigned shared_summand = max_ways;

/// Both ways have a part in common, and it stands in the branch.
__global__ void __launch_bounds__(threads) branch_around_all(float* to) {
  float x = start_of(threadIdx.x);
  if (threadIdx.x % 2 == 0) {
#pragma unroll 8
    for (unsigned r = 0; r < shared_rounds; ++r) {
      asm volatile("// even lanes");
      x = step(x, shared_summand);
    }
    x = go<0, rounds - shared_rounds>(x);
  } else {
#pragma unroll 8
    for (unsigned r = 0; r < shared_rounds; ++r) {
      asm volatile("// odd lanes");
      x = step(x, shared_summand);
    }
    x = go<1, rounds - shared_rounds>(x);
  }
  to[own_index()] = x;
}

/// The common part stands before the branch.
__global__ void __launch_bounds__(threads) branch_around_difference(float* to) {
  float x = start_of(threadIdx.x);
#pragma unroll 8
  for (unsigned r = 0; r < shared_rounds; ++r) x = step(x, shared_summand);
  if (threadIdx.x % 2 == 0) {
    x = go<0, rounds - shared_rounds>(x);
  } else {
    x = go<1, rounds - shared_rounds>(x);
  }
  to[own_index()] = x;
}

/// Bit r tells whether the lanes with this number take the branch in round r, r + 32, ...
__host__ __device__ constexpr unsigned pattern_of(unsigned number) {
  return (number + 1) * 0x9e3779b9U;
}

/// A branch with one instruction in each round. The compiler predicates it.
__global__ void __launch_bounds__(threads) short_branches(unsigned width, float* to) {
  const unsigned pattern = pattern_of(threadIdx.x / width);
  float x = start_of(threadIdx.x);
#pragma unroll 32
  for (unsigned r = 0; r < rounds; ++r) {
    if ((pattern >> r % warp & 1) != 0) x = step(x, 1);
  }
  to[own_index()] = x;
}

constexpr unsigned kinds_of_elements = 4;

/// Each thread handles its own element.
__global__ void __launch_bounds__(threads) by_element(const std::uint8_t* kinds, float* to) {
  to[own_index()] = choose<0, kinds_of_elements>(kinds[own_index()], start_of(threadIdx.x));
}

/// A block first sorts its elements by kind, so that most warps have elements of one kind only.
__global__ void __launch_bounds__(threads) sorted_in_block(const std::uint8_t* kinds, float* to) {
  __shared__ unsigned counts[kinds_of_elements];
  __shared__ unsigned order[threads];  // the element, and its kind above the lower 8 bits
  const unsigned t = threadIdx.x, kind = kinds[own_index()];
  if (t < kinds_of_elements) counts[t] = 0;
  __syncthreads();
  unsigned place = atomicAdd(&counts[kind], 1);
  __syncthreads();
  for (unsigned k = 0; k < kind; ++k) place += counts[k];
  order[place] = kind << 8 | t;
  __syncthreads();
  const unsigned element = order[t] & 0xff;
  to[blockIdx.x * threads + element] =
      choose<0, kinds_of_elements>(order[t] >> 8, start_of(element));
}

constexpr unsigned exchanges = 32;

/// Waits until the flag is `value`. Gives up after a while: without independent thread scheduling
/// the other lane would never run.
__device__ void wait_for(cuda::atomic_ref<unsigned, cuda::thread_scope_block> flag,
                         unsigned value) {
  for (unsigned tries = 0; tries < 1U << 20; ++tries) {
    if (flag.load(cuda::memory_order_acquire) == value) return;
  }
}

/// Two neighbouring lanes count up in turns and wait for each other in a branch.
__global__ void __launch_bounds__(threads) count_by_flags(float* to) {
  __shared__ unsigned counts[threads / 2];
  if (threadIdx.x % 2 == 0) counts[threadIdx.x / 2] = 0;
  __syncthreads();
  cuda::atomic_ref<unsigned, cuda::thread_scope_block> count(counts[threadIdx.x / 2]);
  for (unsigned r = 0; r < exchanges; ++r) {
    if (threadIdx.x % 2 == 0) {
      wait_for(count, 2 * r);
      count.store(2 * r + 1, cuda::memory_order_release);
    } else {
      wait_for(count, 2 * r + 1);
      count.store(2 * r + 2, cuda::memory_order_release);
    }
  }
  __syncthreads();
  to[own_index()] = static_cast<float>(counts[threadIdx.x / 2]);
}

/// The same by shuffles, for which the lanes of a warp meet.
__global__ void __launch_bounds__(threads) count_by_shuffles(float* to) {
  unsigned count = 0;
  for (unsigned r = 0; r < exchanges; ++r) {
    for (unsigned turn = 0; turn < 2; ++turn) {
      const unsigned next = count + 1;
      count = __shfl_sync(0xffffffffU, next, threadIdx.x % warp / 2 * 2 + turn);
    }
  }
  to[own_index()] = static_cast<float>(count);
}

// ------------------------------------------------------------------------- the host's reference

constexpr unsigned starts = 16;  // different first values

/// The value after `count` steps with this summand.
float walk(float x, unsigned summand, unsigned count) {
  for (unsigned r = 0; r < count; ++r) x = step(x, static_cast<float>(summand));
  return x;
}

/// The results of each way, by way and first value.
std::vector<float> ends_of_ways() {
  std::vector<float> ends;
  for (unsigned way = 0; way < max_ways; ++way) {
    for (unsigned s = 0; s < starts; ++s) ends.push_back(walk(start_of(s), way + 1, rounds));
  }
  return ends;
}

/// The ways of the threads of a block.
std::vector<std::uint8_t> ways_of(unsigned width, unsigned count) {
  std::vector<std::uint8_t> ways;
  for (unsigned t = 0; t < threads; ++t) {
    ways.push_back(static_cast<std::uint8_t>(t / width % count));
  }
  return ways;
}

/// Kernels with a result for each thread, and their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu)
      : bench_(bench),
        gpu_(gpu),
        to_(std::uint64_t{bench.is_quick() ? 1U : 4U} << 20),
        ends_(ends_of_ways()) {}

  void vary_ways();
  void shorten();
  void predicate();
  void regroup();
  void wait_for_lanes();
  Table table() && { return std::move(rows_).table(); }

 private:
  unsigned blocks() const { return blocks_for(to_.size(), threads); }
  float* to() const { return to_.data(); }
  cudaStream_t stream() const { return gpu_.stream(); }
  float end_of(unsigned way, std::uint64_t thread) const {
    return ends_[way * starts + thread % starts];
  }
  /// `operations`: of a thread. `base`: milliseconds without divergence; 0: this case has none, and
  /// sets it.
  void add(const std::string& name, const Divergence& branch, double operations, double& base,
           const std::function<void()>& launch,
           const std::function<float(std::uint64_t)>& expected);

  Bench& bench_;
  Gpu& gpu_;
  DeviceArray<float> to_;
  std::vector<float> ends_;
  double one_way_ = 0;  ///< milliseconds of kernels with one way
  Measurements rows_{{{"case", ColumnType::text},
                      {"divergent", ColumnType::real, "%"},
                      {"ways", ColumnType::real}},
                     {"time", ColumnType::real, "us"},
                     Rows::of_kernels};
};

void Cases::add(const std::string& name, const Divergence& branch, double operations, double& base,
                const std::function<void()>& launch,
                const std::function<float(std::uint64_t)>& expected) {
  to_.clear(stream());
  launch();
  check_launch(name.c_str());
  const std::vector<float> found = to_.read();
  bool is_right = true;
  for (std::uint64_t i = 0; i < found.size(); ++i) is_right = is_right && found[i] == expected(i);
  bench_.verify(is_right, name);
  const Measured time = gpu_.time([&] {
                              launch();
                              check_launch(name.c_str());
                            })
                            .seconds.times(1e6);
  if (base == 0) base = time.value;
  const double ratio = time.value / base;
  const bool as_expected = ratio > 0.8 * branch.ways && ratio < 1.2 * branch.ways;
  const auto count = static_cast<double>(to_.size());
  rows_.add({name, 100 * branch.divergent, branch.ways}, time, 1 / ratio,
            formatted("{:.2f} times the time without divergence{}", ratio,
                      as_expected ? ", as many as ways in a warp" : ""),
            {count * operations, count * sizeof(float), "fp32"}, time.value * 1e-6);
}

/// The length of a way in operations.
constexpr double length = 2.0 * rounds;

void Cases::vary_ways() {
  using Branch = void (*)(unsigned, float*);
  constexpr std::array<Branch, 6> by_ways = {branch<1>, branch<2>,  branch<4>,
                                             branch<8>, branch<16>, branch<32>};
  for (const unsigned width : {1U, warp}) {
    for (std::size_t i = 0; i < by_ways.size(); ++i) {
      const unsigned ways = 1U << i;
      if ((ways == 1 && width > 1) || (bench_.is_quick() && ways != 1 && ways != 2 && ways != 8)) {
        continue;
      }
      add(
          ways == 1 ? "1 way" : formatted("{} ways by {}", ways, width == 1 ? "lane" : "warp"),
          divergence_of(ways_of(width, ways)), length, one_way_,
          [&] { by_ways[i]<<<blocks(), threads, 0, stream()>>>(width, to()); },
          [&](std::uint64_t thread) { return end_of(thread % threads / width % ways, thread); });
    }
  }
  using ByTiles = void (*)(float*);
  const auto add_tiles = [&](unsigned size, ByTiles kernel) {
    add(
        formatted("2 ways, tiles of {}", size), divergence_of(ways_of(size, 2)), length, one_way_,
        [&] { kernel<<<blocks(), threads, 0, stream()>>>(to()); },
        [&](std::uint64_t i) { return end_of(i % threads / size % 2, i); });
  };
  add_tiles(8, branch_by_tiles<8>);
  add_tiles(32, branch_by_tiles<32>);
}

void Cases::shorten() {
  const auto expected = [&](std::uint64_t i) {
    const unsigned thread = static_cast<unsigned>(i % threads);
    const float shared = walk(start_of(thread), shared_summand, shared_rounds);
    return walk(shared, thread % 2 + 1, rounds - shared_rounds);
  };
  std::vector<float> ends;  // of the threads of a block
  for (unsigned t = 0; t < threads; ++t) ends.push_back(expected(t));
  const auto end = [&](std::uint64_t i) { return ends[i % threads]; };
  add(
      "all in the branch", {1, 2}, length, one_way_,
      [&] { branch_around_all<<<blocks(), threads, 0, stream()>>>(to()); }, end);
  constexpr double passes = 1 + static_cast<double>(rounds - shared_rounds) / rounds;
  add(
      "difference in it", {1, passes}, length, one_way_,
      [&] { branch_around_difference<<<blocks(), threads, 0, stream()>>>(to()); }, end);
}

void Cases::predicate() {
  double by_warp = 0;
  for (const unsigned width : {warp, 1U}) {
    std::vector<float> ends;
    double taken = 0;
    for (unsigned t = 0; t < threads; ++t) {
      const unsigned pattern = pattern_of(t / width);
      float x = start_of(t);
      for (unsigned r = 0; r < rounds; ++r) {
        if ((pattern >> r % warp & 1) != 0) x = step(x, 1);
      }
      ends.push_back(x);
      taken += std::popcount(pattern) / static_cast<double>(warp * threads);
    }
    add(
        formatted("short, by {}", width == 1 ? "lane" : "warp"), {0, 1}, taken * length, by_warp,
        [&] { short_branches<<<blocks(), threads, 0, stream()>>>(width, to()); },
        [&](std::uint64_t i) { return ends[i % threads]; });
  }
}

void Cases::regroup() {
  std::vector<std::uint8_t> kinds;
  for (std::uint64_t i = 0; i < to_.size(); ++i) {
    kinds.push_back(static_cast<std::uint8_t>(unit_number(i) * kinds_of_elements));
  }
  std::vector<std::uint8_t> in_blocks = kinds, sorted = kinds;
  std::ranges::sort(sorted);
  for (auto block = in_blocks.begin(); block != in_blocks.end(); block += threads) {
    std::sort(block, block + threads);
  }
  using ByKind = void (*)(const std::uint8_t*, float*);
  const auto add_kinds = [&](const char* name, const std::vector<std::uint8_t>& of_elements,
                             const std::vector<std::uint8_t>& of_threads, ByKind kernel) {
    const DeviceArray<std::uint8_t> array{std::span<const std::uint8_t>(of_elements)};
    add(
        name, divergence_of(of_threads), length, one_way_,
        [&] { kernel<<<blocks(), threads, 0, stream()>>>(array.data(), to()); },
        [&](std::uint64_t i) { return end_of(of_elements[i], i); });
  };
  add_kinds("4 random kinds", kinds, kinds, by_element);
  add_kinds("sorted in blocks", kinds, in_blocks, sorted_in_block);
  add_kinds("sorted before", sorted, sorted, by_element);
}

void Cases::wait_for_lanes() {
  double by_shuffles = 0;
  const auto expected = [](std::uint64_t) { return 2.0F * exchanges; };
  add(
      "shuffles", {0, 1}, exchanges, by_shuffles,
      [&] { count_by_shuffles<<<blocks(), threads, 0, stream()>>>(to()); }, expected);
  add(
      "flags", {1, 2}, exchanges, by_shuffles,
      [&] { count_by_flags<<<blocks(), threads, 0, stream()>>>(to()); }, expected);
}

}  // namespace

Table divergence(Bench& bench) {
  Gpu gpu(bench);
  Cases cases(bench, gpu);
  cases.vary_ways();
  cases.shorten();
  cases.predicate();
  cases.regroup();
  cases.wait_for_lanes();
  bench.note(formatted(
      "Counted by hand: in a tree over blocks of {} threads, {:.1f} % of the branches diverge if "
      "every 2s-th thread adds, and {:.1f} % if the first s threads do. reduction measures both.",
      threads, 100 * divergent_in_tree(threads, Adders::spread),
      100 * divergent_in_tree(threads, Adders::neighbours)));
  return std::move(cases).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
