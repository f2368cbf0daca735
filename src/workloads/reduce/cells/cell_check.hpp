// The result of the check of sampled cells.
#pragma once

#include <initializer_list>

namespace shardstream::workloads {

/// The difference between a value and its reference, and the bound for it.
struct Deviation {
  double error = 0, bound = 0;

  bool passes() const { return error <= bound; }
  /// The one with the larger error relative to its bound.
  static Deviation worse(const Deviation& a, const Deviation& b) {
    if (a.passes() != b.passes()) return a.passes() ? b : a;
    // Compares a.error / a.bound with b.error / b.bound, without a division by zero.
    const double left = a.error * b.bound, right = b.error * a.bound;
    if (left != right) return left > right ? a : b;
    return a.bound >= b.bound ? a : b;
  }
};

/// The largest deviations of sampled cells, each relative to its bound.
struct CellCheck {
  Deviation exact;  ///< of counts and extremes: 0, or 1 if one is wrong
  Deviation sum, m2, m3, m4, magnitude, weight;
  Deviation product;  ///< of the mantissa, with the exponent of the reference

  void add(const CellCheck& other) {
    for (const auto member :
         {&CellCheck::exact, &CellCheck::sum, &CellCheck::m2, &CellCheck::m3, &CellCheck::m4,
          &CellCheck::magnitude, &CellCheck::weight, &CellCheck::product}) {
      this->*member = Deviation::worse(this->*member, other.*member);
    }
  }
};

}  // namespace shardstream::workloads
