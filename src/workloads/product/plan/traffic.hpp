// The uploads of a product, and the messages between its ranks.
#pragma once

#include <cstdint>

#include "workloads/product/plan/schedule.hpp"

namespace shardstream::workloads::product {

/// One rank's traffic and work, in bytes and flop.
struct Traffic {
  std::uint64_t uploads = 0;  ///< panels with their padding, and C0
  /// A lower bound of the uploads for this decomposition, without padding: the uploads with the
  /// best super-tiles that would fit if accumulators used all of the memory.
  std::uint64_t min_uploads = 0;
  std::uint64_t a_gathered = 0;  ///< received in all-gathers of A panels
  std::uint64_t b_gathered = 0;  ///< received in all-gathers of B panels and their y
  std::uint64_t exchanged = 0;   ///< received in the exchanges of split-k, with z
  double flops = 0;              ///< of this rank's products, without padding

  /// Bytes from other ranks, of all kinds.
  std::uint64_t received() const { return a_gathered + b_gathered + exchanged; }
};

/// Bytes that a rank uploads, or receives from other ranks, for a batch of the pass whose block has
/// this depth: the maximum over all ranks. Uploads are an upper bound: Traffic::uploads leaves out
/// all padding of raw operands, this only that of their whole rows and columns.
std::uint64_t upload_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
std::uint64_t gather_bytes(const Shape& shape, const Pass& pass, std::uint64_t depth);
/// The sum of `bytes`, which is one of these two functions, over the first `blocks` blocks of K.
std::uint64_t sum_over_blocks(std::uint64_t (*bytes)(const Shape&, const Pass&, std::uint64_t),
                              const Shape& shape, const Pass& pass, std::uint64_t blocks);
/// Bytes that a rank receives in the exchange at the end of a super-tile of the pass.
std::uint64_t exchange_bytes(const Shape& shape, const Pass& pass);

/// Traffic::min_uploads without C0, for the rank at this place in the box.
std::uint64_t min_uploads(const Shape& shape, std::uint64_t row, std::uint64_t column,
                          std::uint64_t layer);

}  // namespace shardstream::workloads::product
