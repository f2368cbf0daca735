// Unique names.
#pragma once

#include <string>

namespace shardstream {

/// A random UUID, version 4 (RFC 4122), in lower case.
std::string random_uuid();

}  // namespace shardstream
