// The search for order statistics in passes over the data. A sample of the elements gives a bracket
// for each statistic: keys between which it lies with high probability. A pass counts the elements
// below and between the brackets' ends, and collects the keys inside. From the counts the ranks of
// the statistics among the collected keys follow. A statistic outside its bracket needs a further
// pass, in which the part that holds it, which the counts tell, has a bracket of its own.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "workloads/reduce/order/division.hpp"
#include "workloads/reduce/order/key_sample.hpp"
#include "workloads/reduce/order/key_selection.hpp"

namespace shardstream::workloads::order_statistics {

template <class T>
class Search {
 public:
  using K = Key<T>;
  using KeyInterval = typename Division<T>::KeyInterval;

  /// The device memory for a shard, if `limit` bytes may be used in all.
  static std::uint64_t device_bytes(const io::Source& source, Range shard, std::uint64_t limit) {
    return sizeof(order::PartitionTable<T>) + counters * sizeof(std::uint64_t) +
           key_capacity(shard, limit) * sizeof(K) + Selection<K>::device_bytes() +
           (is_byte ? 0 : Sample<T>::device_bytes(source, shard));
  }

  /// `limit`: as for device_bytes(). `fractions`: the wanted quantiles, by which the first brackets
  /// are chosen. `context` and `source` outlive the search.
  Search(const stream::ShardContext& context, const io::Source& source, order::Missing<T> missing,
         std::uint64_t limit, std::vector<double> fractions)
      : context_(context),
        elements_(source.count()),
        missing_(missing_keys(missing)),
        fractions_(std::move(fractions)),
        selection_(context.runtime) {
    device::Device& device = *context.runtime.device;
    table_ = {device, device::Memory::device, 1};
    staged_table_ = {device, device::Memory::pinned, 1};
    counts_ = {device, device::Memory::device, counters};
    staged_counts_ = {device, device::Memory::pinned, counters};
    zeros_ = {device, device::Memory::pinned, counters};
    std::fill_n(zeros_.data(), zeros_.size(), 0);
    if constexpr (!is_byte) {
      keys_ = {device, device::Memory::device, key_capacity(context.shard, limit)};
      sample_.emplace(context, source, missing, counts_.data() + at_sampled);
    }
  }

  /// Prepares the next pass; the first one takes a sample. Collective.
  void begin_pass(device::Stream& compute) {
    if (!division_) begin_search(compute);
    upload(compute);
  }
  /// Prepares a pass that only counts: each of these keys is a part.
  void begin_count(device::Stream& compute, const std::vector<K>& keys) {
    std::vector<KeyRange<T>> singles;
    for (const K key : keys) singles.push_back({key, key});
    division_.emplace(missing_, singles, std::vector<K>{}, shares_);
    takes_sample_ = false;
    upload(compute);
  }

  void enqueue(device::Stream& compute, const pipeline::Batch& batch) {
    count(compute, reinterpret_cast<const T*>(batch.data), batch.elements.count, counts_.data());
    if (takes_sample_) sample_->enqueue(compute, batch.elements, batch.data);
  }

  /// Counts elements into `counts`, max_intervals words of device memory, or into its own.
  void count(device::Stream& compute, const T* elements, std::uint64_t number,
             std::uint64_t* counts) {
    compute.launch(order::partition_kernel<T>(),
                   order::PartitionArgs<T>{.elements = elements,
                                           .count = number,
                                           .table = table_.data(),
                                           .locator = locator_,
                                           .intervals = intervals(),
                                           .counts = counts,
                                           .keys = keys_.data(),
                                           .capacity = keys_.size(),
                                           .collected = counts_.data() + at_collected});
  }

  /// Adds the counts of all ranks. Afterwards division() has them. Collective.
  void combine(device::Stream& compute) {
    comm::Communicator& ranks = *context_.runtime.communicator;
    ranks.all_reduce(compute, counts_.data(), counts_.data(), intervals(), comm::SumType::i64);
    compute.download(staged_counts_.data(), counts_.data(), counts_.bytes());
    ranks.wait(compute);
    division_->set_counts(staged_counts_.data());
    if (takes_sample_) sample_->set_count(staged_counts_[at_sampled]);
  }
  const Division<T>& division() const { return *division_; }

  /// After combine(): finds the keys of these ranks, which are sorted and below the number of valid
  /// elements, unless another pass is necessary. Collective.
  bool find(device::Stream& compute, const std::vector<std::uint64_t>& ranks,
            std::map<std::uint64_t, K>& found) {
    ++passes_;
    const std::uint64_t collected = staged_counts_[at_collected];
    const bool fits = context_.runtime.session.max(collected > keys_.size() ? 1 : 0) == 0;
    std::map<K, std::vector<std::uint64_t>> among, beyond;  // ranks by the first key of their part
    for (const std::uint64_t rank : ranks) {
      if (found.contains(rank)) continue;
      const auto place = division_->find(rank);
      if (place.part->is_single()) {
        found[rank] = place.part->keys.first;
      } else {
        (place.part->collects && fits ? among : beyond)[place.part->keys.first].push_back(rank);
      }
    }
    select(compute, collected, among, found);
    if (beyond.empty()) return true;
    if (!fits) room_ = std::min(room_ / 2, static_cast<double>(keys_.size()) / 2);
    narrow(compute, beyond);
    return false;
  }

  std::int64_t passes() const { return passes_; }
  /// Forgets everything, before a repetition.
  void restart() {
    division_.reset();
    passes_ = 0;
  }

 private:
  using Wanted = typename Selection<K>::Wanted;

  /// A part of the keys with statistics, which are at these fractions of its elements.
  struct Group {
    KeyRange<T> keys;
    std::vector<double> fractions;
    double elements;
  };
  double share_of(const Group& group) const {
    return group.elements / static_cast<double>(elements_);
  }
  /// The contents of the next pass.
  struct Brackets {
    std::vector<KeyRange<T>> list;
    std::vector<K> cuts;
    Shares<T> shares;
  };

  static constexpr bool is_byte = sizeof(T) == 1;  // each of the 256 values has its counter
  static constexpr std::uint64_t at_collected = order::max_intervals;
  static constexpr std::uint64_t at_sampled = at_collected + 1, counters = at_sampled + 1;
  /// A pass after this one divides parts in equal steps, too, whatever the sample is like.
  static constexpr std::int64_t passes_with_brackets = 2;

  /// A sixteenth of the shard, within limits: room for the brackets of a few quantiles. Fewer keys
  /// cost passes, but no more than an eighth of the memory is used.
  static std::uint64_t key_capacity(Range shard, std::uint64_t limit) {
    constexpr std::uint64_t least = std::uint64_t{4} << 20, most = std::uint64_t{1} << 30;
    if (is_byte) return 0;
    const std::uint64_t wanted = std::clamp(shard.count * sizeof(K) / 16, least, most);
    return std::max(std::min(wanted, limit / 8), std::uint64_t{1} << 16) / sizeof(K);
  }

  unsigned intervals() const { return static_cast<unsigned>(division_->parts().size()); }

  void upload(device::Stream& compute) {
    const bool is_host = context_.runtime.resources.backend == Backend::host;
    locator_ = division_->locator(is_host ? order::host_locator_cells : order::locator_cells);
    order::fill_table(division_->intervals(), locator_, staged_table_[0]);
    compute.upload(table_.data(), staged_table_.data(), table_.bytes());
    compute.upload(counts_.data(), zeros_.data(), zeros_.bytes());
  }

  /// Chooses the division of the first pass.
  void begin_search(device::Stream& compute) {
    takes_sample_ = false;
    if constexpr (is_byte) {
      division_ = Division<T>::of_all_keys(missing_);
      return;
    }
    const KeyRange<T> all{order::lowest_key<T>, order::highest_key<T>};
    const ranks::Session& session = context_.runtime.session;
    if (session.max(context_.shard.count > keys_.size() ? 1 : 0) == 0) {
      division_.emplace(missing_, std::vector{all});
      return;
    }
    room_ = static_cast<double>(session.sum(keys_.size())) * 0.6;
    bool is_random = true;
    session.collectively([&] { is_random = sample_->take(compute); });
    is_random = session.max(is_random ? 0 : 1) == 0;
    takes_sample_ = !is_random;
    alike_ = is_random ? 1 : static_cast<double>(sample_->block());
    divide(compute, {{all, fractions_, static_cast<double>(elements_)}});
    alike_ = 1;  // from now on, the sample is random
  }

  /// Chooses the division of the next pass, for ranks by the first key of their part.
  void narrow(device::Stream& compute, const std::map<K, std::vector<std::uint64_t>>& beyond) {
    std::vector<Group> groups;
    for (const auto& [first, ranks] : beyond) {
      const auto place = division_->find(ranks.front());
      const auto number = static_cast<double>(place.part->count);
      Group group{place.part->keys, {}, number};
      for (const std::uint64_t rank : ranks) {
        group.fractions.push_back((static_cast<double>(division_->find(rank).rank) + 0.5) / number);
      }
      groups.push_back(std::move(group));
    }
    takes_sample_ = false;
    divide(compute, groups);
  }

  void divide(device::Stream& compute, const std::vector<Group>& groups) {
    std::size_t statistics = 0;
    for (const Group& group : groups) statistics += group.fractions.size();
    const double allowed = room_ / static_cast<double>(statistics);
    Brackets next;
    std::vector<Group> wide;
    for (const Group& group : groups) {
      if (group.elements <= allowed) {
        next.list.push_back(group.keys);
        next.shares.spread.push_back({group.keys, share_of(group)});
      } else {
        wide.push_back(group);
      }
    }
    bracket(compute, wide, allowed, next);
    if (passes_ >= passes_with_brackets) cut(wide, next.cuts);
    division_.emplace(missing_, next.list, next.cuts, next.shares);
    shares_ = std::move(next.shares);
  }

  /// Adds a bracket for each statistic of the groups, with at most `allowed` elements each.
  void bracket(device::Stream& compute, const std::vector<Group>& groups, double allowed,
               Brackets& next) {
    std::vector<Wanted> wanted;
    for (const Group& group : groups) wanted.push_back({group.keys.first, group.keys.last});
    const auto choose = [&](Wanted& each) {
      if (each.total == 0) return;
      const Group& group = groups[static_cast<std::size_t>(&each - wanted.data())];
      for (const double fraction : group.fractions) {
        const auto [low, high] = sampled_ranks(fraction, each.total, allowed / group.elements);
        each.ranks.push_back(low);
        each.ranks.push_back(high);
      }
    };
    selection_.run(compute, {sample_->data(), sample_->count()}, wanted, choose);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (wanted[i].total == 0) cut({groups[i]}, next.cuts);
      for (std::size_t k = 0; k < wanted[i].ranks.size(); k += 2) {
        add_shares(wanted[i], k, share_of(groups[i]), next.shares);
        KeyRange<T> keys{wanted[i].found[k].key, wanted[i].found[k + 1].key};
        // Elements beyond those of the sample are possible.
        if (wanted[i].ranks[k] == 0) keys.first = wanted[i].first;
        if (wanted[i].ranks[k + 1] + 1 == wanted[i].total) keys.last = wanted[i].last;
        next.list.push_back(keys);
      }
    }
  }

  /// Adds what the sample tells about the bracket between the ranks k and k + 1. The keys in the
  /// sample are this share of the elements.
  static void add_shares(const Wanted& sampled, std::size_t k, double share, Shares<T>& shares) {
    const auto &low = sampled.found[k], &high = sampled.found[k + 1];
    const double each = share / static_cast<double>(sampled.total);
    shares.equal[low.key] = static_cast<double>(low.equal) * each;
    shares.equal[high.key] = static_cast<double>(high.equal) * each;
    if (low.key == high.key) return;
    const std::uint64_t begin = sampled.ranks[k] - low.before + low.equal;
    const std::uint64_t end = sampled.ranks[k + 1] - high.before;
    shares.spread.push_back({{low.key, high.key}, static_cast<double>(end - begin) * each});
  }

  /// The ranks in a sample of `total` elements between which a statistic lies: five standard
  /// deviations from its place, but with no more than the share `allowed` of the elements between
  /// them. If all elements of a block are alike, the sample counts as one of its blocks.
  std::pair<std::uint64_t, std::uint64_t> sampled_ranks(double fraction, std::uint64_t total,
                                                        double allowed) const {
    constexpr double deviations = 5;
    const auto n = static_cast<double>(total);
    const double spread =
        deviations * std::sqrt(n * fraction * (1 - fraction) * alike_) + 2 * deviations * alike_;
    const double half = std::max(std::min(spread, allowed * n / 2), 1.0);
    const double low = std::floor(fraction * n - half), high = std::ceil(fraction * n + half);
    return {static_cast<std::uint64_t>(std::max(low, 0.0)),
            static_cast<std::uint64_t>(std::min(high, n - 1))};
  }

  /// Divides the keys of groups in equal steps.
  static void cut(const std::vector<Group>& groups, std::vector<K>& cuts) {
    for (const Group& group : groups) {
      const std::uint64_t steps = std::clamp<std::uint64_t>(200 / groups.size(), 2, 64);
      const K step = (group.keys.last - group.keys.first) / static_cast<K>(steps) + 1;
      for (K end = group.keys.first; group.keys.last - end >= step;) {
        end += step;
        cuts.push_back(end - 1);
      }
    }
  }

  /// Finds statistics among the collected keys.
  void select(device::Stream& compute, std::uint64_t collected,
              const std::map<K, std::vector<std::uint64_t>>& among,
              std::map<std::uint64_t, K>& found) {
    std::vector<Wanted> wanted;
    std::vector<std::uint64_t> order;
    for (const auto& [first, ranks] : among) {
      Wanted each{first, division_->find(ranks.front()).part->keys.last};
      for (const std::uint64_t rank : ranks) {
        each.ranks.push_back(division_->find(rank).rank);
        order.push_back(rank);
      }
      wanted.push_back(std::move(each));
    }
    selection_.run(compute, {keys_.data(), collected}, wanted, [](Wanted&) {});
    auto rank = order.begin();
    for (const Wanted& each : wanted) {
      for (const auto& each_found : each.found) found[*rank++] = each_found.key;
    }
  }

  const stream::ShardContext& context_;
  const std::uint64_t elements_;
  const std::vector<KeyRange<T>> missing_;
  const std::vector<double> fractions_;
  Selection<K> selection_;
  std::optional<Sample<T>> sample_;      // not for bytes
  std::optional<Division<T>> division_;  // of the current or the next pass; empty before the first
  Shares<T> shares_;                     // by the sample, also for the pass that only counts
  order::Locator<T> locator_;
  device::Buffer<order::PartitionTable<T>> table_, staged_table_;
  device::Buffer<std::uint64_t> counts_, staged_counts_, zeros_;
  device::Buffer<K> keys_;
  double room_ = 0;            // of all ranks, in keys
  double alike_ = 1;           // elements of the sample that may be alike
  bool takes_sample_ = false;  // during the pass
  std::int64_t passes_ = 0;
};

}  // namespace shardstream::workloads::order_statistics
