// The intervals into which a pass divides the keys: parts that end at the ends of brackets, each
// end by itself. So equal elements, however many, are only counted.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/order/partition.hpp"

namespace shardstream::workloads::order_statistics {

using order::Key;

/// The keys from `first` to `last`.
template <class T>
struct KeyRange {
  Key<T> first, last;

  bool operator==(const KeyRange&) const = default;
};

/// The keys of missing values.
template <class T>
std::vector<KeyRange<T>> missing_keys(const order::Missing<T>& missing) {
  if constexpr (std::floating_point<T>) {
    return {{0, order::lowest_key<T> - 1}, {order::highest_key<T> + 1, order::max_key<T>}};
  } else {
    const Key<T> marker = order::key_of(missing.marker);
    if (missing.has_marker) return {{marker, marker}};
    return {};
  }
}

/// The shares of all elements that lie near some keys, estimated from a sample.
template <class T>
struct Shares {
  struct Spread {
    KeyRange<T> keys;
    double share;  ///< of the elements between the ends
  };

  std::vector<Spread> spread;
  std::map<Key<T>, double> equal;  ///< the share of the elements with a key

  /// The share of the elements in cells with an end of one of the ranges, which are searched. The
  /// elements around an end count as dense as those between both ends.
  double searched(const order::Locator<T>& locator) const {
    const auto cell = [&](Key<T> key) { return locator(order::value_of<T>(key)); };
    double all = 0;
    for (const auto& [key, share] : equal) {
      const bool is_alone = cell(key - 1) < cell(key) && cell(key) < cell(key + 1);
      if (!is_alone) all += share;
    }
    for (const auto& [keys, share] : spread) {
      if (share > 0) all += std::min(1.0, 2 * share / locator.distance(keys.first, keys.last));
    }
    return std::min(all, 1.0);
  }
};

template <class T>
class Division {
 public:
  struct KeyInterval {
    KeyRange<T> keys;
    bool is_missing, collects;
    std::uint64_t count = 0;

    bool is_single() const { return keys.first == keys.last; }
  };
  /// The place of an order statistic: its part, and its rank within the part.
  struct Found {
    const KeyInterval* part;
    std::uint64_t rank;
  };

  /// Parts inside brackets collect their keys, except those of a single key or of missing values.
  /// `cuts` are more keys at which parts end. `shares` are those of the brackets and of their ends.
  Division(const std::vector<KeyRange<T>>& missing, const std::vector<KeyRange<T>>& brackets,
           std::vector<Key<T>> cuts = {}, Shares<T> shares = {})
      : shares_(std::move(shares)) {
    for (const KeyRange<T>& range : missing) add_ends(range, cuts);
    for (const KeyRange<T>& bracket : brackets) {
      add_ends({bracket.first, bracket.first}, cuts);
      add_ends({bracket.last, bracket.last}, cuts);
    }
    cuts.push_back(order::max_key<T>);
    std::ranges::sort(cuts);
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    expect(cuts.size() <= order::max_intervals, "a table has the intervals of a pass");
    Key<T> first = 0;
    for (const Key<T> last : cuts) {
      const KeyRange<T> keys{first, last};
      const bool is_missing = is_inside(keys, missing);
      parts_.push_back(
          {keys, is_missing, !is_missing && first < last && is_inside(keys, brackets)});
      first = last + 1;
    }
  }

  /// A part for each key. Only for types of one byte.
  static Division of_all_keys(const std::vector<KeyRange<T>>& missing) {
    std::vector<Key<T>> all(order::max_key<T> + std::size_t{1});
    std::iota(all.begin(), all.end(), Key<T>{0});
    return Division(missing, {}, std::move(all));
  }

  const std::vector<KeyInterval>& parts() const { return parts_; }
  std::vector<order::Interval<T>> intervals() const {
    std::vector<order::Interval<T>> all;
    for (const KeyInterval& part : parts_) all.push_back({part.keys.last, part.collects});
    return all;
  }
  /// Its cells lie between the first and the last end. The steps are those that leave fewer
  /// elements to the search.
  order::Locator<T> locator(unsigned cells = order::locator_cells) const {
    using Locator = order::Locator<T>;
    if constexpr (sizeof(T) == 1) return Locator::of_keys(0, order::max_key<T>, 0);
    Key<T> low = order::highest_key<T>, high = order::lowest_key<T>;
    for (const KeyInterval& part : parts_) {
      const Key<T> end = part.keys.last;
      if (end < order::lowest_key<T> || end >= order::highest_key<T>) continue;
      low = std::min(low, end);
      high = std::max<Key<T>>(high, end + 1);
    }
    if (low >= high) return {};
    const Locator by_key = Locator::of_keys(low, high, most_frequent(low), cells);
    if constexpr (std::floating_point<T>) {
      constexpr double cost = 0.005;  // of the longer arithmetic of keys, as a share searched
      const auto by_value = Locator::of_values(low, high, cells);
      if (shares_.searched(by_value) <= shares_.searched(by_key) + cost) return by_value;
    }
    return by_key;
  }

  void set_counts(const std::uint64_t* counts) {
    for (KeyInterval& part : parts_) part.count = *counts++;
  }
  std::uint64_t total() const {
    return sum([](const KeyInterval&) { return true; });
  }
  std::uint64_t missing() const {
    return sum([](const KeyInterval& part) { return part.is_missing; });
  }
  /// The number of valid elements below the key range that begins at `key`.
  std::uint64_t below(Key<T> key) const {
    return sum([&](const KeyInterval& part) { return !part.is_missing && part.keys.last < key; });
  }
  /// The place of the valid element with this rank, which is less than the number of valid ones.
  Found find(std::uint64_t rank) const {
    for (const KeyInterval& part : parts_) {
      if (part.is_missing) continue;
      if (rank < part.count) return {&part, rank};
      rank -= part.count;
    }
    throw ContractError("there are fewer valid elements than the rank of an order statistic");
  }

 private:
  /// The key with the largest known share, which is that of an end; `otherwise` if there is none.
  Key<T> most_frequent(Key<T> otherwise) const {
    const auto found =
        std::ranges::max_element(shares_.equal, {}, [](const auto& each) { return each.second; });
    return found == shares_.equal.end() ? otherwise : std::max(found->first, otherwise);
  }
  static void add_ends(KeyRange<T> range, std::vector<Key<T>>& cuts) {
    if (range.first > 0) cuts.push_back(range.first - 1);
    cuts.push_back(range.last);
  }
  static bool is_inside(KeyRange<T> keys, const std::vector<KeyRange<T>>& ranges) {
    return std::ranges::any_of(ranges, [&](const KeyRange<T>& range) {
      return range.first <= keys.first && keys.last <= range.last;
    });
  }
  template <class Which>
  std::uint64_t sum(const Which& which) const {
    std::uint64_t total = 0;
    for (const KeyInterval& part : parts_) total += which(part) ? part.count : 0;
    return total;
  }

  std::vector<KeyInterval> parts_;
  Shares<T> shares_;
};

}  // namespace shardstream::workloads::order_statistics
