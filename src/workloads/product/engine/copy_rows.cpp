#include "workloads/product/engine/copy_rows.hpp"

#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/round_elements.hpp"

namespace shardstream::workloads::product {
std::uint64_t convert_elements(const RowCopy& copy, const std::byte* from, std::uint64_t count,
                               std::byte* to) {
  if (copy.rounded) {
    return gemm::round_elements(copy.type, copy.precision, copy.backend, from, count, to);
  }
  const std::uint64_t bytes = count * copy.element;
  return from == to ? gemm::word_checksum(to, bytes) : gemm::copy_with_checksum(from, bytes, to);
}

bool readers_round(const Operands& operands, gemm::Side side, Backend backend) {
  return !operands.normalizes() &&
         gemm::readers_round(operands.matrix(side).type(), operands.precision, backend);
}

}  // namespace shardstream::workloads::product
