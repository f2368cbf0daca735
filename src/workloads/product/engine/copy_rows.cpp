#include "workloads/product/engine/copy_rows.hpp"

#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/round_elements.hpp"

namespace shardstream::workloads::product {

std::size_t bytes_at_once(const io::Matrix& matrix, bool held) {
  constexpr std::size_t long_row = std::size_t{4} << 10, in_core_cache = std::size_t{128} << 10;
  if (held) return long_row;
  return matrix.copies_from_cache() ? in_core_cache : SIZE_MAX;
}

std::uint64_t convert_elements(const RowCopy& copy, const std::byte* from, std::uint64_t count,
                               std::byte* to) {
  if (copy.rounded) {
    return gemm::round_elements(copy.type, copy.precision, copy.backend, from, count, to);
  }
  const std::uint64_t bytes = count * copy.element;
  return from == to ? gemm::word_checksum(to, bytes) : gemm::copy_with_checksum(from, bytes, to);
}

bool readers_round(const Operands& operands, gemm::Side side, Backend backend) {
  return !operands.uploads_as_stored() &&
         gemm::readers_round(operands.matrix(side).type(), operands.precision, backend);
}

}  // namespace shardstream::workloads::product
