// The exchange between the layers of split-k: the ranks with the same tiles add their partial sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "comm/communicator.hpp"
#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"
#include "workloads/product/data/operands.hpp"
#include "workloads/product/engine/normalization/variable_sums.hpp"
#include "workloads/product/plan/product_plan.hpp"

namespace shardstream::workloads::product {

/// Allocates once. Operands, plan and `layers` must outlive it. Its functions enqueue work and
/// collectives, in the same order on all layers. They do not synchronise.
class LayerExchange {
 public:
  /// Collectives run on their own stream, after the work of `compute`; later work of `compute`
  /// waits for them. A rank belongs to several communicators, so it enqueues all collectives on one
  /// stream, that of the panels' gathers.
  struct Streams {
    device::Stream& compute;
    device::Stream& collectives;
  };
  /// The accumulator of a tile at a level of the tree over segments.
  using Accumulator = std::function<std::byte*(std::uint64_t level, std::uint64_t tile)>;

  /// `layers`: the ranks with the same tiles, one per layer; null if there is one layer.
  LayerExchange(device::Device& device, const Operands& operands, const Plan& plan,
                comm::Communicator* layers);

  /// Adds the references of the check of all layers, `count` doubles at `check`, in the order of
  /// the layers, and gathers the sums of variables.
  void gather_check(const Streams& streams, double* check, std::uint64_t count,
                    VariableSums& variables);
  /// Sends the partial sums of `tiles` consecutive tiles, at most one per layer, to their owners:
  /// layer l owns tile `first` + l, and folds the nodes of all layers into its accumulator.
  void fold(const Streams& streams, const Accumulator& accumulator, Range tiles);

 private:
  template <class Call>
  void among_layers(const Streams& streams, const Call& call);
  void fold_rows(const Streams& streams, const Accumulator& accumulator, Range tiles, Range rows);

  const Operands& operands_;
  const Plan& plan_;
  comm::Communicator* layers_;
  std::size_t row_bytes_;                     ///< of a row of a tile
  device::Buffer<double> checks_;             ///< the references of every layer
  device::Buffer<std::byte> send_, receive_;  ///< some rows of the tiles of all layers
  /// Recorded when this rank's data for a collective is ready, and after the collective.
  std::unique_ptr<device::Event> given_, received_;
};

}  // namespace shardstream::workloads::product
