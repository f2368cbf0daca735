// A short text that stands for a long one in comparisons.
#pragma once

#include <string>
#include <string_view>

namespace shardstream {

/// 16 hexadecimal digits, which two different texts share only by chance (CRC-64/XZ).
std::string digest_of(std::string_view text);

}  // namespace shardstream
