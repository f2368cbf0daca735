// The last step of a pass: each rank folds the nodes of its outputs into roots. If ranks have cells
// in common, they exchange these nodes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "kernels/cells/cells.hpp"

#include "runtime/runtime.hpp"
#include "workloads/reduce/cells/rank_nodes.hpp"
#include "workloads/reduce/cells/shard_cells.hpp"
#include "workloads/stream/computation.hpp"

namespace shardstream::workloads {

template <class T>
class CellExchange {
 public:
  /// For the cells `pass`.
  CellExchange(runtime::Runtime& runtime, const CellPlan& plan, const RankNodes& nodes,
               const cells::Choice& choice, cells::CellRange pass)
      : runtime_(runtime),
        nodes_(nodes),
        quantities_(choice.quantities),
        words_(cells::moment_words<T>(choice.quantities)),
        pass_(pass),
        groups_(plan.layout().groups),
        ranks_(static_cast<std::uint64_t>(runtime.session.size())) {
    if (nodes.are_apart) return;
    own_ = share_of(static_cast<std::uint64_t>(runtime.session.rank()));
    tile_ = exchange_tile(pass.count * groups_, ranks_, nodes.max, words_);
    device::Device& device = *runtime.device;
    const std::uint64_t size = ranks_ * nodes.max * words_ * tile_;
    send_ = {device, device::Memory::device, size};
    receive_ = {device, device::Memory::device, size};
    stack_ = {device, words_, nodes.max_depth * tile_};
    roots_ = {device, words_, std::max<std::uint64_t>(1, own_.count)};
  }

  /// Uploads the lists that kernels need. Not collective.
  void prepare(device::Stream& stream) {
    if (nodes_.are_apart) return;
    device::Device& device = *runtime_.device;
    std::vector<cells::Node> places;
    std::vector<std::uint64_t> slots;
    for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t n = 0; n < nodes_.of[rank].size(); ++n) {
        places.push_back(nodes_.of[rank][n]);
        slots.push_back((rank * nodes_.max + n) * words_);
      }
    }
    places_ = uploaded(device, stream, places);
    slots_ = uploaded(device, stream, slots);
    const cells::OutputRange all{{0, UINT64_MAX}, {0, UINT64_MAX}};
    item_ranges_ = uploaded(device, stream, std::vector(places.size(), all));
    std::vector<cells::CellRange> outputs;
    for (std::uint64_t first = 0; first < tiles() * tile_; first += tile_) {
      for (std::uint64_t rank = 0; rank < ranks_; ++rank) {
        const Range share = share_of(rank);
        const Range part = shardstream::intersection(share, {share.first + first, tile_});
        outputs.push_back({part.first, part.count});
      }
    }
    outputs_ = uploaded(device, stream, outputs);
  }

  /// Returns the moments of this rank's outputs, in device memory. Collective; the work is
  /// enqueued.
  cells::States run(device::Stream& stream, const ShardCells<T>& shard) {
    if (nodes_.are_apart) return fold_alone(stream, shard);
    for (std::uint64_t tile = 0; tile < tiles(); ++tile) exchange(stream, shard, tile);
    return roots_;
  }

 private:
  /// The outputs of a rank, if ranks have cells in common.
  Range share_of(std::uint64_t rank) const { return nodes_.outputs(rank, pass_, groups_).front(); }
  /// The first rank has the largest share.
  std::uint64_t tiles() const { return ceil_div(share_of(0).count, tile_); }

  /// To join all nodes into roots.
  cells::FoldArgs<T> root_args(const cells::NodeStates& nodes, const cells::States& roots) const {
    return {.nodes = nodes,
            .outputs = {nodes.cells, {0, nodes.groups}},
            .roots = roots,
            .quantities = quantities_};
  }

  /// The nodes of this rank have all of its outputs.
  cells::States fold_alone(device::Stream& stream, const ShardCells<T>& shard) {
    const auto is_root = [&](const cells::OutputRange& has) {
      return has.cells.count == shard.cells().count && has.groups.count == groups_;
    };
    if (shard.places().size() == 1 && is_root(shard.places().front().has)) return shard.nodes();
    auto args = root_args({shard.nodes(), shard.cells(), groups_}, shard.nodes());
    args.stack.depth = static_cast<unsigned>(shard.places().size());
    std::ranges::copy(shard.places(), args.stack.nodes);
    stream.launch(cells::Kernels<T>::fold(), args);
    return shard.nodes();
  }

  void exchange(device::Stream& stream, const ShardCells<T>& shard, std::uint64_t tile) {
    const cells::CellRange own = shard.cells();
    if (!shard.places().empty()) {
      const cells::CellRange in_pass{own.first - pass_.first, own.count};
      cells::PackArgs<T> args{.nodes = {shard.nodes(), in_pass, groups_},
                              .depth = shard.places().size(),
                              .max_nodes = nodes_.max,
                              .has = {},
                              .cells = pass_.count,
                              .outputs = outputs_.data() + tile * ranks_,
                              .ranks = ranks_,
                              .tile = tile_,
                              .packed = send_.data(),
                              .quantities = quantities_};
      for (std::size_t n = 0; n < shard.places().size(); ++n) {
        args.has[n] = shard.places()[n].has;
        args.has[n].cells.first -= pass_.first;
      }
      stream.launch(cells::Kernels<T>::pack(), args);
    }
    runtime_.communicator->all_to_all(stream, send_.data(), receive_.data(),
                                      nodes_.max * words_ * tile_ * sizeof(std::uint64_t));
    const std::uint64_t first = tile * tile_;
    if (first >= own_.count) return;
    const cells::States roots = roots_;
    const cells::CellRange outputs{0, std::min(tile_, own_.count - first)};
    auto args = root_args({stack_, outputs, 1}, {roots.words + first, roots.values});
    args.items = {.states = {receive_.data(), tile_},
                  .count = places_.size(),
                  .cells = tile_,
                  .places = places_.data(),
                  .outputs = item_ranges_.data(),
                  .slots = slots_.data()};
    stream.launch(cells::Kernels<T>::fold(), args);
  }

  runtime::Runtime& runtime_;
  const RankNodes& nodes_;
  const cells::Quantities quantities_;
  const unsigned words_;
  const cells::CellRange pass_;
  const std::uint64_t groups_, ranks_;
  Range own_;
  std::uint64_t tile_ = 1;
  device::Buffer<std::uint64_t> send_, receive_, slots_;
  device::Buffer<cells::Node> places_;
  device::Buffer<cells::OutputRange> item_ranges_;
  device::Buffer<cells::CellRange> outputs_;
  DeviceStates stack_, roots_;
};

}  // namespace shardstream::workloads
