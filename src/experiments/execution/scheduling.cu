// The order in which the blocks and warps of a grid start. The GPU is free to choose it, so that
// the same program runs on any number of multiprocessors. No program may rely on it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/execution/start_order.hpp"
#include "experiments/execution/stays.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

namespace shardstream::experiments::execution {

Table scheduling(Bench& bench);
Table modelled_scheduling(Bench& bench);

extern const Experiment about_scheduling = {
    .name = "scheduling",
    .group = "execution",
    .summary = "Blocks and warps start in any order: a program must not rely on one.",
    .explanation =
        "Each warp, or the first one of each block, takes a number from a counter when it starts: "
        "its place in the order of all starts. It also reads the GPU's timer and the number of "
        "its multiprocessor. The first grid has 4 blocks of 128 threads, and each of its 16 warps "
        "has a row. The second grid has more blocks than fit on the GPU at the same time. A block "
        "that ends makes room for the next one, so the blocks start in waves. The table shows a "
        "part of them, and the notes count all. The line in the figure is the order of the "
        "numbers. Expect points on both sides of it, and other ones in each launch. Blocks that "
        "must wait for each other need a second launch or a cooperative launch; threads of a "
        "block need a barrier. If the last wave is small, most of the GPU is idle meanwhile. "
        "Without a GPU, a model starts 8 blocks of equal length on 2, 4 and 8 multiprocessors: "
        "the same grid ends sooner where more of them run at the same time. CUDA C++ Programming "
        "Guide, section Scalable Programming Model; CUDA C++ Best Practices Guide, section Thread "
        "and Block Heuristics.",
    .figure = {.look = Look::lines,
               .x = "number",
               .y = "order",
               .series = "launch",
               .panel = "grid",
               .reference_lines = {"in_order"},
               .is_rated = false},
    .run = with_cuda<scheduling>(),
    .run_host = modelled_scheduling,
};

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Table modelled_scheduling(Bench& bench) {
  bench.draw({.look = Look::lines, .x = "block", .y = "start", .series = "gpu", .is_rated = false});
  Measurements rows({{"gpu", ColumnType::text},
                     {"block", ColumnType::integer},
                     {"multiprocessor", ColumnType::integer}},
                    {"start", ColumnType::real});
  constexpr std::uint64_t blocks = 8;
  bench.note(
      formatted("A model of {} blocks, not a measurement: all take equally long, which is the unit "
                "of `start`. "
                "On a GPU the order is not defined.",
                blocks));
  for (std::uint64_t count = 2; count <= blocks; count *= 2) {
    for (std::uint64_t block = 0; block < blocks; ++block) {
      const auto start = static_cast<double>(wave_of(block, count));
      rows.add({formatted("{} multiprocessors", count), to_cell(block), to_cell(block % count)},
               {start, none, none}, none,
               formatted("all blocks end after {}", waves_of(blocks, count)));
    }
  }
  return std::move(rows).table();
}

#if SHARDSTREAM_HAS_CUDA
namespace {

/// The start and the end of a warp or a block.
struct Start {
  std::uint64_t order;  ///< 0 for the first one of the launch
  Stay stay;
};

/// Every `width` threads of the grid, a warp or a block, record their start. They stay for at least
/// `nanoseconds`. `counter` is 0 before the launch.
__global__ void note_starts(unsigned width, std::uint64_t nanoseconds, unsigned* counter,
                            Start* starts) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread % width == 0) {
    const std::uint64_t order = atomicAdd(counter, 1);
    const std::uint64_t begin = global_nanoseconds();
    spin(nanoseconds);
    starts[thread / width] = {order, {begin, global_nanoseconds(), multiprocessor()}};
  }
  __syncthreads();  // all warps of the block stay as long as those that record
}

/// A grid whose warps or blocks record their starts.
struct Grid {
  std::string name;
  const char* items;  ///< "warps", "blocks"
  unsigned blocks, threads;
  unsigned width;  ///< threads of an item
  std::uint64_t nanoseconds;
  unsigned shown;  ///< rows at most

  unsigned count() const { return blocks * threads / width; }
};

std::vector<unsigned> places_of(const std::vector<Start>& starts) {
  std::vector<unsigned> places;
  for (const Start& start : starts) places.push_back(static_cast<unsigned>(start.order));
  return places;
}

/// Whether each place occurs once.
bool is_order(std::vector<unsigned> places) {
  std::ranges::sort(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] != i) return false;
  }
  return true;
}

std::vector<Start> launch(const Grid& grid, cudaStream_t stream) {
  const DeviceArray<unsigned> counter(1);
  const DeviceArray<Start> starts(grid.count());
  counter.clear(stream);
  note_starts<<<grid.blocks, grid.threads, 0, stream>>>(grid.width, grid.nanoseconds,
                                                        counter.data(), starts.data());
  check_launch("note_starts");
  return starts.read();
}

/// Adds rows of every n-th item, so that there are not more than `grid.shown`.
void add(Measurements& rows, const Grid& grid, const std::string& name,
         const std::vector<Start>& starts) {
  const std::size_t step = (starts.size() + grid.shown - 1) / grid.shown;
  std::uint64_t first = starts.front().stay.begin;
  for (const Start& start : starts) first = std::min(first, start.stay.begin);
  for (std::size_t i = 0; i < starts.size(); i += step) {
    const Start& start = starts[i];
    const auto begin = static_cast<double>(start.stay.begin - first);
    const std::size_t of_block = grid.threads / grid.width;
    rows.add({grid.name, name, to_cell(i), to_cell(start.stay.multiprocessor), begin / 1e3,
              static_cast<double>(i)},
             {static_cast<double>(start.order), none, none}, none,
             of_block > 1 ? formatted("block {}, warp {}", i / of_block, i % of_block)
                          : formatted("wave {:.0f}",
                                      std::floor(begin / static_cast<double>(grid.nanoseconds))));
  }
}

/// Launches the grid several times, and compares the orders.
void add_launches(Bench& bench, Gpu& gpu, Measurements& rows, const Grid& grid) {
  std::vector<unsigned> before;
  for (int number = 1; number <= 2; ++number) {
    const std::vector<Start> starts = launch(grid, gpu.stream());
    const std::vector<unsigned> places = places_of(starts);
    bench.verify(is_order(places), grid.name);
    const std::string name = formatted("launch {}", number);
    add(rows, grid, name, starts);
    bench.note(formatted("{}, {}: {} of {} {} started before one with a smaller number.", grid.name,
                         name, early_starts(places), places.size(), std::string(grid.items)));
    if (number > 1) {
      std::size_t other = 0;
      for (std::size_t i = 0; i < places.size(); ++i) other += places[i] != before[i] ? 1 : 0;
      bench.note(formatted("{}: {} of {} {} had another place than in the launch before.",
                           grid.name, other, places.size(), std::string(grid.items)));
    }
    before = places;
  }
}

/// Three and a half waves of blocks.
Grid several_waves(Bench& bench, Gpu& gpu) {
  constexpr unsigned threads = 1024;
  int fits = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fits, note_starts, threads, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto places = static_cast<unsigned>(fits * gpu.properties().multiProcessorCount);
  const unsigned blocks = 3 * places + places / 2;
  bench.note(formatted(
      "{} blocks fit on the GPU at the same time, so {} blocks of equal length need {} waves, and "
      "the last one uses {:.0f} % of the places.",
      places, blocks, waves_of(blocks, places), 100.0 * (blocks % places) / places));
  return {"several waves", "blocks", blocks, threads, threads, 20000, bench.is_quick() ? 12U : 16U};
}

}  // namespace

Table scheduling(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"grid", ColumnType::text},
                     {"launch", ColumnType::text},
                     {"number", ColumnType::integer},
                     {"multiprocessor", ColumnType::integer},
                     {"start", ColumnType::real, "us"},
                     {"in_order", ColumnType::real}},
                    {"order", ColumnType::real});
  add_launches(bench, gpu, rows, {"4 blocks of 128 threads", "warps", 4, 128, 32, 2000, 16});
  add_launches(bench, gpu, rows, several_waves(bench, gpu));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
