// Order statistics of keys in the device memory of all ranks, digit by digit: the ranks add their
// counts of a digit and choose the bins that hold the statistics. Exact, and the same on any ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <vector>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "device/buffer.hpp"
#include "kernels/order/digits.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads::order_statistics {

/// K is a type of keys.
template <class K>
class Selection {
 public:
  struct Keys {
    const K* data;  ///< in device memory
    std::uint64_t count;
  };
  /// The key with a rank. Of `equal` keys like it, `before` have lower ranks.
  struct Found {
    K key;
    std::uint64_t before, equal;
  };
  /// A range of keys, and the wanted 0-based ranks among the keys of the range.
  struct Wanted {
    K first, last;
    std::vector<std::uint64_t> ranks = {};
    std::vector<Found> found = {};  ///< out: for each rank
    std::uint64_t total = 0;        ///< out: the number of keys in the range
  };

  /// Bytes of device memory.
  static constexpr std::uint64_t device_bytes() {
    return order::max_digit_ranges * sizeof(order::DigitRange<K>) +
           order::max_digit_bins * sizeof(std::uint64_t);
  }

  Selection() = default;
  explicit Selection(runtime::Runtime& runtime) : runtime_(&runtime) {
    device::Device& device = *runtime.device;
    ranges_ = {device, device::Memory::device, order::max_digit_ranges};
    counts_ = {device, device::Memory::device, order::max_digit_bins};
    staged_ranges_ = {device, device::Memory::pinned, order::max_digit_ranges};
    zeros_ = {device, device::Memory::pinned, order::max_digit_bins};
    staged_counts_ = {device, device::Memory::pinned, order::max_digit_bins};
    std::fill_n(zeros_.data(), zeros_.size(), 0);
  }

  /// Finds the wanted keys among those of all ranks. The ranges are in order and have no common
  /// keys; they are the same on all ranks. `choose(wanted)` is called when `total` is known, and
  /// may set the ranks, which are below `total`. Collective.
  template <class Choose>
  void run(device::Stream& stream, Keys keys, std::vector<Wanted>& wanted, const Choose& choose) {
    if (wanted.empty()) return;
    std::vector<Node> nodes;
    for (Wanted& each : wanted) nodes.push_back({each.first, each.last, {}});
    bool knows_totals = false;
    while (!nodes.empty()) {
      const unsigned bits = bits_for(nodes.size());
      count(stream, keys, nodes, bits);
      if (!knows_totals) {
        for (std::size_t i = 0; i < nodes.size(); ++i) begin(nodes[i], wanted[i], i, bits, choose);
        knows_totals = true;
      }
      nodes = descend(nodes, bits);
    }
  }

 private:
  struct Target {
    Found* found;
    std::uint64_t rank;
  };
  struct Node {
    K first, last;
    std::vector<Target> targets;
  };

  static unsigned bits_for(std::size_t nodes) {
    expect(nodes <= order::max_digit_ranges, "there are enough counters for all order statistics");
    return std::min(11U, static_cast<unsigned>(std::bit_width(order::max_digit_bins / nodes)) - 1);
  }
  static unsigned shift_of(const Node& node, unsigned bits) {
    const auto width =
        static_cast<unsigned>(std::bit_width(static_cast<K>(node.last - node.first)));
    return width > bits ? width - bits : 0;
  }
  const std::uint64_t* bins_of(std::size_t node, unsigned bits) const {
    return staged_counts_.data() + (node << bits);
  }

  /// Counts the keys of all ranks in the bins of each node.
  void count(device::Stream& stream, Keys keys, const std::vector<Node>& nodes, unsigned bits) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      staged_ranges_[i] = {nodes[i].first, nodes[i].last, shift_of(nodes[i], bits)};
    }
    const std::size_t bins = nodes.size() << bits, bytes = bins * sizeof(std::uint64_t);
    stream.upload(ranges_.data(), staged_ranges_.data(),
                  nodes.size() * sizeof(order::DigitRange<K>));
    stream.upload(counts_.data(), zeros_.data(), bytes);
    stream.launch(order::digit_kernel<K>(),
                  order::DigitArgs<K>{keys.data, keys.count, ranges_.data(),
                                      static_cast<unsigned>(nodes.size()), bits, counts_.data()});
    comm::Communicator& ranks = *runtime_->communicator;
    ranks.all_reduce(stream, counts_.data(), counts_.data(), bins, comm::SumType::i64);
    stream.download(staged_counts_.data(), counts_.data(), bytes);
    ranks.wait(stream);
  }

  template <class Choose>
  void begin(Node& node, Wanted& wanted, std::size_t i, unsigned bits, const Choose& choose) {
    const std::uint64_t* const bins = bins_of(i, bits);
    for (std::size_t bin = 0; bin < std::size_t{1} << bits; ++bin) wanted.total += bins[bin];
    choose(wanted);
    wanted.found.resize(wanted.ranks.size());
    for (std::size_t k = 0; k < wanted.ranks.size(); ++k) {
      expect(wanted.ranks[k] < wanted.total, "a rank is below the number of keys");
      node.targets.push_back({&wanted.found[k], wanted.ranks[k]});
    }
  }

  /// The bins with targets. A bin of one key is a result.
  std::vector<Node> descend(const std::vector<Node>& nodes, unsigned bits) {
    std::map<K, Node> next;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      const unsigned shift = shift_of(node, bits);
      std::vector<Target> targets = node.targets;
      std::ranges::sort(targets, {}, &Target::rank);
      std::uint64_t below = 0;
      std::size_t bin = 0;
      for (const Target& target : targets) {
        const std::uint64_t* const bins = bins_of(i, bits);
        while (target.rank - below >= bins[bin]) below += bins[bin++];
        const K first = node.first + (static_cast<K>(bin) << shift);
        if (shift == 0) {
          *target.found = {first, target.rank - below, bins[bin]};
          continue;
        }
        const K more = std::min<K>(node.last - first, (K{1} << shift) - 1);
        Node& to = next.try_emplace(first, Node{first, first + more, {}}).first->second;
        to.targets.push_back({target.found, target.rank - below});
      }
    }
    std::vector<Node> list;
    for (auto& [first, node] : next) list.push_back(std::move(node));
    return list;
  }

  runtime::Runtime* runtime_ = nullptr;
  device::Buffer<order::DigitRange<K>> ranges_, staged_ranges_;
  device::Buffer<std::uint64_t> counts_, staged_counts_, zeros_;
};

}  // namespace shardstream::workloads::order_statistics
