#include "workloads/product/engine/layer_exchange.hpp"

#include <vector>

#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/memory/memory.hpp"

namespace shardstream::workloads::product {

using device::Memory;

LayerExchange::LayerExchange(device::Device& device, const Operands& operands, const Plan& plan,
                             comm::Communicator* layers)
    : operands_(operands),
      plan_(plan),
      layers_(layers),
      row_bytes_(plan.problem().tile.n * gemm::accumulator_bytes(operands.precision)),
      checks_(device, Memory::device, plan.buffers.check.gathered_z / sizeof(double)),
      send_(device, Memory::device, plan.buffers.send),
      receive_(device, Memory::device, plan.buffers.receive),
      given_(device.make_event()),
      received_(device.make_event()) {}

template <class Call>
void LayerExchange::among_layers(const Streams& streams, const Call& call) {
  streams.compute.record(*given_);
  streams.collectives.wait(*given_);
  call(streams.collectives);
  streams.collectives.record(*received_);
  streams.compute.wait(*received_);
}

void LayerExchange::gather_check(const Streams& streams, double* check, std::uint64_t count,
                                 VariableSums& variables) {
  among_layers(streams, [&](device::Stream& on) {
    layers_->all_gather(on, check, checks_.data(), count * sizeof(double));
    variables.gather(on, *layers_);
  });
  const double* sum = checks_.data();
  for (std::uint64_t layer = 1; layer < plan_.shape.box.depth; ++layer) {
    streams.compute.launch(gemm::add_kernel(), {sum, checks_.data() + layer * count, check,
                                                gemm::Precision::fp64, count});
    sum = check;
  }
}

void LayerExchange::fold(const Streams& streams, const Accumulator& accumulator, Range tiles) {
  // The accumulators of a tile's moments are contiguous.
  const std::uint64_t rows = plan_.problem().moments.count * plan_.problem().tile.m;
  for (std::uint64_t row = 0; row < rows; row += plan_.shape.exchange_rows) {
    fold_rows(streams, accumulator, tiles,
              intersection({row, plan_.shape.exchange_rows}, {0, rows}));
  }
}

/// Exchanges and folds some rows of the accumulators.
void LayerExchange::fold_rows(const Streams& streams, const Accumulator& accumulator, Range tiles,
                              Range rows) {
  const std::uint64_t nodes = plan_.shape.max_nodes;
  const std::size_t bytes = rows.count * row_bytes_, offset = rows.first * row_bytes_;
  const auto place = [&](const device::Buffer<std::byte>& buffer, std::uint64_t layer,
                         std::uint64_t node) {
    return buffer.data() + (layer * nodes + node) * bytes;
  };
  for (std::uint64_t layer = 0; layer < tiles.count; ++layer) {
    for (std::uint64_t node = 0; node < plan_.part.nodes.size(); ++node) {
      streams.compute.launch(
          memory::copy_kernel(),
          {accumulator(node, tiles.first + layer) + offset, place(send_, layer, node), bytes});
    }
  }
  among_layers(streams, [&](device::Stream& on) {
    layers_->all_to_all(on, send_.data(), receive_.data(), nodes * bytes);
  });
  if (plan_.part.layer >= tiles.count) return;
  const std::vector<FoldAddition> fold = plan_.shape.fold();
  for (const FoldAddition& add : fold) {
    const bool root = &add == &fold.back();
    std::byte* const left = place(receive_, add.left_layer, add.left_node);
    streams.compute.launch(gemm::add_kernel(),
                           {left, place(receive_, add.right_layer, add.right_node),
                            root ? accumulator(0, tiles.first + plan_.part.layer) + offset : left,
                            operands_.precision, rows.count * plan_.problem().tile.n});
  }
}

}  // namespace shardstream::workloads::product
