// Additions to one word happen one after the other, so a kernel adds in registers or in shared
// memory first, and ends with few atomics in global memory.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/context.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/ladders/words_of_cluster.cuh"
#include "experiments/launch_attributes.cuh"
#include "experiments/warp_size.hpp"

namespace shardstream::experiments::ladders {

constexpr OptionRow options[] = {
    {"atomics.size", OptionKind::size, "64MiB", "1MiB..",
     "Size of the data of the case `bytes`. The default with --quick is 16MiB."},
};

Table atomics(Bench& bench);

namespace {

/// The expected number of different counters in a warp.
double different_in_warp(std::uint64_t addresses) {
  const auto all = static_cast<double>(addresses);
  return all * (1 - std::pow(1 - 1 / all, double{warp}));
}

/// The rate in Gop/s, from the bound and from the ways with which the explanation compares.
double expected_rate(const MeasuredRow& row) {
  const std::string way = row.text("way");
  const double addresses = row["addresses"];
  const bool has_few = addresses <= warp;
  const auto of_counters = [&](std::string_view name) {
    return row.measured({{"case", "counters"}, {"way", name}}, {"addresses"});
  };
  if (way == "aggregated" && row.text("case") == "counters") {
    return of_counters("global") * warp / different_in_warp(static_cast<std::uint64_t>(addresses));
  }
  if (way == "global" || way == "system scope" || (way == "floats" && !has_few)) {
    return of_counters("global");
  }
  if (way == "of clusters") return of_counters("clusters");
  const bool is_of_block = way == "shared" || way == "of blocks" || way == "of warps";
  return is_of_block && has_few ? row["bound"] : std::nan("");
}

}  // namespace

extern const Experiment about_atomics = {
    .name = "atomics",
    .group = "ladders",
    .summary = "Atomic additions to few addresses are slow: add in the block first.",
    .explanation =
        {
            .question =
                "When are atomic additions fast enough, and when should a block add up first?",
            .varies =
                "The case `counters` adds one to a random counter, some 2^24 times. `global` is an "
                "atomic addition in device memory for each one, `floats` the same in float. "
                "`system scope` is atomic for the host and other GPUs as well. `aggregated` finds "
                "the lanes of a warp with the same counter (__match_any_sync); one of them adds "
                "for all. `shared` counts in shared memory; at the end each block adds its "
                "counters to those in device memory. `clusters` divides the counters among the "
                "shared memory of four blocks (compute capability 9.0), which holds more of them. "
                "`mapped` adds with system scope in mapped host memory, over the link. The case "
                "`bytes` is a histogram of bytes in 256 bins; the number of different bytes in the "
                "data varies. Its bins are in device memory, or each block or each warp has its "
                "own in shared memory, or the blocks of a cluster divide them; `aggregated` finds "
                "equal bytes of a warp before it adds to the bins of its block. The bound of both "
                "cases is a kernel that computes or reads the same counters or bytes, but adds "
                "them up in registers and has one atomic for each block.",
            .expectation =
                "Expect one counter in device memory to be far below the bound, and the rate to "
                "grow with the number of cache lines that hold the counters: one part of the L2 "
                "cache does all additions to a line. Between 16 and 256 counters, which lie in one "
                "to eight lines, the rate may fall instead: the additions of a warp to the same "
                "sector are one request, and with more counters a warp has more of them. Expect "
                "aggregation to help if the lanes of a warp share counters, so below 32 of them: a "
                "warp then adds once for each different counter, and its 32 lanes draw n (1 - (1 - "
                "1 / n)^32) different ones of n on average. The L2 cache does the additions with "
                "system scope and, with more than 32 counters, those of floats at the rate of "
                "`global`. Expect `shared` to come near the bound with one counter, since one "
                "instruction adds one for all lanes with the same counter (ATOMS.POPC.INC), and to "
                "be slower with many: lanes with different counters in the same bank take turns, "
                "which does not happen up to 32 counters, one in a bank. Histograms of bytes show "
                "the same: data of one value are counted faster than data of 256 values. Expect "
                "`clusters` to be slower than `shared`, since three of four additions go to "
                "another block. With counters that do not fit in one block, expect it to be faster "
                "than `global`, unless each counter gets so few additions that the last ones, to "
                "device memory, weigh as much.",
            .pitfalls =
                "If drawing a random counter takes more instructions than counting it, all ways "
                "seem equally fast: a generator with three instructions keeps the bound far away. "
                "Atomics on mapped memory are atomic for all threads of the GPU. For the host they "
                "are not, unless the link has native atomics: the host and a kernel add to one "
                "word at the same time, and a note counts the lost ones. The blocks of a cluster "
                "must wait for each other before they add to each other's counters, and before "
                "they read their own.",
        },
    .read_on = {{Guide::programming, "Atomic Functions"},
                {Guide::programming, "Mapped Memory"},
                {Guide::programming, "Distributed Shared Memory"}},
    .reference =
        "Tesla V100, 2^24 floats: 39 ms with an atomic addition for each float, all to one word "
        "(0.43 Gop/s); 0.259 ms with one for each block (65 Gop/s).",
    .share = "of the rate with one atomic for each block (bound)",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in Gop/s of `global`, `aggregated` and `shared` with "
                         "one counter, if the L2 cache adds to a word once in a nanosecond and "
                         "the bound is 3000 Gop/s.",
                 .rows = {{{"way", "global"}, {"addresses", "1"}},
                          {{"way", "aggregated"}, {"addresses", "1"}},
                          {{"way", "shared"}, {"addresses", "1"}}}},
    .figure = {.look = Look::lines,
               .x = "addresses",
               .y = "rate",
               .series = "way",
               .panel = "case",
               .reference_lines = {"bound"},
               .log_x = true,
               .log_y = true},
    .run = with_cuda<atomics>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned threads = 1024, warps = threads / warp;
constexpr unsigned all_lanes = 0xffffffffU;
constexpr unsigned max_addresses = 1U << 20;
constexpr unsigned max_in_shared = 1U << 13;  // counters of a block, 32 KiB
constexpr unsigned max_mapped = 1U << 12;
constexpr unsigned max_in_cluster = 1U << 16;  // counters, 256 KiB: more than a block can have
constexpr unsigned bins = 256;

/// The random counters of a thread, by a linear congruential generator (Numerical Recipes). Drawing
/// one takes three instructions: with more of them, these would be the limit of the rate.
class Draws {
 public:
  /// The states of neighbouring threads are far apart (Mueller's hash of 32 bits, by Wellons).
  __host__ __device__ explicit Draws(unsigned thread) : state_(thread) {
    state_ = (state_ ^ state_ >> 16) * 0x7feb352dU;
    state_ = (state_ ^ state_ >> 15) * 0x846ca68bU;
    state_ ^= state_ >> 16;
  }
  /// The next counter among `addresses` ones, a power of two of up to max_addresses.
  __host__ __device__ unsigned next(unsigned addresses) {
    state_ = state_ * 1664525U + 1013904223U;
    return state_ >> 12 & (addresses - 1);  // the low bits of such a generator are regular
  }

 private:
  unsigned state_;
};
static_assert(max_addresses <= 1U << (32 - 12));

// ------------------------------------------------------------------------------------- counters

enum class AtomicKind { plain, system, aggregated };

/// Adds one to counter `a`. All lanes of the warp take part.
template <AtomicKind How, class T>
__device__ void add_one(T* counters, unsigned a) {
  if constexpr (How == AtomicKind::system) {
    atomicAdd_system(&counters[a], T{1});
  } else if constexpr (How == AtomicKind::aggregated) {
    const unsigned peers = __match_any_sync(all_lanes, a);
    const auto first = static_cast<unsigned>(__ffs(static_cast<int>(peers)) - 1);
    if (threadIdx.x % warp == first) atomicAdd(&counters[a], static_cast<T>(__popc(peers)));
  } else {
    atomicAdd(&counters[a], T{1});
  }
}

/// Each thread adds one to `draws` counters.
template <AtomicKind How, class T>
__global__ void __launch_bounds__(threads) count(T* counters, unsigned draws, unsigned addresses) {
  Draws random(blockIdx.x * threads + threadIdx.x);
#pragma unroll 4
  for (unsigned d = 0; d < draws; ++d) add_one<How>(counters, random.next(addresses));
}

/// The dynamic shared memory has `addresses` words.
__global__ void __launch_bounds__(threads)
    count_in_shared(unsigned* counters, unsigned draws, unsigned addresses) {
  extern __shared__ unsigned of_block[];
  for (unsigned a = threadIdx.x; a < addresses; a += threads) of_block[a] = 0;
  __syncthreads();
  Draws random(blockIdx.x * threads + threadIdx.x);
#pragma unroll 4
  for (unsigned d = 0; d < draws; ++d) atomicAdd(&of_block[random.next(addresses)], 1);
  __syncthreads();
  for (unsigned a = threadIdx.x; a < addresses; a += threads) {
    if (of_block[a] != 0) atomicAdd(&counters[a], of_block[a]);
  }
}

/// The dynamic shared memory has words_each(addresses) words. Each addition goes to the block of
/// the cluster that has the counter.
__global__ void __launch_bounds__(threads)
    count_in_clusters(unsigned* counters, unsigned draws, unsigned addresses) {
  extern __shared__ unsigned of_block[];
  const WordsOfCluster words(of_block, addresses);
  Draws random(blockIdx.x * threads + threadIdx.x);
#pragma unroll 4
  for (unsigned d = 0; d < draws; ++d) words.add_one(random.next(addresses));
  words.add_to(counters);
}

using Sum = unsigned long long;  // the type of atomics of 64 bits

/// Adds the sum of `mine` over the block to `sum`, with one atomic.
__device__ void add_block(Sum mine, Sum* sum) {
  __shared__ Sum of_warps[warps];
  for (unsigned half = warp / 2; half > 0; half /= 2) {
    mine += __shfl_down_sync(all_lanes, mine, half);
  }
  if (threadIdx.x % warp == 0) of_warps[threadIdx.x / warp] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (unsigned w = 1; w < warps; ++w) mine += of_warps[w];
  atomicAdd(sum, mine);
}

constexpr unsigned max_in_bound = 1U << 10;  // so that the sum of a thread fits in 32 bits

/// The bound of `counters`: the sum of the numbers of max_in_bound counters.
__global__ void __launch_bounds__(threads) add_counters(Sum* sum, unsigned draws) {
  Draws random(blockIdx.x * threads + threadIdx.x);
  unsigned mine = 0;
#pragma unroll 4
  for (unsigned d = 0; d < draws; ++d) mine += random.next(max_in_bound);
  add_block(mine, sum);
}

// ------------------------------------------------------------------------------------ histogram

constexpr std::uint64_t period = 1U << 20;  // of the data, in bytes

/// Byte i of the data, one of `values`, a power of two.
constexpr unsigned byte_at(std::uint64_t i, unsigned values) {
  return static_cast<unsigned>(unit_number(i % period) * 0x1p24F) & (values - 1);
}

/// Sets the bytes of `words`, which have four bytes each.
__global__ void fill_bytes(unsigned* data, std::uint64_t words, unsigned values) {
  const std::uint64_t word = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (word >= words) return;
  unsigned bytes = 0;
  for (unsigned k = 0; k < 4; ++k) {
    bytes |= byte_at(word * 4 + k, values) << (8 * k);
  }
  data[word] = bytes;
}

/// Calls `add` for each byte of the words that this thread reads.
template <class Add>
__device__ void for_each_byte(const uint4* data, std::uint64_t words, Add add) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < words;
       i += std::uint64_t{gridDim.x} * threads) {
    const uint4 word = data[i];
    for (const unsigned bytes : {word.x, word.y, word.z, word.w}) {
#pragma unroll
      for (unsigned k = 0; k < 4; ++k) add(bytes >> (8 * k) & 0xffU);
    }
  }
}

enum class Bins { global, of_block, of_warps, aggregated };

/// `words` is a multiple of 32.
template <Bins Where>
__global__ void __launch_bounds__(threads)
    count_bytes(const uint4* data, std::uint64_t words, unsigned* counters) {
  constexpr unsigned copies = Where == Bins::of_warps ? warps : 1;
  __shared__ unsigned of_block[copies][bins];
  for (unsigned b = threadIdx.x; b < copies * bins; b += threads) of_block[b / bins][b % bins] = 0;
  __syncthreads();
  unsigned* const mine = Where == Bins::global ? counters : of_block[threadIdx.x / warp % copies];
  for_each_byte(data, words, [mine](unsigned byte) {
    add_one<Where == Bins::aggregated ? AtomicKind::aggregated : AtomicKind::plain>(mine, byte);
  });
  if constexpr (Where == Bins::global) return;
  __syncthreads();
  for (unsigned b = threadIdx.x; b < bins; b += threads) {
    unsigned sum = 0;
    for (unsigned copy = 0; copy < copies; ++copy) sum += of_block[copy][b];
    if (sum != 0) atomicAdd(&counters[b], sum);
  }
}

/// The bins are divided among the blocks of a cluster.
__global__ void __launch_bounds__(threads)
    count_bytes_in_clusters(const uint4* data, std::uint64_t words, unsigned* counters) {
  __shared__ unsigned of_block[WordsOfCluster::words_each(bins)];
  const WordsOfCluster of_cluster(of_block, bins);
  for_each_byte(data, words, [&](unsigned byte) { of_cluster.add_one(byte); });
  of_cluster.add_to(counters);
}

/// The bound of `bytes`: the sum of all bytes.
__global__ void __launch_bounds__(threads)
    add_bytes(const uint4* data, std::uint64_t words, Sum* sum) {
  constexpr unsigned ones = 0x01010101U;  // dp4a adds the four bytes of a word
  Sum mine = 0;
  for (std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x; i < words;
       i += std::uint64_t{gridDim.x} * threads) {
    const uint4 word = data[i];
    mine +=
        __dp4a(word.x, ones, __dp4a(word.y, ones, __dp4a(word.z, ones, __dp4a(word.w, ones, 0U))));
  }
  add_block(mine, sum);
}

// ------------------------------------------------------------------------------- the experiment

using Counts = std::vector<std::uint64_t>;

/// How often `all` threads draw each of max_addresses counters.
Counts counts_of_draws(unsigned all, unsigned draws) {
  Counts counts(max_addresses);
  for (unsigned thread = 0; thread < all; ++thread) {
    Draws random(thread);
    for (unsigned d = 0; d < draws; ++d) ++counts[random.next(max_addresses)];
  }
  return counts;
}

/// How often each byte appears in a period of the data.
Counts counts_of_bytes() {
  Counts counts(bins);
  for (std::uint64_t i = 0; i < period; ++i) ++counts[byte_at(i, bins)];
  return counts;
}

/// The same for `addresses` counters: the low bits of the number decide.
Counts folded(const Counts& counts, std::uint64_t addresses) {
  Counts sums(addresses);
  for (std::size_t a = 0; a < counts.size(); ++a) sums[a % addresses] += counts[a];
  return sums;
}

Sum sum_of_numbers(const Counts& counts) {
  Sum sum = 0;
  for (std::size_t a = 0; a < counts.size(); ++a) sum += a * counts[a];
  return sum;
}

/// Measures the kernels of one case and adds their rows. Not thread-safe.
class Ways {
 public:
  Ways(Bench& bench, Gpu& gpu, Measurements& rows, const char* name)
      : bench_(bench), gpu_(gpu), rows_(rows), name_(name) {}

  /// `launch` adds `expected` to a sum that is zero, with one atomic per block.
  void bound(std::uint64_t operations, Sum expected, const std::function<void(Sum*)>& launch) {
    const DeviceArray<Sum> sum(1);
    sum.clear(gpu_.stream());
    launch(sum.data());
    bench_.verify(sum.read()[0] == expected, formatted("{}: the bound", std::string(name_)));
    bound_ = gpu_.time([&] { launch(sum.data()); }).rate(static_cast<double>(operations)).value;
  }

  /// Verifies one call of `launch` by `is_right` and measures it. `bytes` of global memory.
  void add(const std::string& way, std::uint64_t addresses, double operations, double bytes,
           const std::function<void()>& launch, const std::function<bool()>& is_right) {
    launch();
    gpu_.synchronize();
    bench_.verify(is_right(),
                  formatted("{}, {}, {} addresses", std::string(name_), way, addresses));
    const Timing timing = gpu_.time(launch);
    const Measured rate = timing.rate(operations);
    if (way == "global") global_[addresses] = rate.value;
    rows_.add({name_, way, static_cast<std::int64_t>(addresses), bound_}, rate, rate.value / bound_,
              remark(way, addresses, rate.value), {operations, bytes},
              way == "mapped" ? std::numeric_limits<double>::quiet_NaN() : timing.seconds.value);
  }

 private:
  std::string remark(const std::string& way, std::uint64_t addresses, double rate) const {
    if (way != "global") {
      return ratio_text(rate / global_.at(addresses)) + " times the rate of global atomics";
    }
    return addresses == 1 ? "all additions go to one word"
                          : ratio_text(rate / global_.at(1)) + " times the rate of one address";
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  const char* name_;
  double bound_ = 0;                        ///< Gop/s
  std::map<std::uint64_t, double> global_;  ///< Gop/s of global atomics, by addresses
};

template <class T>
bool are_equal(const std::vector<T>& counters, const Counts& expected) {
  for (std::size_t a = 0; a < expected.size(); ++a) {
    if (static_cast<double>(counters[a]) != static_cast<double>(expected[a])) return false;
  }
  return true;
}

/// Two blocks on each multiprocessor, in whole clusters.
unsigned blocks_of(const Gpu& gpu) {
  const auto fit = 2 * static_cast<unsigned>(gpu.properties().multiProcessorCount);
  return std::max(fit / WordsOfCluster::blocks, 1U) * WordsOfCluster::blocks;
}

/// A launch of `blocks` blocks in clusters.
AttributedLaunch in_clusters(unsigned blocks, cudaStream_t stream, std::size_t shared = 0) {
  return {blocks, threads, stream, in_clusters_of(WordsOfCluster::blocks), shared};
}

/// Permits count_in_clusters() as much shared memory as max_in_cluster counters need. A note says
/// if not all clusters of a launch fit on the GPU at the same time.
void prepare_clusters(Bench& bench, Gpu& gpu) {
  constexpr std::size_t bytes = WordsOfCluster::words_each(max_in_cluster) * sizeof(unsigned);
  check(cudaFuncSetAttribute(count_in_clusters, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
  const unsigned blocks = blocks_of(gpu);
  const unsigned fit =
      in_clusters(blocks, gpu.stream(), bytes).resident_clusters(count_in_clusters);
  if (fit >= blocks / WordsOfCluster::blocks) return;
  bench.note(formatted(
      "Only {} of the {} clusters of a launch fit on this GPU at the same time with {} counters.",
      fit, blocks / WordsOfCluster::blocks, max_in_cluster));
}

/// Measures about `operations` additions in device memory, which is as large for all kernels. A
/// counter of floats counts exactly up to 2^24.
void add_counters(Ways& ways, Gpu& gpu, std::uint64_t operations, std::uint64_t factor) {
  const unsigned blocks = blocks_of(gpu), all = blocks * threads;
  const auto draws = static_cast<unsigned>(std::max<std::uint64_t>(1, operations / all));
  const Counts counts = counts_of_draws(all, draws);
  const double count_of = 1.0 * all * draws;
  ways.bound(std::uint64_t{all} * draws, sum_of_numbers(folded(counts, max_in_bound)),
             [&](Sum* sum) {
               add_counters<<<blocks, threads, 0, gpu.stream()>>>(sum, draws);
               check_launch("add_counters");
             });
  const DeviceArray<unsigned> counters(max_addresses);
  const DeviceArray<float> floats(max_addresses);
  for (const std::uint64_t addresses : sizes_up_to(1, max_addresses, factor)) {
    const Counts expected = folded(counts, addresses);
    const auto some = static_cast<unsigned>(addresses);
    const auto add = [&](const char* way, double atomics, const auto& words, auto kernel,
                         std::size_t shared = 0) {
      words.clear(gpu.stream());
      ways.add(
          way, addresses, count_of, 8 * atomics,
          [&] {
            kernel<<<blocks, threads, shared, gpu.stream()>>>(words.data(), draws, some);
            check_launch(way);
          },
          [&] { return are_equal(words.read(0, addresses), expected); });
    };
    add("global", count_of, counters, count<AtomicKind::plain, unsigned>);
    add("floats", count_of, floats, count<AtomicKind::plain, float>);
    add("system scope", count_of, counters, count<AtomicKind::system, unsigned>);
    add("aggregated", count_of / warp * different_in_warp(addresses), counters,
        count<AtomicKind::aggregated, unsigned>);
    if (addresses <= max_in_shared) {
      add("shared", static_cast<double>(addresses) * blocks, counters, count_in_shared,
          addresses * sizeof(unsigned));
    }
    if (has_launch_attributes(gpu.properties()) && addresses <= max_in_cluster) {
      const AttributedLaunch launch =
          in_clusters(blocks, gpu.stream(), WordsOfCluster::words_each(some) * sizeof(unsigned));
      counters.clear(gpu.stream());
      ways.add(
          "clusters", addresses, count_of, 8.0 * some * (blocks / WordsOfCluster::blocks),
          [&] { launch(count_in_clusters, counters.data(), draws, some); },
          [&] { return are_equal(counters.read(0, addresses), expected); });
    }
  }
}

/// Measures counters in mapped host memory, with one draw for each thread of `blocks` blocks.
void add_mapped(Ways& ways, Gpu& gpu, unsigned blocks, std::uint64_t factor) {
  const Counts counts = counts_of_draws(blocks * threads, 1);
  const double operations = 1.0 * blocks * threads;
  const PinnedArray<unsigned> counters(max_mapped, cudaHostAllocMapped);
  for (std::uint64_t addresses = 1; addresses <= max_mapped; addresses *= factor) {
    std::fill_n(counters.data(), max_mapped, 0U);
    ways.add(
        "mapped", addresses, operations, 8 * operations,
        [&] {
          count<AtomicKind::system, unsigned><<<blocks, threads, 0, gpu.stream()>>>(
              counters.data(), 1, static_cast<unsigned>(addresses));
          check_launch("count in mapped memory");
        },
        [&] {
          return are_equal(std::vector<unsigned>(counters.data(), counters.data() + addresses),
                           folded(counts, addresses));
        });
  }
}

/// Measures histograms of `size` bytes, a multiple of the period.
void add_histograms(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t size) {
  const unsigned blocks = blocks_of(gpu);
  const DeviceArray<uint4> data(size / sizeof(uint4));
  const DeviceArray<unsigned> counters(bins);
  const Counts once = counts_of_bytes();
  const AttributedLaunch clusters = in_clusters(blocks, gpu.stream());
  Ways ways(bench, gpu, rows, "bytes");
  for (const std::uint64_t values : sizes_up_to(1, bins, 16)) {
    fill_bytes<<<blocks_for(size / 4, threads), threads, 0, gpu.stream()>>>(
        reinterpret_cast<unsigned*>(data.data()), size / 4, static_cast<unsigned>(values));
    check_launch("fill_bytes");
    Counts expected = folded(once, values);
    for (std::uint64_t& each : expected) each *= size / period;
    ways.bound(size, sum_of_numbers(expected), [&](Sum* sum) {
      add_bytes<<<blocks, threads, 0, gpu.stream()>>>(data.data(), data.size(), sum);
      check_launch("add_bytes");
    });
    const auto add_launch = [&](const char* way, double atomics,
                                const std::function<void()>& launch) {
      counters.clear(gpu.stream());
      const auto bytes = static_cast<double>(size);
      ways.add(way, values, bytes, bytes + 8 * atomics, launch,
               [&] { return are_equal(counters.read(0, values), expected); });
    };
    const auto add = [&](const char* way, double atomics, auto kernel) {
      add_launch(way, atomics, [&, kernel] {
        kernel<<<blocks, threads, 0, gpu.stream()>>>(data.data(), data.size(), counters.data());
        check_launch(way);
      });
    };
    const double of_blocks = static_cast<double>(values) * blocks;
    add("global", static_cast<double>(size), count_bytes<Bins::global>);
    add("of blocks", of_blocks, count_bytes<Bins::of_block>);
    add("of warps", of_blocks, count_bytes<Bins::of_warps>);
    add("aggregated", of_blocks, count_bytes<Bins::aggregated>);
    if (!has_launch_attributes(gpu.properties())) continue;
    add_launch("of clusters", of_blocks / WordsOfCluster::blocks, [&] {
      clusters(count_bytes_in_clusters, data.data(), data.size(), counters.data());
    });
  }
}

/// One warp adds `each` times one per lane.
__global__ void add_to_word(unsigned* word, unsigned each) {
  for (unsigned r = 0; r < each; ++r) atomicAdd_system(word, 1);
}

/// The host and a kernel add to one word of mapped memory at the same time. A note says how many
/// additions were lost.
void note_lost_additions(Bench& bench, Gpu& gpu) {
  constexpr unsigned each = 4096;
  const PinnedArray<unsigned> word(1, cudaHostAllocMapped);
  word[0] = 0;
  const std::atomic_ref<unsigned> of_host(word[0]);
  add_to_word<<<1, warp, 0, gpu.stream()>>>(word.data(), each);
  check_launch("add_to_word");
  unsigned added = each * warp;
  while (cudaStreamQuery(gpu.stream()) == cudaErrorNotReady) {
    (void)cudaGetLastError();  // clears "not ready"
    for (unsigned i = 0; i < 16; ++i) of_host.fetch_add(1);
    added += 16;
  }
  gpu.synchronize();
  int is_native = 0;
  check(cudaDeviceGetAttribute(&is_native, cudaDevAttrHostNativeAtomicSupported, current_gpu()),
        "cudaDeviceGetAttribute");
  const auto lost = static_cast<std::int64_t>(added) - std::int64_t{of_host.load()};
  bench.note(formatted(
      "The host and the GPU added to one word of mapped memory at the same time: {} of {} "
      "additions were lost. {}",
      lost, added,
      std::string(is_native != 0 ? "The link has native atomics."
                                 : "The link has no native atomics.")));
}

}  // namespace

Table atomics(Bench& bench) {
  Gpu gpu(bench);
  const std::uint64_t usual = std::uint64_t{bench.is_quick() ? 16U : 64U} << 20;
  const std::uint64_t size = bench.bytes("atomics.size", {}, usual) / period * period;
  Measurements rows({{"case", ColumnType::text},
                     {"way", ColumnType::text},
                     {"addresses", ColumnType::integer},
                     {"bound", ColumnType::real, "Gop/s"}},
                    {"rate", ColumnType::real, "Gop/s"}, Rows::of_kernels);
  const std::uint64_t factor = bench.is_quick() ? 32 : 16;
  if (has_launch_attributes(gpu.properties())) {
    prepare_clusters(bench, gpu);
  } else {
    bench.note("Clusters are not measured: they need compute capability 9.0.");
  }
  Ways counters(bench, gpu, rows, "counters");
  add_counters(counters, gpu, std::uint64_t{1} << (bench.is_quick() ? 22 : 24), factor);
  add_mapped(counters, gpu, bench.is_quick() ? 16 : 64, factor);
  add_histograms(bench, gpu, rows, size);
  note_lost_additions(bench, gpu);
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::ladders
