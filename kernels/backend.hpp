// Where kernels run: on the CPUs of the host, or with CUDA on a GPU.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardstream {

enum class Backend : std::uint8_t { host, cuda };

/// The backend with this name, "host" or "cuda": that of DeviceInfo::backend.
constexpr Backend backend_named(std::string_view name) {
  return name == "host" ? Backend::host : Backend::cuda;
}

}  // namespace shardstream
