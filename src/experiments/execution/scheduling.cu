// The order in which the blocks and warps of a grid start. The GPU is free to choose it, so that
// the same program runs on any number of multiprocessors. No program may rely on it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "experiments/bench.hpp"
#include "experiments/device_clock.cuh"
#include "experiments/execution/start_order.hpp"
#include "experiments/execution/stays.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/helper_processes.hpp"

namespace shardstream::experiments::execution {

Table scheduling(Bench& bench);
Table modelled_scheduling(Bench& bench);
void scheduling_helper(HelperEnd& end);

extern const Experiment about_scheduling = {
    .name = "scheduling",
    .group = "execution",
    .summary = "Blocks and warps start in any order: a program must not rely on one.",
    .explanation =
        {
            .question = "In which order do the blocks and warps of a grid start?",
            .varies =
                "Each warp, or the first one of each block, takes a number from a counter when it "
                "starts: its place in the order of all starts. It also reads the GPU's timer and "
                "the number of its multiprocessor. The first grid has 4 blocks of 128 threads, and "
                "each of its 16 warps has a row. The second grid has more blocks than fit on the "
                "GPU at the same time. The table shows a part of them, and the notes count all. "
                "Last, each thread of a grid of 4 blocks of 128 prints its indices, in a helper "
                "process; the notes have the order of the warps by their first lines, and count "
                "the lines that did not follow the lane before. Without a GPU, a model starts 8 "
                "blocks of equal length on 2, 4 and 8 multiprocessors.",
            .expectation =
                "The line in the figure is the order of the numbers. Expect points on both sides "
                "of it, and other ones in each launch. The order of printed lines is not defined, "
                "either. A block that ends makes room for the next one, so the blocks start in "
                "waves. In the model, the same grid ends sooner if more blocks run at the same "
                "time.",
            .pitfalls =
                "Blocks that must wait for each other need a second launch or a cooperative "
                "launch; threads of a block need a barrier. If the last wave is small, most of the "
                "GPU is idle meanwhile. printf() in a kernel writes to a buffer "
                "(cudaLimitPrintfFifoSize, 1 MiB by default). If it is full, the oldest lines are "
                "overwritten. Lines appear only when the host waits for the GPU.",
        },
    .read_on = {{Guide::programming, "Scalable Programming Model"},
                {Guide::programming, "Thread Hierarchy"},
                {Guide::best_practices, "Thread and Block Heuristics"},
                {Guide::programming, "Formatted Output"}},
    .figure = {.look = Look::lines,
               .x = "number",
               .y = "order",
               .series = "launch",
               .panel = "grid",
               .reference_lines = {"in_order"},
               .is_rated = false},
    .run = with_cuda<scheduling>(),
    .run_host = modelled_scheduling,
    .helper = with_cuda<scheduling_helper>(),
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
    bench.note(formatted("{}, {}: half of the {} {} started at least {} places from their number.",
                         grid.name, name, places.size(), std::string(grid.items),
                         median_displacement(places)));
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

// The output of a kernel. printf() writes to a buffer of the GPU, and CUDA copies that to the
// standard output of the process when it waits for the GPU. A helper process prints, since the
// standard output of this one is the user's.

constexpr unsigned printing_blocks = 4, printing_threads = 128;
constexpr unsigned warps_of_block = printing_threads / warp;
constexpr unsigned printing_warps = printing_blocks * warps_of_block;

/// Each thread prints its block, its warp in the block and its lane in the warp.
__global__ void print_indices() {
  printf("%u %u %u\n", blockIdx.x, threadIdx.x / warp, threadIdx.x % warp);
}

/// From now on, the standard output of this process goes to memory. The destructor restores it.
class CapturedOutput {
 public:
  CapturedOutput() : before_(dup(STDOUT_FILENO)), captured_(memfd_create("output", MFD_CLOEXEC)) {
    if (!before_.valid() || !captured_.valid() || dup2(captured_.get(), STDOUT_FILENO) < 0) {
      throw Error(
          formatted("the output of a kernel cannot be captured ({}): raise the limit of open files "
                    "(ulimit -n)",
                    errno_text(errno)));
    }
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() {
    std::fflush(stdout);
    dup2(before_.get(), STDOUT_FILENO);
  }

  std::string text() const {
    std::fflush(stdout);
    const off_t size = lseek(captured_.get(), 0, SEEK_CUR);  // the end of what was written
    std::string text(static_cast<std::size_t>(std::max<off_t>(size, 0)), '\0');
    const std::int64_t read =
        captured_.read_at(0, reinterpret_cast<std::byte*>(text.data()), text.size());
    text.resize(static_cast<std::size_t>(std::max<std::int64_t>(read, 0)));
    return text;
  }

 private:
  Descriptor before_, captured_;
};

/// The answer to any command has the numbers of all lines of print_indices().
std::string printed_indices() {
  const CapturedOutput captured;
  print_indices<<<printing_blocks, printing_threads>>>();
  check_launch("print_indices");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::string text = captured.text();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// The lines of print_indices() by warp: the warps in the order of their first lines, and the
/// number of lines that do not follow the lane before them.
struct Printed {
  std::vector<unsigned> warps;
  unsigned displaced = 0;
  bool is_complete = false;  ///< each thread has one line
};

Printed printed(const std::vector<std::uint64_t>& numbers) {
  Printed all;
  std::vector<unsigned> seen(printing_blocks * printing_threads, 0);
  std::uint64_t before = seen.size();  // the thread of the line before
  for (std::size_t i = 0; i + 2 < numbers.size(); i += 3) {
    const std::uint64_t of_grid = numbers[i] * warps_of_block + numbers[i + 1];
    const std::uint64_t thread = of_grid * warp + numbers[i + 2];
    if (thread >= seen.size()) return all;
    ++seen[thread];
    const auto number = static_cast<unsigned>(of_grid);
    if (std::ranges::find(all.warps, number) == all.warps.end()) all.warps.push_back(number);
    if (numbers[i + 2] > 0 && thread != before + 1) ++all.displaced;
    before = thread;
  }
  all.is_complete = std::ranges::all_of(seen, [](unsigned count) { return count == 1; });
  return all;
}

/// Notes the order in which the lines of a kernel arrive.
void show_printed(Bench& bench) {
  const std::string& mode = bench.facts().compute_mode;
  if (!permits_second_process(mode)) {
    bench.note(
        formatted("No kernel printed, since that needs a second process, which the compute "
                  "mode of the GPU ({}) does not permit.",
                  mode));
    return;
  }
  constexpr double limit = 60;  // seconds
  Helpers helper(this_program(about_scheduling.name, environ,
                              {"CUDA_VISIBLE_DEVICES=" + bench.device().info().uuid}),
                 1, bench.heartbeat());
  const Printed found = printed(numbers_of(helper.ask(1, "print", limit).at(0)));
  bench.verify(found.is_complete, "the lines that a kernel printed");
  std::string order;
  for (const unsigned number : found.warps) {
    order += formatted("{}{}/{}", std::string(order.empty() ? "" : ", "), number / warps_of_block,
                       number % warps_of_block);
  }
  bench.note(formatted(
      "A kernel of {} blocks of {} threads printed a line from each thread. The first lines of its "
      "warps came in this order (block/warp): {}. {} of {} lines did not follow the lane before.",
      printing_blocks, printing_threads, order, found.displaced,
      printing_blocks * printing_threads));
  std::vector<unsigned> places(printing_warps);
  for (unsigned place = 0; place < printing_warps; ++place) places[found.warps[place]] = place;
  bench.note(formatted("Half of these warps printed at least {} places from their number.",
                       median_displacement(places)));
}

}  // namespace

void scheduling_helper(HelperEnd& end) {
  end.serve([](const std::string&) { return printed_indices(); });
}

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
  show_printed(bench);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
