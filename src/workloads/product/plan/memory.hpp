// The device memory and the traffic of a product that is cut in a certain way.
#pragma once

#include <cstdint>

#include "workloads/product/plan/cuts.hpp"

namespace shardstream::workloads::product {

Buffers buffers_of(const Shape& shape, const Extents& extents);
std::uint64_t batch_bytes(const BatchBuffers& batch);  ///< of one batch in the ring
std::uint64_t check_bytes(const CheckBuffers& check);  ///< of the verification, without y
/// All buffers, and the other_bytes of the problem.
std::uint64_t device_bytes(const Shape& shape, const Extents& extents, std::uint64_t ring);

/// Bytes of a batch of the pass whose block has this depth, for the rank with the maximum: from the
/// host, and from other ranks.
std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
/// The sum of one of these two functions over `blocks` blocks, which include the first ones of K.
std::uint64_t of_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                        const Shape& shape, const Pass& pass, std::uint64_t blocks);
/// Bytes from other ranks at the end of one of the pass's super-tiles.
std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass);

/// Traffic::min_uploads without the C that is read.
std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer);

}  // namespace shardstream::workloads::product
