// Results that leave the range of double although the elements are finite: their lines, and the
// sums that have lost digits because they are too small.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/text.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// A sum of `count` products below this may have lost digits, since products below 2^-1022 are
/// rounded to multiples of 2^-1074.
constexpr double smallest_sum(double count) {
  return count * count * 0x1p-1022;
}

/// Operations with values that cannot be represented, or with steps that cannot.
struct OutOfRange {
  std::vector<std::string> overflow;  ///< sums or products of finite elements exceed it
  std::vector<std::string> underflow;
  std::vector<std::string> wide;  ///< sums of integers exceed 64 bits

  bool empty() const { return overflow.empty() && underflow.empty() && wide.empty(); }

  /// Adds the lines and, unless something is wrong already, the verdict of a result the other
  /// values of which are verified.
  void describe(bool is_verified, Outcome& outcome) const {
    std::vector<std::string> beyond = overflow, sentences;
    beyond.insert(beyond.end(), wide.begin(), wide.end());
    if (!beyond.empty()) outcome.metrics.push_back({"overflow", join(beyond, ", ")});
    if (!underflow.empty()) outcome.metrics.push_back({"underflow", join(underflow, ", ")});
    if (!is_verified) return;
    outcome.verified = empty() ? Verification::passed : Verification::partly;
    if (!overflow.empty()) {
      sentences.push_back(
          fmt::format("{}: sums or products of finite elements exceed the range of double: divide "
                      "the data by a "
                      "constant",
                      join(overflow, ", ")));
    }
    if (!underflow.empty()) {
      sentences.push_back(
          fmt::format("{}: products of elements or weights are too small for double and have lost "
                      "digits: multiply the data, or the weights, by a constant",
                      join(underflow, ", ")));
    }
    if (!wide.empty()) {
      sentences.push_back(fmt::format(
          "{} of some cells exceeds 64 bits and is undefined there: pass --input.type f64",
          join(wide, ", ")));
    }
    if (!sentences.empty()) outcome.verdict = join(sentences, "; ");
  }
};

}  // namespace shardstream::workloads
