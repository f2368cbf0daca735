// The part of Engine that adds the sums of the layers of split-k.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/memory/memory.hpp"
#include "workloads/product/engine/engine.hpp"

namespace shardstream::workloads::product {

/// Enqueues collectives between the layers, after the work of `stream`; later work of `stream`
/// waits for them. A rank belongs to several communicators, so it enqueues all collectives on one
/// stream, that of the panels' gathers. The gathers of the next super-tile come after this call.
template <class Call>
void Engine::among_layers(device::Stream& stream, const Call& call) {
  device::Stream& collectives = ring_.arrivals();
  stream.record(*given_);
  collectives.wait(*given_);
  call(collectives);
  collectives.record(*received_);
  stream.wait(*received_);
}

/// Adds the references of the check of all layers, in the order of the layers.
void Engine::gather_check(device::Stream& stream) {
  const std::uint64_t count = check_pitch_;
  among_layers(stream, [&](device::Stream& on) {
    layers_->all_gather(on, check_.data(), checks_.data(), count * sizeof(double));
    variables_.gather(on, *layers_);
  });
  const double* sum = checks_.data();
  for (std::uint64_t layer = 1; layer < plan_.shape.box.depth; ++layer) {
    stream.launch(gemm::add_kernel(), {sum, checks_.data() + layer * count, check_.data(),
                                       gemm::Precision::fp64, count});
    sum = check_.data();
  }
}

/// Sends the partial sums of each tile to its owner, which folds the nodes of all layers. If this
/// rank has no tiles, the ranks that it would exchange with have none either.
void Engine::exchange(device::Stream& stream, std::uint64_t super_number) {
  const PlacedSuperTile& super_tile = super_tiles_[super_number];
  const std::uint64_t layers = plan_.shape.box.depth;
  const std::uint64_t edge = moments_ * plan_.problem().tile.m;  // accumulators are contiguous
  if (super_tile.tiles.empty()) return;
  gather_check(stream);
  settle(stream, super_number);
  for (std::uint64_t first = 0; first < super_tile.tiles.size(); first += layers) {
    for (std::uint64_t row = 0; row < edge; row += plan_.shape.exchange_rows) {
      exchange_rows(stream, super_tile, first,
                    intersection({row, plan_.shape.exchange_rows}, {0, edge}));
    }
    const std::uint64_t mine = first + plan_.part.layer;
    if (mine < super_tile.tiles.size()) finish_tile(stream, 0, super_number, mine, 0);
  }
}

/// Exchanges some rows of the accumulators of consecutive tiles. Layer l receives those of tile
/// `first` + l.
void Engine::exchange_rows(device::Stream& stream, const PlacedSuperTile& super_tile,
                           std::uint64_t first, Range rows) {
  const std::uint64_t nodes = plan_.shape.max_nodes;
  const std::size_t bytes = rows.count * row_bytes_, offset = rows.first * row_bytes_;
  const auto place = [&](const device::Buffer<std::byte>& buffer, std::uint64_t layer,
                         std::uint64_t node) {
    return buffer.data() + (layer * nodes + node) * bytes;
  };
  const std::uint64_t tiles = std::min(plan_.shape.box.depth, super_tile.tiles.size() - first);
  for (std::uint64_t layer = 0; layer < tiles; ++layer) {
    for (std::uint64_t node = 0; node < plan_.part.nodes.size(); ++node) {
      stream.launch(memory::copy_kernel(),
                    {accumulator(node, first + layer) + offset, place(send_, layer, node), bytes});
    }
  }
  among_layers(stream, [&](device::Stream& on) {
    layers_->all_to_all(on, send_.data(), receive_.data(), nodes * bytes);
  });
  if (plan_.part.layer >= tiles) return;
  const std::vector<FoldAddition> fold = plan_.shape.fold();
  for (const FoldAddition& add : fold) {
    const bool root = &add == &fold.back();
    std::byte* const left = place(receive_, add.left_layer, add.left_node);
    stream.launch(gemm::add_kernel(),
                  {left, place(receive_, add.right_layer, add.right_node),
                   root ? accumulator(0, first + plan_.part.layer) + offset : left,
                   operands_.precision, rows.count * plan_.problem().tile.n});
  }
}

}  // namespace shardstream::workloads::product
