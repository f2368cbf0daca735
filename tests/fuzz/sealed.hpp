// Blocks of an HDF5 file that end in a checksum of their own, as the newer formats have them. A
// changed byte in one is found by its checksum and gets no further, unless it is sealed again.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace shardstream::fuzz {

struct Sealed {
  std::size_t begin, length;  ///< the checksum's four bytes come behind
};

/// All of a file's, found by their signatures.
std::vector<Sealed> sealed_blocks(const std::string& bytes);

/// Makes the checksums right, where the blocks still are.
void seal(std::string& bytes, const std::vector<Sealed>& blocks);

}  // namespace shardstream::fuzz
