// Blocks of an HDF5 file that end in a checksum, as in the newer formats. HDF5 rejects a block with
// a changed byte, unless its checksum is corrected (the block is sealed again).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardstream::fuzz {

struct Sealed {
  std::size_t begin, length;  ///< the checksum's four bytes come behind
};

/// All blocks of a file, found by their signatures.
std::vector<Sealed> sealed_blocks(const std::string& bytes);

/// Corrects the checksums of blocks that still have their signature.
void seal(std::string& bytes, const std::vector<Sealed>& blocks);

}  // namespace shardstream::fuzz
