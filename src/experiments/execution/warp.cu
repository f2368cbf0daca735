// How the lanes of a warp exchange values: through shared memory, or directly from register to
// register by shuffles, votes, matches and reductions.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"

#if SHARDSTREAM_HAS_CUDA
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#endif

namespace shardstream::experiments::execution {

Table warp(Bench& bench);

namespace {

/// The time in ns of a sum, on a straight line through the sums of 4 and 8 lanes, which have 2 and
/// 3 steps. A vote whether all lanes agree takes as long as one whether any does.
double time_of_exchange(const MeasuredRow& row) {
  const std::map<std::string, double> steps = {{"sum of 32, shared", 5},
                                               {"sum of 32, shuffles down", 6},
                                               {"sum of 32, shuffles xor", 5},
                                               {"sums of 16, shared", 4},
                                               {"sums of 16, shuffles xor", 4}};
  const std::string name = row.text("case");
  const auto of = [&](const std::string& other) {
    return row.measured({{"case", other}}, {"warps"});
  };
  if (name.starts_with("all, ")) return of("any, " + name.substr(5));
  const auto found = steps.find(name);
  if (found == steps.end()) return std::nan("");
  const char* const way = name.ends_with("shared") ? "shared" : "shuffles xor";
  const double two = of(std::string("sums of 4, ") + way);
  const double three = of(std::string("sums of 8, ") + way);
  return two + (three - two) * (found->second - 2);
}

}  // namespace

extern const Experiment about_warp = {
    .name = "warp",
    .group = "execution",
    .summary = "The lanes of a warp exchange values in registers faster than in shared memory.",
    .explanation =
        {
            .question =
                "What does an exchange between the lanes of a warp gain if it avoids shared "
                "memory?",
            .varies =
                "Each operation of a warp is done through shared memory and by a primitive. The "
                "sum of 32 lanes: by a tree in shared memory, by shuffles down and one to tell all "
                "lanes, by shuffles xor, after which all lanes have the sum, and by redux, one "
                "instruction for integers on compute capability 8.0 or newer. The sums of groups "
                "of 4 to 16 lanes: by shuffles xor, and by tiles of cooperative groups. The value "
                "of the next lane. The sum of the lanes that enter a branch: by an atomic addition "
                "of each lane, and of one lane for its coalesced group. Whether any or all lanes "
                "agree, and which ones (votes). Which lanes have the same value (match). Each "
                "operation needs the result of the previous one: with one warp, the time is the "
                "latency of an operation; with 32 warps in a block, it is the time between two "
                "operations of a multiprocessor.",
            .expectation =
                "Expect the primitives to be faster: a step of a tree in shared memory is a store, "
                "a barrier of the warp and a load, each after the other, and a step of shuffles is "
                "one instruction. A sum of n lanes has log2(n) steps, and one more to tell all "
                "lanes after shuffles down: expect the same time for each further step. Expect the "
                "votes of any and all to take the same time. Expect the match to gain much, since "
                "it reads 32 words of shared memory. Expect tiles to be slower than shuffles with "
                "a full mask, and the slower the smaller they are: the mask of a tile is a "
                "variable, and the compiler's code handles the different masks of a warp one after "
                "the other. A coalesced group, too, first finds its lanes; with one warp, the "
                "atomic additions to shared memory are faster.",
            .pitfalls =
                "The mask of a primitive must be known before a branch: __activemask() in a branch "
                "may return only a part of the lanes that enter it. This holds for a coalesced "
                "group, too; the sum is right because each part adds its own sum. Tiles of 32 "
                "lanes are left out: they compile to the code of the shuffles, or of redux.",
        },
    .read_on = {{Guide::programming, "Warp Shuffle Functions"},
                {Guide::programming, "Warp Vote Functions"},
                {Guide::programming, "Warp Match Functions"},
                {Guide::programming, "Warp Reduce Functions"},
                {Guide::programming, "Cooperative Groups"}},
    .reference =
        "Tesla V100, a reduction of 2^24 floats: 0.264 ms with cooperative groups, 0.263 with "
        "unrolled shuffles.",
    .share = "of the speed of the same operation through shared memory",
    .expected = time_of_exchange,
    .exercise = {.task = "Predict the time in ns with one warp of the sums of 16 and 32 lanes by "
                         "shuffles xor, and of 32 by shuffles down, if sums of 4 take 36 ns and "
                         "sums of 8 take 51 ns.",
                 .rows = {{{"case", "sums of 16, shuffles xor"}, {"warps", "1"}},
                          {{"case", "sum of 32, shuffles xor"}, {"warps", "1"}},
                          {{"case", "sum of 32, shuffles down"}, {"warps", "1"}}}},
    .figure = {.look = Look::bars,
               .x = "case",
               .y = "time",
               .panel = "warps",
               .log_y = true,
               .more_is_better = false},
    .run = with_cuda<warp>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

namespace cg = cooperative_groups;

constexpr unsigned lanes = shardstream::experiments::warp;
constexpr unsigned max_warps = 32;  // of a block
constexpr unsigned repetitions = 2048;
constexpr unsigned all_lanes = 0xffffffffU;

// ------------------------------------------------------------ the same on the host and the GPU

/// The value of thread t before the first operation.
constexpr unsigned first_value(unsigned t) {
  return static_cast<unsigned>(unit_number(t) * 0x1p24F);
}
/// The value of a lane after an operation: a step of a generator of random numbers (Numerical
/// Recipes), so that the lanes keep different values.
constexpr unsigned next_value(unsigned value, unsigned result) {
  return (value + result) * 1664525 + 1013904223;
}
/// Whether the lane enters the branch, and how it votes in a ballot.
constexpr bool takes_part(unsigned value) {
  return (value >> 16 & 1) != 0;
}
/// True in one of 32 lanes on average, so that a vote of 32 lanes may have either result.
constexpr bool is_rare(unsigned value) {
  return (value >> 16 & 31) == 0;
}
/// The value that lanes compare in a match.
constexpr unsigned key_of(unsigned value) {
  return value >> 16 & 7;
}

// ------------------------------------------------------------------------------ the operations

// `of` gives the result of a lane from its value. `words` are 32 words of the warp in shared
// memory. An operation that reads there ends with a barrier, since the next one writes.

template <unsigned Width>
struct SharedSum {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    words[lane] = value;
#pragma unroll
    for (unsigned half = Width / 2; half > 0; half /= 2) {
      __syncwarp();
      if (lane % Width < half) words[lane] += words[lane + half];
    }
    __syncwarp();
    const unsigned sum = words[lane / Width * Width];
    __syncwarp();
    return sum;
  }
};

struct DownSum {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
#pragma unroll
    for (unsigned half = lanes / 2; half > 0; half /= 2) {
      value += __shfl_down_sync(all_lanes, value, half);
    }
    return __shfl_sync(all_lanes, value, 0);
  }
};

template <unsigned Width>
struct XorSum {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
#pragma unroll
    for (unsigned half = Width / 2; half > 0; half /= 2) {
      value += __shfl_xor_sync(all_lanes, value, half);
    }
    return value;
  }
};

struct ReduxSum {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
#if __CUDA_ARCH__ >= 800
    value = __reduce_add_sync(all_lanes, value);
#endif
    return value;
  }
};

template <unsigned Width>
struct TileSum {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
    const auto tile = cg::tiled_partition<Width>(cg::this_thread_block());
#pragma unroll
    for (unsigned half = Width / 2; half > 0; half /= 2) value += tile.shfl_xor(value, half);
    return value;
  }
};

struct SharedNext {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    words[lane] = value;
    __syncwarp();
    const unsigned next = words[(lane + 1) % lanes];
    __syncwarp();
    return next;
  }
};

struct ShuffledNext {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned lane) {
    return __shfl_sync(all_lanes, value, static_cast<int>((lane + 1) % lanes));
  }
};

/// Lanes combine `begin` and the contributions that `combine` adds to the first word.
template <class Combine>
__device__ unsigned in_first_word(unsigned begin, unsigned* words, unsigned lane, Combine combine) {
  if (lane == 0) words[0] = begin;
  __syncwarp();
  combine();
  __syncwarp();
  const unsigned result = words[0];
  __syncwarp();
  return result;
}

struct SharedBranchSum {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    return in_first_word(0, words, lane, [&] {
      if (takes_part(value)) atomicAdd(&words[0], value);
    });
  }
};

struct GroupBranchSum {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    return in_first_word(0, words, lane, [&] {
      if (!takes_part(value)) return;
      const cg::coalesced_group group = cg::coalesced_threads();
      const unsigned sum = cg::reduce(group, value, cg::plus<unsigned>());
      if (group.thread_rank() == 0) atomicAdd(&words[0], sum);
    });
  }
};

struct SharedAny {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    return in_first_word(0, words, lane, [&] {
      if (is_rare(value)) words[0] = 1;
    });
  }
};

struct VotedAny {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
    return __any_sync(all_lanes, is_rare(value)) != 0 ? 1 : 0;
  }
};

struct SharedAll {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    return in_first_word(1, words, lane, [&] {
      if (is_rare(value)) words[0] = 0;
    });
  }
};

struct VotedAll {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
    return __all_sync(all_lanes, !is_rare(value)) != 0 ? 1 : 0;
  }
};

struct SharedBallot {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    return in_first_word(0, words, lane, [&] {
      if (takes_part(value)) atomicOr(&words[0], 1U << lane);
    });
  }
};

struct Ballot {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
    return __ballot_sync(all_lanes, takes_part(value));
  }
};

struct SharedMatch {
  static __device__ unsigned of(unsigned value, unsigned* words, unsigned lane) {
    words[lane] = key_of(value);
    __syncwarp();
    unsigned peers = 0;
#pragma unroll
    for (unsigned k = 0; k < lanes; ++k) {
      peers |= static_cast<unsigned>(words[k] == key_of(value)) << k;
    }
    __syncwarp();
    return peers;
  }
};

struct Match {
  static __device__ unsigned of(unsigned value, unsigned*, unsigned) {
    return __match_any_sync(all_lanes, key_of(value));
  }
};

/// Repeats an operation. Each one needs the result of the previous one.
template <class Operation>
__global__ void __launch_bounds__(max_warps* lanes) repeat(unsigned* values) {
  __shared__ unsigned memory[max_warps][lanes];
  const unsigned lane = threadIdx.x % lanes;
  unsigned value = first_value(threadIdx.x);
#pragma unroll 1
  for (unsigned r = 0; r < repetitions; ++r) {
    value = next_value(value, Operation::of(value, memory[threadIdx.x / lanes], lane));
  }
  values[threadIdx.x] = value;
}

// ---------------------------------------------------------------------------- the same on a host

using Lanes = std::array<unsigned, lanes>;

template <unsigned Width>
Lanes sums(const Lanes& values) {
  Lanes results{};
  for (unsigned l = 0; l < lanes; ++l) {
    for (unsigned k = 0; k < Width; ++k) results[l] += values[l / Width * Width + k];
  }
  return results;
}

Lanes nexts(const Lanes& values) {
  Lanes results{};
  for (unsigned l = 0; l < lanes; ++l) results[l] = values[(l + 1) % lanes];
  return results;
}

/// All lanes have the same result.
Lanes all_with(unsigned result) {
  Lanes results{};
  results.fill(result);
  return results;
}

Lanes branch_sums(const Lanes& values) {
  unsigned sum = 0;
  for (const unsigned value : values) sum += takes_part(value) ? value : 0;
  return all_with(sum);
}

Lanes anys(const Lanes& values) {
  return all_with(std::ranges::any_of(values, is_rare) ? 1 : 0);
}

Lanes alls(const Lanes& values) {
  return all_with(std::ranges::any_of(values, is_rare) ? 0 : 1);
}

Lanes ballots(const Lanes& values) {
  unsigned votes = 0;
  for (unsigned l = 0; l < lanes; ++l) votes |= static_cast<unsigned>(takes_part(values[l])) << l;
  return all_with(votes);
}

Lanes matches(const Lanes& values) {
  Lanes results{};
  for (unsigned l = 0; l < lanes; ++l) {
    for (unsigned k = 0; k < lanes; ++k) {
      results[l] |= static_cast<unsigned>(key_of(values[k]) == key_of(values[l])) << k;
    }
  }
  return results;
}

using Reference = Lanes (*)(const Lanes&);

/// The values of all threads of a block after all operations.
std::vector<unsigned> expected(Reference operation) {
  std::vector<unsigned> all;
  for (unsigned w = 0; w < max_warps; ++w) {
    Lanes values{};
    for (unsigned l = 0; l < lanes; ++l) values[l] = first_value(w * lanes + l);
    for (unsigned r = 0; r < repetitions; ++r) {
      const Lanes results = operation(values);
      for (unsigned l = 0; l < lanes; ++l) values[l] = next_value(values[l], results[l]);
    }
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// ------------------------------------------------------------------------------ the experiment

/// A way to do an operation.
struct NamedKernel {
  const char* name;
  void (*kernel)(unsigned* values);
};

/// An operation through shared memory, and other ways to do it.
struct Task {
  const char* name;
  Reference reference;
  double additions;  ///< or other operations of two values, of a warp
  void (*through_shared)(unsigned* values);
  std::vector<NamedKernel> ways;
};

template <unsigned Width>
std::vector<NamedKernel> in_groups_of() {
  return {{"shuffles xor", repeat<XorSum<Width>>}, {"tile", repeat<TileSum<Width>>}};
}

std::vector<Task> tasks(bool has_redux) {
  std::vector<NamedKernel> of_warp = {{"shuffles down", repeat<DownSum>},
                                      {"shuffles xor", repeat<XorSum<32>>}};
  if (has_redux) of_warp.push_back({"redux", repeat<ReduxSum>});
  return {
      {"sum of 32", sums<32>, 31, repeat<SharedSum<32>>, of_warp},
      {"sums of 16", sums<16>, 30, repeat<SharedSum<16>>, in_groups_of<16>()},
      {"sums of 8", sums<8>, 28, repeat<SharedSum<8>>, in_groups_of<8>()},
      {"sums of 4", sums<4>, 24, repeat<SharedSum<4>>, in_groups_of<4>()},
      {"sum in a branch",
       branch_sums,
       31,
       repeat<SharedBranchSum>,
       {{"coalesced group", repeat<GroupBranchSum>}}},
      {"next lane", nexts, 0, repeat<SharedNext>, {{"shuffle", repeat<ShuffledNext>}}},
      {"any", anys, 31, repeat<SharedAny>, {{"vote", repeat<VotedAny>}}},
      {"all", alls, 31, repeat<SharedAll>, {{"vote", repeat<VotedAll>}}},
      {"ballot", ballots, 31, repeat<SharedBallot>, {{"vote", repeat<Ballot>}}},
      {"match", matches, 31 * 32, repeat<SharedMatch>, {{"match", repeat<Match>}}},
  };
}

void add(Bench& bench, Gpu& gpu, Measurements& rows, const Task& task) {
  const std::vector<unsigned> right = expected(task.reference);
  const DeviceArray<unsigned> values(right.size());
  std::vector<NamedKernel> ways = task.ways;
  ways.insert(ways.begin(), {"shared", task.through_shared});
  for (const unsigned warps : {1U, max_warps}) {
    double through_shared = 0;  // ns
    for (const auto& [name, kernel] : ways) {
      const std::string title = formatted("{}, {}", std::string(task.name), std::string(name));
      const auto launch = [&] {
        kernel<<<1, warps * lanes, 0, gpu.stream()>>>(values.data());
        check_launch(name);
      };
      values.clear(gpu.stream());
      launch();
      const std::vector<unsigned> made = values.read(0, warps * lanes);
      bench.verify(std::ranges::equal(made, std::span(right).first(made.size())), title);
      const double operations = double{repetitions} * warps;
      const Measured time = gpu.time(launch).seconds.times(1e9 / operations);
      if (through_shared == 0) through_shared = time.value;
      const double factor = through_shared / time.value;
      rows.add({title, std::int64_t{warps}}, time, factor,
               kernel == task.through_shared
                   ? "through shared memory"
                   : ratio_text(factor) + " times as fast as through shared memory",
               {operations * task.additions, 4.0 * warps * lanes}, time.value * 1e-9 * operations);
    }
  }
}

}  // namespace

Table warp(Bench& bench) {
  Gpu gpu(bench);
  const bool has_redux = gpu.properties().major >= 8;
  Measurements rows({{"case", ColumnType::text}, {"warps", ColumnType::integer}},
                    {"time", ColumnType::real, "ns"}, Rows::of_kernels);
  for (const Task& task : tasks(has_redux)) add(bench, gpu, rows, task);
  if (!has_redux) {
    bench.note("redux is not measured: it needs a GPU of compute capability 8.0 or newer.");
  }
  bench.note(
      "A time is that of one operation of a warp, with an addition and a multiplication that "
      "prepare the next one.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
