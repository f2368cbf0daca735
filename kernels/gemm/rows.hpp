// How a host function's parts share rows.
#pragma once

#include <cstdint>

namespace shardstream::gemm {

struct Rows {
  std::uint64_t begin, end;
};

/// Those of part `part` of `parts`, near-equal.
constexpr Rows rows_of(std::uint64_t rows, unsigned part, unsigned parts) {
  return {rows * part / parts, rows * (part + 1) / parts};
}

}  // namespace shardstream::gemm
