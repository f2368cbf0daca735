#include "workloads/product/engine/normalization/variable_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>
#include <type_traits>

#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "kernels/gemm/panel/shifted.hpp"

namespace shardstream::workloads::product {
namespace {

template <class T>
struct Extremes {
  using Limits = std::numeric_limits<T>;
  T min = Limits::has_infinity ? Limits::infinity() : Limits::max();
  T max = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();

  void take(T x) {
    if (x < min) min = x;
    if (x > max) max = x;
  }
  /// `other` may be of no values.
  void join(const Extremes& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
  }
};

/// Extremes are halved first, since the distance between two doubles may exceed the largest double.
VariableRange range_of(const Extremes<double>& of) {
  return {.middle = {0, of.min / 2 + of.max / 2},
          .half = of.max / 2 - of.min / 2,
          .largest = std::max(std::abs(of.min), std::abs(of.max))};
}

VariableRange range_of(const Extremes<std::int64_t>& of) {
  const std::uint64_t distance =
      static_cast<std::uint64_t>(of.max) - static_cast<std::uint64_t>(of.min);
  const std::uint64_t middle = static_cast<std::uint64_t>(of.min) + distance / 2;  // mod 2^64
  return {.middle = {static_cast<std::int64_t>(middle), 0},
          .half = static_cast<double>(distance) / 2,
          .largest = std::max(std::abs(static_cast<double>(of.min)),
                              std::abs(static_cast<double>(of.max)))};
}

/// Neighbouring variables, by their places in the list of all variables of the search. They are
/// read together, with the variables between them.
struct Group {
  std::size_t first, end;
};

std::vector<Group> groups_of(const std::vector<std::uint64_t>& variables) {
  constexpr std::uint64_t together = 1024;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    if (groups.empty() || variables[i] / together != variables[groups.back().first] / together) {
      groups.push_back({i, i});
    }
    groups.back().end = i + 1;
  }
  return groups;
}

/// The values of variables: as they are stored, or without the shifts of their samples.
template <class T>
struct Stored {
  using Wide = std::conditional_t<std::is_same_v<T, std::int64_t>, std::int64_t, double>;

  explicit Stored(const Samples&) {}
  Wide operator()(T x, std::uint64_t) const { return static_cast<Wide>(x); }
};
template <class T>
struct Shifted {
  using Wide = double;
  const Samples& samples;

  explicit Shifted(const Samples& of) : samples(of) {}
  double operator()(T x, std::uint64_t sample) const {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return gemm::difference(x, samples.whole_shift[sample]) - samples.shift[sample];
    } else {
      return static_cast<double>(x) - samples.shift[sample];
    }
  }
};

/// Reads the extremes of some variables from a part of the samples.
template <class T, class Value>
class RangeSearch {
 public:
  using Wide = typename Value::Wide;

  RangeSearch(const Operands& operands, const Samples& samples,
              const std::vector<std::uint64_t>& variables)
      : operands_(operands),
        samples_(samples),
        value_(samples),
        variables_(variables),
        found_(variables.size()) {}

  /// Adds these samples. Thread-safe.
  void add(const Group& group, Range samples) {
    const std::uint64_t first = variables_[group.first];
    const Range hull{first, variables_[group.end - 1] + 1 - first};
    const bool columns = operands_.transpose_a;  // variables are columns
    const Range across = columns ? hull : samples;
    std::vector<T> stored(samples.count * hull.count);
    operands_.a->read(columns ? samples : hull, across, reinterpret_cast<std::byte*>(stored.data()),
                      across.count * sizeof(T));
    const std::uint64_t step = columns ? hull.count : 1;
    std::vector<Extremes<Wide>> mine(group.end - group.first);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const std::uint64_t place = variables_[group.first + i] - first;
      const T* const values = stored.data() + place * (columns ? 1 : samples.count);
      for (std::uint64_t s = 0; s < samples.count; ++s) {
        const std::uint64_t sample = samples.first + s;
        if (samples_.counts(sample)) mine[i].take(value_(values[s * step], sample));
      }
    }
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < mine.size(); ++i) found_[group.first + i].join(mine[i]);
  }

  const std::vector<Extremes<Wide>>& found() const { return found_; }

 private:
  const Operands& operands_;
  const Samples& samples_;
  Value value_;
  const std::vector<std::uint64_t>& variables_;
  std::mutex mutex_;
  std::vector<Extremes<Wide>> found_;
};

/// Reads this rank's samples piece by piece.
template <class T, class Value>
void read_samples(runtime::Runtime& runtime, const Operands& operands,
                  const std::vector<std::uint64_t>& variables, unsigned readers,
                  RangeSearch<T, Value>& search) {
  constexpr std::uint64_t piece_elements = (std::uint64_t{4} << 20) / sizeof(T);
  const Range own = share(operands.k, static_cast<std::uint64_t>(runtime.session.rank()),
                          static_cast<std::uint64_t>(runtime.session.size()));
  for (const Group& group : groups_of(variables)) {
    const std::uint64_t width = variables[group.end - 1] + 1 - variables[group.first];
    const std::uint64_t step = std::max<std::uint64_t>(1, piece_elements / width);
    parallel_for(ceil_div(own.count, step), readers, [&](std::uint64_t piece) {
      search.add(group, intersection({own.first + piece * step, step}, own));
      runtime.session.heartbeat().move();
    });
  }
}

template <class T, class Value>
std::vector<VariableRange> ranges_of(runtime::Runtime& runtime, const Operands& operands,
                                     const Samples& samples,
                                     const std::vector<std::uint64_t>& variables,
                                     unsigned readers) {
  RangeSearch<T, Value> search(operands, samples, variables);
  runtime.session.collectively(
      [&] { read_samples(runtime, operands, variables, readers, search); });
  const auto all = runtime.session.gather(search.found());  // rank by rank
  auto found = search.found();
  for (std::size_t i = 0; i < all.size(); ++i) found[i % found.size()].join(all[i]);
  std::vector<VariableRange> ranges;
  for (const auto& each : found) ranges.push_back(range_of(each));
  return ranges;
}

}  // namespace

std::vector<VariableRange> variable_ranges(runtime::Runtime& runtime, const Operands& operands,
                                           const Samples& samples,
                                           const std::vector<std::uint64_t>& variables,
                                           unsigned readers) {
  if (variables.empty()) return {};
  return with_element_type(operands.a->type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    return samples.shift.empty()
               ? ranges_of<T, Stored<T>>(runtime, operands, samples, variables, readers)
               : ranges_of<T, Shifted<T>>(runtime, operands, samples, variables, readers);
  });
}

}  // namespace shardstream::workloads::product
