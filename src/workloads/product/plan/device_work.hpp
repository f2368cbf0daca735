// The work of the device besides products: it makes panels, checks them and finished tiles, and
// adds partial sums. The prediction needs its time.
#pragma once

#include <cstdint>

#include "workloads/product/plan/schedule.hpp"

namespace shardstream::workloads::product {

/// A number of bytes or operations, for rates and shares.
inline double real(std::uint64_t number) {
  return static_cast<double>(number);
}

/// Work that is bound by device memory, the maximum over all ranks.
struct DeviceWork {
  double bytes = 0;  ///< read and written
  double calls = 0;  ///< that enqueue the work; a call takes some time however little the work is
};

/// The work that turns the uploads of a batch into panels, for a block of this depth. `keeps_b`:
/// Cut::keeps_b.
DeviceWork arrival_work(const Shape& shape, const Pass& pass, std::uint64_t depth, bool keeps_b);
/// The work beside the products of a batch: references of the check, sums of variables, and a share
/// of the additions of lanes and segments.
DeviceWork batch_work(const Shape& shape, const Pass& pass, std::uint64_t depth);
/// The work that finishes a tile: its check and checksum and, if it is symmetric, its mirror.
DeviceWork tile_work(const Shape& shape);

}  // namespace shardstream::workloads::product
