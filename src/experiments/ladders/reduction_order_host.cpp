// The cost of the fixed order of summation on CPUs, compared with a plain read of the same memory.
// Also the check of results for CPUs and GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <thread>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "device/host/memory.hpp"
#include "experiments/ladders/reduction_order.hpp"
#include "experiments/numbers.hpp"
#include "kernels/reduce/leaf.hpp"
#include "kernels/reduce/reference.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::experiments::ladders {
namespace {

using reduce::PartialOf;
using reduce::Want;

unsigned cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string words_of(Want want) {
  if (want.extremes && want.variance) return "both";
  return want.extremes ? "extremes" : want.variance ? "variance" : "sum";
}

/// The label of a case. A figure has room for 18 characters.
std::string label_of(const Order& order) {
  if (order.name != "leaves") {
    return order.want.extremes || order.want.variance
               ? fmt::format("{} {}", order.name, words_of(order.want))
               : order.name;
  }
  return fmt::format("{} {}/{}K/{}{}{}{}", order.type, order.lanes, order.leaf >> 10,
                     order.in_flight, order.want.extremes || order.want.variance ? " " : "",
                     order.want.extremes ? "x" : "", order.want.variance ? "v" : "");
}

/// The floats unit_number(0), unit_number(1), ...
class Floats {
 public:
  Floats(std::uint64_t count, unsigned threads)
      : bytes_(count * sizeof(float)), data_(static_cast<float*>(device::host::map_pages(bytes_))) {
    parallel_for(threads, threads, [&](std::uint64_t part) {
      const Range mine = shardstream::share(count, part, threads);
      for (std::uint64_t i = mine.first; i < mine.end(); ++i) data_[i] = unit_number(i);
    });
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  ~Floats() { device::host::unmap_pages(data_, bytes_); }

  std::uint64_t bytes() const { return bytes_; }
  const float* data() const { return data_; }

 private:
  std::uint64_t bytes_;
  float* data_;
};

template <class T, unsigned Lanes>
SHARDSTREAM_VECTOR_CLONES void make_leaves(const T* x, unsigned leaf, Range leaves, Want want,
                                           PartialOf<T>* to) {
  for (std::uint64_t i = leaves.first; i < leaves.end(); ++i) {
    to[i] = reduce::reduce_leaf<T, Lanes>(x + i * leaf, leaf, static_cast<std::int64_t>(i * leaf),
                                          want);
  }
}

/// The exclusive or of all words, in blocks of eight words.
SHARDSTREAM_VECTOR_CLONES std::uint64_t mix_of(const std::uint64_t* words, Range blocks) {
  constexpr unsigned block = 8;
  std::array<std::uint64_t, block> mixed{};
  for (std::uint64_t i = blocks.first; i < blocks.end(); ++i) {
    for (unsigned k = 0; k < block; ++k) mixed[k] ^= words[block * i + k];
  }
  std::uint64_t all = 0;
  for (const std::uint64_t word : mixed) all ^= word;
  return all;
}

/// Measures orders of summation on all cores.
class OnHost {
 public:
  OnHost(Bench& bench, std::uint64_t count)
      : bench_(bench), threads_(cores()), floats_(count, threads_) {}

  void plain_read();
  template <class T, unsigned Lanes>
  void leaves(const char* type, unsigned leaf, Want want = {});
  template <unsigned Lanes>
  void other_types();
  Table table() && { return std::move(rows_).table(); }

 private:
  /// The time of `pass`, which each thread calls with its number.
  template <class Pass>
  Timing time(const Pass& pass) {
    return bench_.sample([&] {
      const auto begin = Clock::now();
      parallel_for(threads_, threads_, pass);
      return seconds_since(begin);
    });
  }

  Bench& bench_;
  unsigned threads_;
  Floats floats_;
  Orders rows_;
  double read_ = 0;  ///< seconds of a plain read
};

void OnHost::plain_read() {
  constexpr std::uint64_t block_bytes = 64;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(floats_.data());
  const std::uint64_t blocks = floats_.bytes() / block_bytes;
  std::vector<std::uint64_t> mixed(threads_);
  const Timing timing = time([&](std::uint64_t part) {
    mixed[part] = mix_of(words, shardstream::share(blocks, part, threads_));
  });
  std::uint64_t all = 0, expected = 0;
  for (const std::uint64_t each : mixed) all ^= each;
  for (std::uint64_t i = 0; i < blocks * block_bytes / sizeof(std::uint64_t); ++i) {
    expected ^= words[i];
  }
  bench_.verify(all == expected, "a plain read");
  read_ = timing.seconds.value;
  rows_.add({"plain read", "u64", {}, floats_.bytes()}, timing, read_, "the yardstick");
}

template <class T, unsigned Lanes>
void OnHost::leaves(const char* type, unsigned leaf, Want want) {
  constexpr unsigned rows_at_a_time = 4;  // of for_rows() in kernels/reduce/leaf.hpp
  const std::uint64_t leaves = floats_.bytes() / sizeof(T) / leaf;
  const auto* const x = reinterpret_cast<const T*>(floats_.data());
  std::vector<PartialOf<T>> partials(leaves);
  const Timing timing = time([&](std::uint64_t part) {
    make_leaves<T, Lanes>(x, leaf, shardstream::share(leaves, part, threads_), want,
                          partials.data());
  });
  for (const std::uint64_t i : leaves_to_check(leaves)) {
    bench_.verify(is_leaf_right<T>(i * leaf, leaf, want, partials[i]),
                  fmt::format("leaf {} of {}, {} lanes", i, type, Lanes));
  }
  const bool is_programs = Lanes == reduce::lanes && leaf == reduce::leaf_elements;
  rows_.add({"leaves", type, want, leaves * leaf * sizeof(T), Lanes, leaf, rows_at_a_time}, timing,
            read_, is_programs ? "as the program adds" : "");
}

template <unsigned Lanes>
void OnHost::other_types() {
  constexpr unsigned leaf = reduce::leaf_elements;
  constexpr Want extremes{.extremes = true}, variance{.variance = true};
  for (const Want want : {Want{}, extremes, variance}) {
    leaves<float, Lanes>("f32", leaf, want);
    leaves<double, Lanes>("f64", leaf, want);
  }
  leaves<std::int32_t, Lanes>("i32", leaf);
  leaves<std::int64_t, Lanes>("i64", leaf);
  if constexpr (Lanes >= 256) {  // the row of a lane is counted in a byte
    leaves<std::uint8_t, Lanes>("u8", leaf);
    leaves<std::uint8_t, Lanes>("u8", leaf, extremes);
  }
}

}  // namespace

Orders::Orders()
    : rows_({{"case", ColumnType::text},
             {"order", ColumnType::text},
             {"type", ColumnType::text},
             {"want", ColumnType::text},
             {"count", ColumnType::integer},
             {"lanes", ColumnType::integer},
             {"leaf", ColumnType::integer},
             {"in_flight", ColumnType::integer, "rows"},
             {"read", ColumnType::real, "GB/s"}},
            {"time", ColumnType::real, "ms"}) {}

void Orders::add(const Order& order, const Timing& timing, double yardstick,
                 const std::string& remark) {
  const Measured& seconds = timing.seconds;
  const Measured time = seconds.times(1e3);
  rows_.add({label_of(order), order.name, order.type, words_of(order.want),
             static_cast<std::int64_t>(order.bytes / sizeof(float)), std::int64_t{order.lanes},
             std::int64_t{order.leaf}, std::int64_t{order.in_flight},
             static_cast<double>(order.bytes) / seconds.value / 1e9},
            time, yardstick / seconds.value, remark);
}

std::uint64_t floats_to_add(Bench& bench, std::uint64_t usual, std::uint64_t max) {
  constexpr std::uint64_t min = std::uint64_t{1} << 20;
  constexpr const char* key = "reduction-order.count";
  const bool given = !bench.options().is_default(key);
  std::uint64_t count = given ? bench.options().count(key) / 16 * 16 : usual;
  while (!given && count > max && count > min) count /= 2;
  if (count > max) {
    throw UsageError(
        fmt::format("{}: {} elements do not fit in memory: choose at most {}", key, count, max));
  }
  if (!given && count < usual) {
    bench.note(fmt::format("{} floats are added, since {} do not fit.", count, usual));
  }
  return count;
}

std::uint64_t exact_units(std::uint64_t count) {
  constexpr float unit = 0x1p24F;
  const unsigned threads = cores();
  std::vector<std::uint64_t> sums(threads);
  parallel_for(threads, threads, [&](std::uint64_t part) {
    const Range mine = shardstream::share(count, part, threads);
    std::uint64_t sum = 0;
    for (std::uint64_t i = mine.first; i < mine.end(); ++i) {
      sum += static_cast<std::uint32_t>(unit_number(i) * unit);
    }
    sums[part] = sum;
  });
  std::uint64_t all = 0;
  for (const std::uint64_t sum : sums) all += sum;
  return all;
}

template <class T>
bool is_leaf_right(std::uint64_t first, unsigned count, Want want, const PartialOf<T>& partial) {
  const std::uint64_t begin = first * sizeof(T) / sizeof(float);
  std::vector<float> floats((std::uint64_t{count} * sizeof(T) + sizeof(float) - 1) / sizeof(float));
  for (std::uint64_t i = 0; i < floats.size(); ++i) floats[i] = unit_number(begin + i);
  std::vector<T> elements(count);
  std::memcpy(elements.data(), floats.data(), count * sizeof(T));
  const reduce::LeafCheck check =
      reduce::check_leaf(elements.data(), count, static_cast<std::int64_t>(first), want, partial);
  return check.exact.passes() && check.sum.passes() && check.mean.passes() &&
         check.variance.passes() && check.stddev.passes();
}

template bool is_leaf_right<float>(std::uint64_t, unsigned, Want, const PartialOf<float>&);
template bool is_leaf_right<double>(std::uint64_t, unsigned, Want, const PartialOf<double>&);
template bool is_leaf_right<std::int32_t>(std::uint64_t, unsigned, Want,
                                          const PartialOf<std::int32_t>&);
template bool is_leaf_right<std::int64_t>(std::uint64_t, unsigned, Want,
                                          const PartialOf<std::int64_t>&);
template bool is_leaf_right<std::uint8_t>(std::uint64_t, unsigned, Want,
                                          const PartialOf<std::uint8_t>&);

std::vector<std::uint64_t> leaves_to_check(std::uint64_t leaves) {
  constexpr std::uint64_t max = 16;
  const std::uint64_t checked = std::min(leaves, max);
  std::vector<std::uint64_t> chosen;
  for (std::uint64_t i = 0; i < checked; ++i) {
    chosen.push_back(checked > 1 ? (leaves - 1) * i / (checked - 1) : 0);
  }
  return chosen;
}

Table reduction_order_on_host(Bench& bench) {
  const auto max =
      static_cast<std::uint64_t>(0.4 * static_cast<double>(bench.memory())) / sizeof(float);
  const std::uint64_t usual = std::uint64_t{1} << (bench.is_quick() ? 24 : 28);
  OnHost host(bench, floats_to_add(bench, usual, max));
  host.plain_read();
  for (const unsigned leaf : {1U << 14, 1U << 15, 1U << 17}) {
    host.leaves<float, 512>("f32", leaf);
    host.leaves<double, 512>("f64", leaf);
  }
  host.other_types<64>();
  host.other_types<256>();
  host.other_types<512>();
  host.other_types<1024>();
  host.other_types<4096>();
  return std::move(host).table();
}

}  // namespace shardstream::experiments::ladders
