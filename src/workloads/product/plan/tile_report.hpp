// The report of the device on a tile of C.
#pragma once

#include <cstdint>

#include "kernels/gemm/check.hpp"

namespace shardstream::workloads::product {

/// The device writes it, and the host downloads it after the tile.
struct TileReport {
  gemm::TileVerdict verdict;
  std::uint64_t words, mirror_words;  ///< word checksums before the downloads
  std::uint64_t c_words;              ///< word checksum of the tile of C0 after its upload
  std::uint64_t sum_words;            ///< TileSums::add_checksums()
  double sensitivity;                 ///< gemm::PairwiseArgs::sensitivity
};

}  // namespace shardstream::workloads::product
