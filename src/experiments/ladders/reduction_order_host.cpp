// The cost of the fixed order of summation on CPUs, compared with a plain read of the same memory.
// Also the launches and the check of results for CPUs and GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "device/host/process_memory.hpp"
#include "experiments/ladders/reduction_order.hpp"
#include "experiments/numbers.hpp"
#include "kernels/cells/dense.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::experiments::ladders {
namespace {

using cells::Quantities;

unsigned cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

std::string name_of(Quantities quantities) {
  if (quantities == squares) return "variance";
  return quantities == extremes ? "extremes" : "sum";
}

/// The label of a case. A figure has room for 18 characters.
std::string label_of(const Order& order) {
  const std::string what = name_of(order.quantities);
  if (order.name == "program") return fmt::format("{} {}", order.type, what);
  if (order.name != "row") return order.name;
  const char letter = what == "sum" ? ' ' : what[0] == 'e' ? 'x' : 'v';
  return fmt::format("{} {}/{}K {}", order.type, order.lanes, order.unit >> 10, letter);
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
  /// Statistics of all elements as T, with the units and lanes of a run, or others.
  template <class T>
  void row(const char* type, Quantities quantities, std::optional<cells::RowUnits> size = {});
  Table table() && { return std::move(rows_).table(); }

 private:
  /// The time of passes one after another, each of which all threads call with their numbers.
  template <class... Pass>
  Timing time(const Pass&... passes) {
    return bench_.sample([&] {
      const auto begin = Clock::now();
      (parallel_for(threads_, threads_, passes), ...);
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

template <class T>
void OnHost::row(const char* type, Quantities quantities, std::optional<cells::RowUnits> size) {
  const std::uint64_t all = floats_.bytes() / sizeof(T);
  const cells::RowUnits own = size.value_or(cells::RowUnits(all));
  const RowOf<T> row(all, own, quantities, std::min(own.lanes, cells::max_host_joined_lanes));
  std::vector<std::uint64_t> lanes(row.lane_words()), moments(row.unit_words());
  const auto add =
      row.add(reinterpret_cast<const T*>(floats_.data()), row.tasks().block_words().data(),
              row.tasks().task_words().data(), row.tasks().dense().data(), lanes.data());
  const auto join = row.join(lanes.data(), moments.data());
  const auto launch = [&](const auto& kernel, const auto& args) {
    return [&, kernel](std::uint64_t part) {
      kernel.host(args, static_cast<unsigned>(part), threads_);
    };
  };
  const Timing timing =
      time(launch(cells::Kernels<T>::accumulate(), add), launch(cells::Kernels<T>::join(), join));
  bench_.verify(row.are_right(moments), fmt::format("units of {}, {} lanes", type, own.lanes));
  rows_.add({size ? "row" : "program", type, quantities, all * sizeof(T), own.lanes, own.unit},
            timing, read_, size ? "" : "as a run adds");
}

}  // namespace

Orders::Orders()
    : rows_({{"case", ColumnType::text},
             {"order", ColumnType::text},
             {"type", ColumnType::text},
             {"want", ColumnType::text},
             {"count", ColumnType::integer},
             {"lanes", ColumnType::integer},
             {"unit", ColumnType::integer},
             {"read", ColumnType::real, "GB/s"}},
            {"time", ColumnType::real, "ms"}) {}

void Orders::add(const Order& order, const Timing& timing, double yardstick,
                 const std::string& remark) {
  const Measured& seconds = timing.seconds;
  const Measured time = seconds.times(1e3);
  rows_.add({label_of(order), order.name, order.type, name_of(order.quantities),
             static_cast<std::int64_t>(order.bytes / sizeof(float)),
             static_cast<std::int64_t>(order.lanes), static_cast<std::int64_t>(order.unit),
             static_cast<double>(order.bytes) / seconds.value / 1e9},
            time, yardstick / seconds.value, remark);
}

template <class T>
RowOf<T>::RowOf(std::uint64_t count, const cells::RowUnits& size, Quantities quantities,
                std::uint64_t joined)
    : quantities_(quantities),
      count_(count),
      unit_(size.unit),
      joined_(joined),
      words_(cells::moment_words<T>(quantities)) {
  layout_.axes = 1;
  layout_.axis[0] = {.is_kept = false, .cell_step = 0, .value_step = 1, .weight_step = 0};
  layout_.lane_axis = 0;
  layout_.lanes = size.lanes;
  layout_.by_rows = true;
  for (std::uint64_t u = 0; u < ceil_div(count_, unit_); ++u) {
    const Range own = unit(u);
    const cells::AxisRanges indices{{&own.first, 1}, {&own.count, 1}};
    tasks_.append_block(own.first, indices);
    tasks_.append_task(layout_, u, 0, indices, span_);
  }
}

template <class T>
cells::AccumulateArgs<T> RowOf<T>::add(const T* elements, const std::uint64_t* blocks,
                                       const std::uint64_t* tasks, const cells::DenseTask* dense,
                                       std::uint64_t* lanes) const {
  return {.elements = elements,
          .tasks = tasks_.in_memory(span_, blocks, tasks, dense),
          .layout = layout_,
          .units = {.states = {lanes, units() * parts()},
                    .kind = cells::UnitStates::Kind::moments,
                    .joined_lanes = joined_},
          .cells = {0, 1},
          .choice = {.quantities = quantities_}};
}

template <class T>
cells::JoinArgs<T> RowOf<T>::join(std::uint64_t* lanes, std::uint64_t* moments) const {
  return {.from = {lanes, units() * parts()},
          .moments = {moments, units()},
          .takes_accumulators = false,
          .first_unit = 0,
          .units = units(),
          .unit_step = 1,
          .unit_slots = units(),
          .groups = 1,
          .unit_cells = 1,
          .unit_parts = parts(),
          .parts = parts(),
          .step = 1,
          .quantities = quantities_};
}

/// Sums are compared with those in extended precision. n additions change a sum by at most n u
/// times the sum of the magnitudes; u is 2^-53.
template <class T>
bool RowOf<T>::are_right(std::vector<std::uint64_t>& moments) const {
  constexpr std::uint64_t most = 16;
  const std::uint64_t checked = std::min(units(), most);
  std::uint64_t counted = 0;
  for (std::uint64_t u = 0; u < units(); ++u) counted += moments[u];
  bool is_right = counted == count_;
  for (std::uint64_t i = 0; i < checked; ++i) {
    const std::uint64_t number = checked > 1 ? (units() - 1) * i / (checked - 1) : 0;
    const Range own = unit(number);
    std::vector<float> floats(ceil_div(own.count * sizeof(T), sizeof(float)));
    const std::uint64_t begin = own.first * sizeof(T) / sizeof(float);
    for (std::uint64_t f = 0; f < floats.size(); ++f) floats[f] = unit_number(begin + f);
    std::vector<T> elements(own.count);
    std::memcpy(elements.data(), floats.data(), own.count * sizeof(T));
    const auto m = cells::Moments<T>::load(quantities_, moments.data() + number, units());
    long double sum = 0, magnitude = 0, m2 = 0;
    for (const T x : elements) sum += x, magnitude += std::fabs(static_cast<long double>(x));
    const auto n = static_cast<long double>(own.count), mean = sum / n, bound = n * 0x1p-53L;
    for (const T x : elements) m2 += (x - mean) * (x - mean);
    is_right = is_right && std::fabs(cells::to_double(m.sum) - sum) <= bound * magnitude;
    if (quantities_.has(cells::Quantity::squares)) {
      is_right = is_right && std::fabs(m.m2 - m2) <= 32 * bound * m2;
    }
    if (quantities_.has(cells::Quantity::extremes)) {
      const auto [low, high] = std::ranges::minmax(elements, {}, cells::extreme_key<T>);
      is_right = is_right && m.range.min == cells::extreme_key(low) &&
                 m.range.max == cells::extreme_key(high);
    }
  }
  return is_right;
}

template <class T>
double RowOf<T>::sum(std::vector<std::uint64_t>& moments) const {
  double sum = 0;
  for (std::uint64_t u = 0; u < units(); ++u) {
    sum += cells::to_double(cells::Moments<T>::load(quantities_, moments.data() + u, units()).sum);
  }
  return sum;
}

template class RowOf<float>;
template class RowOf<double>;
template class RowOf<std::int32_t>;
template class RowOf<std::int64_t>;
template class RowOf<std::uint8_t>;

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

Table reduction_order_on_host(Bench& bench) {
  const auto max =
      static_cast<std::uint64_t>(0.4 * static_cast<double>(bench.memory())) / sizeof(float);
  const std::uint64_t usual = std::uint64_t{1} << (bench.is_quick() ? 24 : 28);
  OnHost host(bench, floats_to_add(bench, usual, max));
  host.plain_read();
  for (const Quantities quantities : {Quantities(), extremes, squares}) {
    host.row<float>("f32", quantities);
    host.row<double>("f64", quantities);
    host.row<std::int32_t>("i32", quantities);
    host.row<std::uint8_t>("u8", quantities);
  }
  host.row<std::int64_t>("i64", {});
  for (const std::uint64_t unit : {1U << 16, 1U << 18, 1U << 20}) {
    for (const std::uint64_t lanes : {128U, 512U, 1024U}) {
      host.row<float>("f32", squares, cells::RowUnits(unit, lanes));
    }
  }
  return std::move(host).table();
}

}  // namespace shardstream::experiments::ladders
