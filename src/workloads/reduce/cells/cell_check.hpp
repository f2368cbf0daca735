// The result of the check of sampled cells.
#pragma once

#include "kernels/reduce/reference.hpp"

namespace shardstream::workloads {

/// The largest deviations of sampled cells, each relative to its bound.
struct CellCheck {
  reduce::Deviation exact;  ///< of counts and extremes: 0, or 1 if one is wrong
  reduce::Deviation sum, m2, m3, m4, magnitude, weight;
  reduce::Deviation product;  ///< of the mantissa, with the exponent of the reference

  void add(const CellCheck& other) {
    for (const auto member :
         {&CellCheck::exact, &CellCheck::sum, &CellCheck::m2, &CellCheck::m3, &CellCheck::m4,
          &CellCheck::magnitude, &CellCheck::weight, &CellCheck::product}) {
      this->*member = reduce::Deviation::worse(this->*member, other.*member);
    }
  }
};

}  // namespace shardstream::workloads
