// The cost of barriers. All warps of a block wait for the slowest one. Meanwhile only other blocks
// can use the multiprocessor. A barrier of the whole grid needs a cooperative launch; a second
// launch does the same.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/bench.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cuda/barrier>
#endif

namespace shardstream::experiments::execution {

Table barriers(Bench& bench);

namespace {

/// The time in us with barriers of a block, from those without any and with one after each piece.
double time_with_barriers(const MeasuredRow& row) {
  if (row["barriers"] == 0) return row.measured({{"barrier", row.text("barrier")}});
  const double without = row.measured({{"barriers", "0"}}, {"case"});
  const double most = row.measured({{"barriers", "256"}}, {"case"});
  return without + (most - without) * std::sqrt(row["barriers"] / 256);
}

/// The time in us of many steps of the grid, on a straight line through those of 2 and 8.
double time_of_steps(const MeasuredRow& row) {
  const double two = row.measured({{"barriers", "2"}}, {"case"});
  const double eight = row.measured({{"barriers", "8"}}, {"case"});
  return two + (eight - two) / 6 * (row["barriers"] - 2);
}

double expected_time(const MeasuredRow& row) {
  const std::string barrier = row.text("barrier"), name = row.text("case");
  if (barrier == "of a block") return time_with_barriers(row);
  if (barrier == "of the grid") return time_of_steps(row);
  const std::size_t end = name.find(", arrive and wait");
  if (end == std::string::npos) return std::nan("");
  return row.measured({{"case", name.substr(0, end) + ", __syncthreads()"}}, {"barriers"});
}

}  // namespace

extern const Experiment about_barriers = {
    .name = "barriers",
    .group = "execution",
    .summary = "While the warps of a block wait at a barrier, only other blocks use the GPU.",
    .explanation =
        {
            .question =
                "How much time do the warps of a block lose if they wait for each other more "
                "often?",
            .varies =
                "1024 threads run on each multiprocessor, as 1, 2, 4 or 8 blocks. All warps do 256 "
                "pieces of work of random length, the same ones in each case. A barrier of the "
                "block follows every piece, every 4, 16 or 64 pieces, or none. In the second part, "
                "each warp gives a word to the others and reads that of the next warp, but half of "
                "its work does not need it. With __syncthreads(), or if all threads arrive at an "
                "asynchronous barrier and wait at once, this half follows the barrier. In `arrive, "
                "work, wait`, it lies between the arrival and the wait. Last in this part, one "
                "lane arrives for its warp. In the third part, all threads of the grid wait for "
                "each other, since in each step they read what another block has written. Either a "
                "cooperative launch does that with grid.sync(), or each step is a launch.",
            .expectation =
                "A barrier costs little by itself. Its price is the time for which warps wait for "
                "the slowest warp of their block. Expect the time to grow with the number of "
                "barriers, and less if there are several small blocks: the other blocks continue, "
                "and a small block has fewer warps to wait for. The lengths of m pieces together "
                "differ sqrt(m) times as much as that of one, so a quarter of the barriers costs "
                "half as much. An asynchronous barrier is a word in shared memory, so expect it to "
                "be a little slower than __syncthreads(). Work between arrival and wait saves time "
                "if barriers are frequent, since a slow warp then delays the others less; expect "
                "arrivals by warp to cost less than by thread. For a barrier of the grid, expect "
                "both ways to take some microseconds or less for each step, and each further step "
                "to take as long as the one before.",
            .pitfalls =
                "A host that launches slowly would make the launches of the third part look "
                "expensive. All of them are enqueued before the first one begins, so the cost of "
                "the host's calls is not in the times. A given word must not be overwritten before "
                "it has been read: the words go to two buffers in turn. Hardware supports "
                "asynchronous barriers from compute capability 8.0 on.",
        },
    .read_on = {{Guide::best_practices, "Thread and Block Heuristics"},
                {Guide::programming, "Multiprocessor Level"},
                {Guide::programming, "Grid Synchronization"},
                {Guide::programming, "Asynchronous Barrier"}},
    .share =
        "of the speed without barriers; for a barrier of the grid, of the speed with a launch for "
        "each step",
    .expected = expected_time,
    .exercise = {.task = "Predict the time in us with 16 barriers in one block of 1024 threads, if "
                         "it is 230 us without barriers and 320 us with 256, and the time of 64 "
                         "steps with a launch each, if one takes 2 us.",
                 .rows = {{{"case", "1 x 1024 threads"}, {"barriers", "16"}},
                          {{"case", "a launch each"}, {"barriers", "64"}}}},
    .figure = {.look = Look::lines,
               .x = "barriers",
               .y = "time",
               .series = "case",
               .panel = "barrier",
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<barriers>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

namespace cg = cooperative_groups;

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr unsigned threads_each = 1024;  // on a multiprocessor

// ------------------------------------------------------------------------ barriers of a block

constexpr unsigned pieces = 256;
constexpr unsigned min_length = 8, lengths = 57;  // 8 to 64 steps

/// The length of a piece of work of a warp.
__host__ __device__ constexpr unsigned length_of(unsigned number, unsigned piece) {
  unsigned h = (number * pieces + piece + 1) * 0x9e3779b9U;
  h = (h ^ h >> 15) * 0x85ebca6bU;
  return min_length + (h ^ h >> 13) % lengths;
}
__host__ __device__ inline float step(float x) {
  return fmaf(x, 1 - 0x1p-14F, 1);
}

/// Each warp does its pieces of work, with a barrier of the block after every `interval` of them.
__global__ void __launch_bounds__(threads_each) work(unsigned interval, float* to) {
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float x = 0;
  unsigned left = interval;
  for (unsigned piece = 0; piece < pieces; ++piece) {
    const unsigned length = length_of(thread / warp, piece);
#pragma unroll 1
    for (unsigned r = 0; r < length; ++r) x = step(x);
    if (--left == 0) {
      __syncthreads();
      left = interval;
    }
  }
  to[thread] = x;
}

/// Does `count` pieces of work of a warp, from piece `first` on.
__device__ float do_pieces(float x, unsigned number, unsigned first, unsigned count) {
#pragma unroll 1
  for (unsigned piece = first; piece < first + count; ++piece) {
    const unsigned length = length_of(number, piece);
#pragma unroll 1
    for (unsigned r = 0; r < length; ++r) x = step(x);
  }
  return x;
}

/// The results of all pieces, by warp.
std::vector<float> expected_results(unsigned warps) {
  std::vector<float> after = {0};  // so many steps
  for (unsigned r = 0; r < pieces * (min_length + lengths); ++r)
    after.push_back(step(after.back()));
  std::vector<float> results;
  for (unsigned number = 0; number < warps; ++number) {
    unsigned steps = 0;
    for (unsigned piece = 0; piece < pieces; ++piece) steps += length_of(number, piece);
    results.push_back(after[steps]);
  }
  return results;
}

double steps_of(unsigned warps) {
  double steps = 0;
  for (unsigned number = 0; number < warps; ++number) {
    for (unsigned piece = 0; piece < pieces; ++piece) steps += length_of(number, piece);
  }
  return steps;
}

/// Adds rows. Returns the times without barriers in microseconds, by the number of blocks.
std::map<unsigned, double> add_barriers_of_blocks(Bench& bench, Gpu& gpu, Measurements& rows) {
  const auto multiprocessors = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const unsigned threads = multiprocessors * threads_each, warps = threads / warp;
  const DeviceArray<float> to(threads);
  const std::vector<float> expected = expected_results(warps);
  const double operations = 2 * warp * steps_of(warps);
  std::map<unsigned, double> all_without;
  for (const unsigned each : {1U, 2U, 4U, 8U}) {
    if (bench.is_quick() && each == 4) continue;
    double& without = all_without[each];
    for (const unsigned interval : {pieces + 1, 64U, 16U, 4U, 1U}) {
      if (bench.is_quick() && (interval == 64 || interval == 4)) continue;
      const std::string name = formatted("{} x {} threads", each, threads_each / each);
      const auto launch = [&] {
        work<<<each * multiprocessors, threads_each / each, 0, gpu.stream()>>>(interval, to.data());
        check_launch("work");
      };
      to.clear(gpu.stream());
      launch();
      const std::vector<float> found = to.read();
      bool is_right = true;
      for (unsigned i = 0; i < threads; ++i) is_right = is_right && found[i] == expected[i / warp];
      bench.verify(is_right, name);
      const Measured time = gpu.time(launch).seconds.times(1e6);
      if (without == 0) without = time.value;
      const double ratio = time.value / without;
      rows.add({"of a block", name, std::int64_t{pieces / interval}}, time, 1 / ratio,
               interval > pieces ? "no warp waits"
                                 : formatted("{:.2f} times the time without barriers", ratio),
               {operations, static_cast<double>(to.bytes()), "fp32"}, time.value * 1e-6);
    }
  }
  return all_without;
}

// ------------------------------------------------------------ work between arrival and wait

using Barrier = cuda::barrier<cuda::thread_scope_block>;

/// How the warps of a block wait for each other's words. Each warp also has independent work, which
/// needs no words of others.
enum class Meeting {
  syncthreads,   ///< __syncthreads(), then the independent work
  asynchronous,  ///< an asynchronous barrier: arrive and wait at once, then the independent work
  split,         ///< arrive, do the independent work, then wait
  by_warp        ///< the same, but one lane arrives for its warp
};

/// A warp's tag after a meeting, from its own one and that of the next warp of the block.
__host__ __device__ constexpr unsigned next_tag(unsigned own, unsigned of_next) {
  return own * 1664525 + of_next + 1013904223;
}

/// The warps do `interval` pieces of work between two meetings: one half before they give their tag
/// to the others, and one half that is independent. `tags` receives the last tag of each warp.
template <Meeting How>
__global__ void __launch_bounds__(threads_each) meet(unsigned interval, float* to, unsigned* tags) {
  __shared__ unsigned given[2][threads_each / warp];  // in turn: a slow warp may still read one
  __shared__ alignas(Barrier) unsigned char room[sizeof(Barrier)];
  auto& barrier = *reinterpret_cast<Barrier*>(room);
  const unsigned warps = blockDim.x / warp, own = threadIdx.x / warp, half = interval / 2;
  if (threadIdx.x == 0) init(&barrier, How == Meeting::by_warp ? warps : blockDim.x);
  __syncthreads();
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, number = thread / warp;
  const bool is_first_lane = threadIdx.x % warp == 0;
  float x = 0;
  unsigned tag = number, turn = 0;
#pragma unroll 1
  for (unsigned first = 0; first < pieces; first += interval, turn ^= 1) {
    x = do_pieces(x, number, first, half);
    if (is_first_lane) given[turn][own] = tag;
    if constexpr (How == Meeting::syncthreads) {
      __syncthreads();
      x = do_pieces(x, number, first + half, half);
    } else if constexpr (How == Meeting::asynchronous) {
      barrier.wait(barrier.arrive());
      x = do_pieces(x, number, first + half, half);
    } else if constexpr (How == Meeting::split) {
      Barrier::arrival_token arrival = barrier.arrive();
      x = do_pieces(x, number, first + half, half);
      barrier.wait(std::move(arrival));
    } else {
      __syncwarp();
      if (is_first_lane) (void)barrier.arrive();
      x = do_pieces(x, number, first + half, half);
      barrier.wait_parity(turn != 0);  // the phases of the barrier have the parities 0, 1, 0, ...
    }
    tag = next_tag(tag, given[turn][(own + 1) % warps]);
  }
  to[thread] = x;
  if (is_first_lane) tags[number] = tag;
}

/// The tags of all warps after `meetings` of the warps of each block.
std::vector<unsigned> expected_tags(unsigned warps, unsigned of_block, unsigned meetings) {
  std::vector<unsigned> tags(warps);
  for (unsigned number = 0; number < warps; ++number) tags[number] = number;
  for (unsigned m = 0; m < meetings; ++m) {
    const std::vector<unsigned> given = tags;
    for (unsigned number = 0; number < warps; ++number) {
      const unsigned first = number / of_block * of_block;
      tags[number] = next_tag(given[number], given[first + (number + 1 - first) % of_block]);
    }
  }
  return tags;
}

struct NamedMeeting {
  const char* name;
  void (*kernel)(unsigned interval, float* to, unsigned* tags);
};
constexpr std::array meetings = {
    NamedMeeting{"__syncthreads()", meet<Meeting::syncthreads>},
    NamedMeeting{"arrive and wait", meet<Meeting::asynchronous>},
    NamedMeeting{"arrive, work, wait", meet<Meeting::split>},
    NamedMeeting{"a lane arrives, work, wait", meet<Meeting::by_warp>}};

/// `all_without`: the times without barriers, in microseconds, by the number of blocks.
void add_split_barriers(Bench& bench, Gpu& gpu, const std::map<unsigned, double>& all_without,
                        Measurements& rows) {
  const auto multiprocessors = static_cast<unsigned>(gpu.properties().multiProcessorCount);
  const unsigned threads = multiprocessors * threads_each, warps = threads / warp;
  const DeviceArray<float> to(threads);
  const DeviceArray<unsigned> tags(warps);
  const std::vector<float> expected = expected_results(warps);
  const double operations = 2 * warp * steps_of(warps);
  for (const auto& [each, interval] : std::vector<std::pair<unsigned, unsigned>>{
           {1, 32}, {1, 8}, {1, 2}, {4, 32}, {4, 8}, {4, 2}}) {
    if (bench.is_quick() && (each == 4 || interval == 8)) continue;
    const unsigned each_threads = threads_each / each, count = pieces / interval;
    double with_syncthreads = 0;
    for (const auto& [meeting, kernel] : meetings) {
      const std::string name =
          formatted("{} x {} threads, {}", each, each_threads, std::string(meeting));
      const auto launch = [&, run = kernel] {
        run<<<each * multiprocessors, each_threads, 0, gpu.stream()>>>(interval, to.data(),
                                                                       tags.data());
        check_launch("meet");
      };
      to.clear(gpu.stream());
      tags.clear(gpu.stream());
      launch();
      const std::vector<float> found = to.read();
      bool is_right = tags.read() == expected_tags(warps, each_threads / warp, count);
      for (unsigned i = 0; i < threads; ++i) is_right = is_right && found[i] == expected[i / warp];
      bench.verify(is_right, name);
      const Measured time = gpu.time(launch).seconds.times(1e6);
      if (with_syncthreads == 0) with_syncthreads = time.value;
      rows.add(
          {"of a block, beside independent work", name, std::int64_t{count}}, time,
          all_without.at(each) / time.value,
          formatted("{:.2f} times the time with __syncthreads()", time.value / with_syncthreads),
          {operations, static_cast<double>(to.bytes() + tags.bytes()), "fp32"}, time.value * 1e-6);
    }
  }
}

// ------------------------------------------------------------------------ barriers of the grid

constexpr unsigned threads_of_step = 256;

/// Each thread reads the word that the same thread of the next block has written.
__device__ void exchange(const float* from, float* to) {
  const unsigned count = gridDim.x * blockDim.x;
  const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  to[thread] = from[(thread + blockDim.x) % count] + 1;
}

/// One step in a launch.
__global__ void __launch_bounds__(threads_of_step) exchange_once(const float* from, float* to) {
  exchange(from, to);
}

/// All steps in a cooperative launch. The result is in `to` if the number of steps is odd.
__global__ void __launch_bounds__(threads_of_step)
    exchange_in_steps(float* from, float* to, unsigned steps) {
  const cg::grid_group grid = cg::this_grid();
  for (unsigned s = 0; s < steps; ++s) {
    exchange(s % 2 == 0 ? from : to, s % 2 == 0 ? to : from);
    grid.sync();
  }
}

/// Two arrays that swap their roles in each step.
class Exchange {
 public:
  Exchange(unsigned blocks, cudaStream_t stream)
      : blocks_(blocks),
        stream_(stream),
        words_{DeviceArray<float>(count()), DeviceArray<float>(count())} {}

  unsigned count() const { return blocks_ * threads_of_step; }
  void by_launches(unsigned steps) const {
    for (unsigned s = 0; s < steps; ++s) {
      exchange_once<<<blocks_, threads_of_step, 0, stream_>>>(words_[s % 2].data(),
                                                              words_[(s + 1) % 2].data());
      check_launch("exchange_once");
    }
  }
  void by_grid(unsigned steps) const {
    float *from = words_[0].data(), *to = words_[1].data();
    void* arguments[] = {&from, &to, &steps};
    check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(exchange_in_steps), blocks_,
                                      threads_of_step, arguments, 0, stream_),
          "cudaLaunchCooperativeKernel");
  }
  /// Whether `run` takes `steps` steps. Word i is unit_number(i) at first.
  bool is_right(unsigned steps, const std::function<void()>& run) const {
    fill(words_[0], stream_);
    words_[1].clear(stream_);
    run();
    const std::vector<float> found = words_[steps % 2].read();
    for (unsigned i = 0; i < count(); ++i) {
      float expected = unit_number((i + std::uint64_t{steps} * threads_of_step) % count());
      for (unsigned s = 0; s < steps; ++s) expected += 1;
      if (found[i] != expected) return false;
    }
    return true;
  }

 private:
  unsigned blocks_;
  cudaStream_t stream_;
  std::array<DeviceArray<float>, 2> words_;
};

void add_barriers_of_the_grid(Bench& bench, Gpu& gpu, Measurements& rows) {
  if (gpu.properties().cooperativeLaunch == 0) {
    bench.note("This GPU has no cooperative launch, so a barrier of the grid is not measured.");
    return;
  }
  // One block on each multiprocessor: all must run at the same time.
  const Exchange exchange(static_cast<unsigned>(gpu.properties().multiProcessorCount),
                          gpu.stream());
  constexpr unsigned few = 2, many = 64;
  std::array<double, 2> of_few{}, of_many{};  // microseconds by launches and by grid.sync()
  for (const unsigned steps : {few, 8U, 32U, many}) {
    double by_launches = 0;
    for (const bool is_cooperative : {false, true}) {
      const char* const name = is_cooperative ? "grid.sync()" : "a launch each";
      const auto run = [&] {
        if (is_cooperative) {
          exchange.by_grid(steps);
        } else {
          exchange.by_launches(steps);
        }
      };
      bench.verify(exchange.is_right(steps, run), name);
      const Measured time = gpu.time(run).seconds.times(1e6);
      if (!is_cooperative) by_launches = time.value;
      if (steps == few) of_few.at(is_cooperative ? 1 : 0) = time.value;
      if (steps == many) of_many.at(is_cooperative ? 1 : 0) = time.value;
      const double all = static_cast<double>(exchange.count()) * steps;
      rows.add({"of the grid", name, std::int64_t{steps}}, time,
               is_cooperative ? by_launches / time.value : none,
               formatted("{:.2f} us for each step", time.value / steps),
               {all, 2 * sizeof(float) * all, "fp32"}, time.value * 1e-6);
    }
  }
  const auto each = [&](std::size_t i) { return (of_many.at(i) - of_few.at(i)) / (many - few); };
  bench.note(
      formatted("Each further step takes {:.2f} us with a launch and {:.2f} us with grid.sync().",
                each(0), each(1)));
}

}  // namespace

Table barriers(Bench& bench) {
  Gpu gpu(bench);
  Measurements rows({{"barrier", ColumnType::text},
                     {"case", ColumnType::text},
                     {"barriers", ColumnType::integer}},
                    {"time", ColumnType::real, "us"}, Rows::of_kernels);
  const std::map<unsigned, double> without = add_barriers_of_blocks(bench, gpu, rows);
  add_split_barriers(bench, gpu, without, rows);
  add_barriers_of_the_grid(bench, gpu, rows);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
