// Products of 16 x depth and depth x 8 real numbers, by which the units of a multiprocessor are
// compared.
#pragma once

#include <cstdint>

#include "experiments/numbers.hpp"

namespace shardstream::experiments::instructions {

inline constexpr unsigned rows = 16, columns = 8, outputs = rows * columns;  // of C

/// Real numbers in [0, 1) times a scale, for errors. Host and device have the same ones.
struct RealElements {
  float scale_of_a = 1, scale_of_b = 1;
  constexpr float a(unsigned row, unsigned k) const {
    return scale_of_a * unit_number(std::uint64_t{k} * rows + row);
  }
  constexpr float b(unsigned k, unsigned column) const {
    return scale_of_b * unit_number((std::uint64_t{1} << 32) + std::uint64_t{k} * columns + column);
  }
};

}  // namespace shardstream::experiments::instructions
