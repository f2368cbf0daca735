// Sources as matrices.
#pragma once

#include <memory>
#include <utility>

#include "io/source/matrix.hpp"

namespace shardstream::test {

/// A source of one or two dimensions as a matrix.
inline std::unique_ptr<io::Matrix> matrix_of(std::unique_ptr<io::Source> source) {
  io::MatrixDimensions dimensions = io::rows_and_columns(*source);
  return std::make_unique<io::Matrix>(std::move(source), std::move(dimensions));
}

}  // namespace shardstream::test
