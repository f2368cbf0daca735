// The device memory and the traffic of a product that is cut in a certain way.
#pragma once

#include <cstdint>

#include "workloads/product/plan/cuts.hpp"

namespace shardstream::workloads::product {

Buffers buffers_of(const Shape& shape, const Extents& extents);
/// The sum of the buffers of one batch in the ring.
std::uint64_t batch_bytes(const BatchBuffers& batch);
/// The sum of the buffers of the verification; y belongs to the batches.
std::uint64_t check_bytes(const CheckBuffers& check);
/// The sum of all buffers and of Ranks::other_bytes, with `ring` batches in the ring.
std::uint64_t device_bytes(const Shape& shape, const Extents& extents, std::uint64_t ring);

/// Bytes that a rank uploads, or receives from other ranks, for a batch of the pass whose block has
/// this depth: the maximum over all ranks.
std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
/// The sum of `bytes`, which is one of these two functions, over the first `blocks` blocks of K.
std::uint64_t of_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                        const Shape& shape, const Pass& pass, std::uint64_t blocks);
/// Bytes that a rank receives in the exchange at the end of a super-tile of the pass.
std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass);

/// Traffic::min_uploads without C0, for the rank at this place in the box.
std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer);

}  // namespace shardstream::workloads::product
