#include "core/digest.hpp"

#include <fmt/format.h>

#include <boost/crc.hpp>
#include <cstdint>

namespace shardstream {

std::string digest_of(std::string_view text) {
  boost::crc_optimal<64, 0x42f0e1eba9ea3693, UINT64_MAX, UINT64_MAX, true, true> crc;
  crc.process_bytes(text.data(), text.size());
  return fmt::format("{:016x}", crc.checksum());
}

}  // namespace shardstream
