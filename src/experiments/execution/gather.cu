// Gather and scatter: access through an array of indices. One kernel of each kind handles all
// patterns; only the indices differ. The order of the lanes does not matter: the time follows the
// sectors that memory moves. A sector that is written in part must be read first, and sectors in
// random order take longer than sectors in order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/units.hpp"
#include "experiments/count_wrong.cuh"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/sectors.hpp"
#include "experiments/memory/walk.hpp"

namespace shardstream::experiments::execution {

constexpr OptionRow options[] = {
    {"gather.size", OptionKind::size, "1GiB", "64MiB..8GiB",
     "Size of the region in device memory, rounded down to a power of two; at least four times "
     "the L2 cache. The indices and the results take as much each."},
};
constexpr Axis axes[] = {
    {.name = "access",
     .unit = "",
     .values = "gather from L2 cache|gather from memory|scatter to L2 cache|scatter to memory",
     .sentence = "The access and the place of the region."},
    {.name = "lanes",
     .unit = "",
     .values = "in order|reversed|permuted|odd lanes idle|lanes 16-31 idle|same word|random lines|"
               "random sectors|random words",
     .sentence = "The words that the lanes of a warp use."},
};

Table gather(Bench& bench);

namespace {

/// The rate in GB/s if the bytes move as fast as in order, and those in order in memory as fast as
/// a copy. Sectors and words in random order have none; a line is four sectors in order.
double rate_by_moved_bytes(const MeasuredRow& row) {
  const std::string lanes = row.text("lanes");
  if (lanes == "random sectors" || lanes == "random words") return std::nan("");
  const bool is_in_memory = row.text("access").ends_with("memory");
  const double used = row["rate"] / row["moved"];  // bytes for each one that moves
  return used * (lanes == "in order" && is_in_memory
                     ? row.ceiling("device_copy")
                     : row.of_row("moved", {{"lanes", "in order"}}, {"access"}));
}

}  // namespace

extern const Experiment about_gather = {
    .name = "gather",
    .group = "execution",
    .summary =
        "The order of the lanes does not matter for a gather: the moved sectors count, and whether "
        "they follow each other.",
    .explanation =
        {
            .question =
                "Does coalescing depend on the order in which the lanes of a warp use their words "
                "in a gather?",
            .varies =
                "A gather reads to[i] = region[index[i]], a scatter writes region[index[i]] = "
                "from[i], with words of 4 bytes. The lanes of a warp use 32 neighbouring words in "
                "order, reversed, or permuted; every second lane or the upper half is idle; all "
                "lanes use the same word; or lines, sectors or single words lie in random order. "
                "The region lies in device memory, or is so small that it stays in the L2 cache. "
                "`sectors` is the number of sectors of 32 bytes that a warp touches in the region, "
                "counted from the indices. `efficiency` is the number of bytes that the lanes use, "
                "over 32 bytes for each sector. `rate` counts the bytes that the lanes use, "
                "including indices and results. `moved` counts the sectors that pass between the "
                "L2 cache and memory.",
            .expectation =
                "Expect `moved` to be about the same for all patterns whose sectors lie in order, "
                "and in memory the rate of a copy: permuted lanes cost nothing, and an idle lane "
                "saves nothing unless its whole sector is unused. The expected rate is `moved` in "
                "order times the bytes that the lanes use over those that move. Sectors in random "
                "order take several times as long in memory: the remark states the bytes in order "
                "that take as long as one of them. Random words need 32 sectors in place of 4; a "
                "region in the cache makes them cheaper, not free.",
            .pitfalls =
                "All patterns use the same two kernels; only the indices differ. A sector that a "
                "store fills only in part counts twice in `moved`, since memory reads it to "
                "complete it. Idle odd lanes even cost time, because the results have gaps.",
        },
    .read_on = {{Guide::best_practices, "A Simple Access Pattern"},
                {Guide::programming, "Device Memory Accesses"}},
    .share = "of the rate of a copy in device memory",
    .options = options,
    .axes = axes,
    .expected = rate_by_moved_bytes,
    .exercise = {.task = "Predict the rate in GB/s of a gather from memory in order, permuted, "
                         "with odd lanes idle, and of random words, from your GPU's rate of a "
                         "copy.",
                 .rows = {{{"access", "gather from memory"}, {"lanes", "in order"}},
                          {{"access", "gather from memory"}, {"lanes", "permuted"}},
                          {{"access", "gather from memory"}, {"lanes", "odd lanes idle"}},
                          {{"access", "gather from memory"}, {"lanes", "random words"}}}},
    .figure = {.look = Look::bars, .x = "lanes", .y = "rate", .panel = "access"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<gather>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

using memory::Access;

constexpr unsigned threads = 256;
constexpr unsigned flight = 4;              // elements per thread, all in flight at the same time
constexpr unsigned idle = 0xffffffff;       // the index of an idle lane; also marks unwritten words
constexpr unsigned words_of_sector = 8;     // of 4 bytes
constexpr std::uint64_t sampled = 1 << 15;  // indices whose sectors are counted

/// to[i] = region[indices[i]]. The indices and the results are used once: the hints .cs of their
/// accesses let them leave the cache first, so that the region may stay. `to` has a multiple of
/// flight * threads elements.
__global__ void __launch_bounds__(threads)
    gather_words(const unsigned* region, const unsigned* indices, unsigned* to) {
  const std::uint64_t first = blockIdx.x * std::uint64_t{flight * threads} + threadIdx.x;
  unsigned at[flight], words[flight];
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) at[k] = __ldcs(indices + first + k * threads);
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) words[k] = at[k] == idle ? 0 : region[at[k]];
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) {
    if (at[k] != idle) __stcs(to + first + k * threads, words[k]);
  }
}

/// region[indices[i]] = from[i]. If several elements have the same index, one of them is kept.
__global__ void __launch_bounds__(threads)
    scatter_words(const unsigned* from, const unsigned* indices, unsigned* region) {
  const std::uint64_t first = blockIdx.x * std::uint64_t{flight * threads} + threadIdx.x;
  unsigned at[flight], words[flight];
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) at[k] = __ldcs(indices + first + k * threads);
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) {
    words[k] = at[k] == idle ? 0 : __ldcs(from + first + k * threads);
  }
#pragma unroll
  for (unsigned k = 0; k < flight; ++k) {
    if (at[k] != idle) region[at[k]] = words[k];
  }
}

enum class Lanes {
  in_order,
  reversed,
  permuted,
  every_second,  ///< the others are idle
  lower_half,    ///< the others are idle
  same_word,
  random_lines,    ///< the lanes of a warp use the words of a line in order
  random_sectors,  ///< eight lanes use the words of a sector in order
  random_words
};

struct Pattern {
  Lanes lanes;
  const char* name;
  double sectors;  ///< that a warp touches; for random words the largest possible number
};
constexpr Pattern patterns[] = {
    {Lanes::in_order, "in order", 4},           {Lanes::reversed, "reversed", 4},
    {Lanes::permuted, "permuted", 4},           {Lanes::every_second, "odd lanes idle", 4},
    {Lanes::lower_half, "lanes 16-31 idle", 2}, {Lanes::same_word, "same word", 1},
    {Lanes::random_lines, "random lines", 4},   {Lanes::random_sectors, "random sectors", 4},
    {Lanes::random_words, "random words", 32}};

/// The index of element `i`, in a region of `words` words, a power of two. Longer arrays pass
/// through the region several times.
__device__ unsigned index_of(Lanes lanes, std::uint64_t i, std::uint64_t words) {
  i %= words;
  const std::uint64_t lane = i % warp, first = i - lane;
  // A bijection of the groups of `size` words, which keeps the order in each group.
  const auto shuffled = [&](std::uint64_t size) {
    return memory::Walk{words / size}.place(i / size) * size + i % size;
  };
  std::uint64_t index = i;
  switch (lanes) {
    case Lanes::in_order:
      break;
    case Lanes::reversed:
      index = first + warp - 1 - lane;
      break;
    case Lanes::permuted:  // 13 is odd, so no two lanes use the same word; each warp differs
      index = first + (13 * lane + i / warp) % warp;
      break;
    case Lanes::every_second:
      if (lane % 2 != 0) return idle;
      break;
    case Lanes::lower_half:
      if (lane >= warp / 2) return idle;
      break;
    case Lanes::same_word:
      index = first;
      break;
    case Lanes::random_lines:
      index = shuffled(warp);
      break;
    case Lanes::random_sectors:
      index = shuffled(words_of_sector);
      break;
    case Lanes::random_words:
      index = shuffled(1);
      break;
  }
  return static_cast<unsigned>(index);
}

__global__ void write_indices(Lanes lanes, std::uint64_t words, unsigned* indices,
                              std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) indices[i] = index_of(lanes, i, words);
}

/// Sets word i to i * factor, modulo 2^32.
__global__ void write_multiples(unsigned factor, unsigned* words, std::uint64_t count) {
  const std::uint64_t i = blockIdx.x * std::uint64_t{threads} + threadIdx.x;
  if (i < count) words[i] = static_cast<unsigned>(i) * factor;
}

constexpr unsigned gathered_factor = 2654435761U;  // of the words in the region of a gather

/// Checks results of a gather. Those of idle lanes remain unwritten.
struct IsWrongGather {
  const unsigned *to, *indices;

  __device__ bool operator()(std::uint64_t i) const {
    const unsigned at = indices[i];
    return to[i] != (at == idle ? idle : at * gathered_factor);
  }
};

/// Checks a scatter of from[i] = i into the first `words` of `count` words. Wrong are elements
/// whose word was not written, words that hold another number than that of an element with their
/// index, and words beyond the region that were written.
struct IsWrongScatter {
  const unsigned* region;
  std::uint64_t words;
  const unsigned* indices;
  std::uint64_t count;

  __device__ bool operator()(std::uint64_t i) const {
    if (indices[i] != idle && region[indices[i]] == idle) return true;
    if (region[i] == idle) return false;
    return i >= words || region[i] >= count || indices[region[i]] != i;
  }
};

/// The accesses of one warp, on average.
struct Traffic {
  double lanes = 0;            ///< active ones
  double different_words = 0;  ///< of the region
  double sectors = 0;          ///< of the region
  double in_memory = 0;        ///< sectors of the region that pass between L2 and memory
  double other_sectors = 0;    ///< the same of the indices, and of results or sources

  double efficiency() const { return lanes * sizeof(unsigned) / (sectors * memory::sector); }
  /// Bytes that the lanes use: an index for each, and two words for each active one.
  double used() const { return sizeof(unsigned) * (warp + 2 * lanes); }
  double moved() const { return memory::sector * (in_memory + other_sectors); }
};

enum class IndexedAccess { gather, scatter };
enum class Level { l2, memory };  ///< in which the region lies

/// Counts the sectors of whole warps. A store moves the sectors that it fills in part twice.
Traffic traffic_of(const std::vector<unsigned>& indices, IndexedAccess way, Level level) {
  constexpr std::uint64_t word = sizeof(unsigned);
  const auto warps = static_cast<double>(indices.size() / warp);
  Traffic sum;
  for (std::size_t first = 0; first < indices.size(); first += warp) {
    std::vector<std::uint64_t> in_region, in_results;
    for (std::size_t i = first; i < first + warp; ++i) {
      if (indices[i] == idle) continue;
      in_region.push_back(indices[i] * word);
      in_results.push_back(i * word);
    }
    const Access of_indices =
        memory::access_of_warp([&](std::uint64_t lane) { return (first + lane) * word; }, word);
    const Access region = memory::access_of(in_region, word);
    const Access other = memory::access_of(in_results, word);
    sum.lanes += static_cast<double>(in_region.size());
    sum.sectors += static_cast<double>(region.sectors);
    if (level == Level::memory) {
      sum.in_memory += static_cast<double>(region.sectors +
                                           (way == IndexedAccess::scatter ? region.partial : 0));
    }
    sum.other_sectors += static_cast<double>(of_indices.sectors + other.sectors +
                                             (way == IndexedAccess::gather ? other.partial : 0));
    std::ranges::sort(in_region);
    sum.different_words +=
        static_cast<double>(std::ranges::unique(in_region).begin() - in_region.begin());
  }
  return {sum.lanes / warps, sum.different_words / warps, sum.sectors / warps,
          sum.in_memory / warps, sum.other_sectors / warps};
}

/// Compares a pattern with the one in order, of a given rate and traffic. If a pattern is slower
/// than its moved bytes explain, the sectors of the region are the reason.
std::string remark(double rate, const Traffic& traffic, double rate_in_order,
                   const Traffic& in_order) {
  if (std::isnan(rate_in_order)) return "no pattern in order to compare with";
  const double relative = rate / rate_in_order;
  const double expected = traffic.used() / traffic.moved() / (in_order.used() / in_order.moved());
  const char* const verdict = relative > 1.2 * expected   ? "better than"
                              : relative > 0.8 * expected ? "as expected by"
                                                          : "worse than";
  std::string text = formatted("{:.2f} of the rate in order: {} the moved bytes, {:.2f}", relative,
                               std::string(verdict), expected);
  if (relative > 0.8 * expected) return text;
  const double in_order_bytes = traffic.used() / relative * in_order.moved() / in_order.used();
  const double of_others = memory::sector * traffic.other_sectors;
  return text + formatted("; a sector takes as long as {:.0f} B in order",
                          (in_order_bytes - of_others) / traffic.sectors);
}

/// Checks and measures patterns, and adds their rows.
class Cases {
 public:
  Cases(Bench& bench, Gpu& gpu, Measurements& rows, std::uint64_t count)
      : bench_(bench), gpu_(gpu), rows_(rows), region_(count), indices_(count), other_(count) {}

  /// Adds a pattern in a region of `words` words. In order, it is that of the following ones.
  void add(const Point& point, IndexedAccess way, std::uint64_t words, Level level) {
    const std::string access = to_text(point.cell("access"));
    const Pattern& pattern = patterns[point["lanes"]];
    const Traffic traffic = prepare(pattern, words, way, level, access);
    verify(way, words, formatted("{}, {}", access, std::string(pattern.name)));
    const double warps = static_cast<double>(indices_.size()) / warp;
    const Timing timing = gpu_.time([&] { launch(way); });
    const Measured rate = timing.rate(traffic.used() * warps);
    if (pattern.lanes == Lanes::in_order) {
      rate_in_order_ = rate.value;
      in_order_ = traffic;
    }
    const double bytes = sizeof(unsigned) * (warp + traffic.lanes + traffic.different_words);
    rows_.add(point.cells({traffic.sectors, traffic.efficiency(),
                           timing.rate(traffic.moved() * warps).value}),
              rate, rate.value / bench_.ceiling("device_copy"),
              pattern.lanes == Lanes::in_order
                  ? "each sector is used completely"
                  : remark(rate.value, traffic, rate_in_order_, in_order_),
              {.operations = 0, .bytes = bytes * warps}, timing.seconds.value);
  }

 private:
  /// Writes the indices of `pattern`, and counts the sectors of the first warps.
  Traffic prepare(const Pattern& pattern, std::uint64_t words, IndexedAccess way, Level level,
                  const std::string& access) {
    write_indices<<<blocks_for(indices_.size(), threads), threads, 0, gpu_.stream()>>>(
        pattern.lanes, words, indices_.data(), indices_.size());
    check_launch("write_indices");
    const Traffic traffic =
        traffic_of(indices_.read(0, std::min(sampled, indices_.size())), way, level);
    // Random words may share a sector by chance.
    bench_.verify(std::abs(traffic.sectors - pattern.sectors) < 0.1,
                  formatted("{}, the sectors of {}", access, std::string(pattern.name)));
    return traffic;
  }

  void verify(IndexedAccess way, std::uint64_t words, const std::string& name) {
    const unsigned blocks = blocks_for(indices_.size(), threads);
    const cudaStream_t stream = gpu_.stream();
    const DeviceArray<unsigned>& source = way == IndexedAccess::gather ? region_ : other_;
    const DeviceArray<unsigned>& target = way == IndexedAccess::gather ? other_ : region_;
    write_multiples<<<blocks, threads, 0, stream>>>(
        way == IndexedAccess::gather ? gathered_factor : 1, source.data(), source.size());
    check_launch("write_multiples");
    check(cudaMemsetAsync(target.data(), 0xff, target.bytes(), stream), "cudaMemsetAsync");
    launch(way);
    const unsigned wrong =
        way == IndexedAccess::gather
            ? count_wrong(indices_.size(), IsWrongGather{other_.data(), indices_.data()}, stream)
            : count_wrong(indices_.size(),
                          IsWrongScatter{region_.data(), words, indices_.data(), indices_.size()},
                          stream);
    bench_.verify(wrong == 0, name);
  }

  void launch(IndexedAccess way) {
    const unsigned blocks = blocks_for(indices_.size(), flight * threads);
    if (way == IndexedAccess::gather) {
      gather_words<<<blocks, threads, 0, gpu_.stream()>>>(region_.data(), indices_.data(),
                                                          other_.data());
    } else {
      scatter_words<<<blocks, threads, 0, gpu_.stream()>>>(other_.data(), indices_.data(),
                                                           region_.data());
    }
    check_launch("gather_words or scatter_words");
  }

  Bench& bench_;
  Gpu& gpu_;
  Measurements& rows_;
  DeviceArray<unsigned> region_, indices_, other_;  ///< other_: results of a gather, or sources
  double rate_in_order_ = std::nan("");             ///< NaN: not measured
  Traffic in_order_;
};

}  // namespace

Table gather(Bench& bench) {
  Gpu gpu(bench);
  const auto cache = static_cast<std::uint64_t>(gpu.properties().l2CacheSize);
  const std::uint64_t bytes = std::bit_floor(bench.bytes("gather.size", {.of_device = 0.25}));
  if (bytes < 4 * cache) {
    throw UsageError(formatted("gather.size: {} may stay in the L2 cache: choose at least {}",
                               format_size(bytes), format_size(std::bit_ceil(4 * cache))));
  }
  // A quarter of the cache leaves room for the indices and results that pass through it.
  const std::uint64_t cached = std::bit_floor(cache / 4);
  Measurements rows(bench.columns({{"sectors", ColumnType::real, "per warp"},
                                   {"efficiency", ColumnType::real},
                                   {"moved", ColumnType::real, "GB/s"}}),
                    {"rate", ColumnType::real, "GB/s"}, Rows::of_kernels);
  Cases cases(bench, gpu, rows, bytes / sizeof(unsigned));
  for (const Point& point : bench.points()) {
    const auto way = point["access"] < 2 ? IndexedAccess::gather : IndexedAccess::scatter;
    const auto level = point["access"] % 2 == 0 ? Level::l2 : Level::memory;
    cases.add(point, way, (level == Level::l2 ? cached : bytes) / sizeof(unsigned), level);
  }
  bench.note(formatted("The region in the L2 cache has {}, the one in memory {}.",
                       format_size(cached), format_size(bytes)));
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::execution
