// A rectangle of a stored matrix, as a rank uploads it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/shard.hpp"
#include "io/source/matrix.hpp"
#include "workloads/product/engine/held_matrix.hpp"

namespace shardstream::workloads::product {

/// A rectangle of a stored matrix. Its rows are dense on the host; on the device they may have a
/// pitch. Elements outside the valid part, which are beyond the matrix or belong to another block,
/// are uploaded as zeros. The rectangle of a raw operand (UploadedOperand) is valid everywhere.
struct Rectangle {
  const io::Matrix* matrix;
  const HeldMatrix* held;  ///< the elements in host memory; null: they are read from the matrix
  Range rows, columns, valid_rows, valid_columns;
  std::size_t element;  ///< bytes of an element as uploaded
  bool rounded;         ///< whether readers convert to panel elements

  std::size_t row_bytes() const { return columns.count * element; }
  std::size_t bytes() const { return rows.count * row_bytes(); }
  std::size_t stored_row_bytes() const { return columns.count * size_of(matrix->type()); }
};

/// Returns the address of some rows of the rectangle as stored, dense, with zeros outside the valid
/// part. If they are in host memory in this form, it is their address there. Otherwise they are
/// copied to `to`. `rows` are indices of the matrix. Throws what the matrix throws.
const std::byte* stored_rows(const Rectangle& from, Range rows, std::byte* to);

}  // namespace shardstream::workloads::product
