// The results of the laws: a value with its 95 % interval, or the reason why there is no value.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>

namespace shardstream::study {

struct Interval {
  double lo = 0, hi = 0;
};

/// A value, its standard error and its 95 % interval, all in the value's unit. There is no interval
/// (and the standard error is NaN) if the launches give no measure of their own noise.
struct Estimate {
  double value = 0;
  double standard_error = std::nan("");
  std::optional<Interval> interval{};
};

/// A value, or a sentence without a full stop that says why there is none.
template <typename T>
struct Result {
  std::optional<T> value;
  std::string why_not;  ///< empty if there is a value

  static Result of(T found) { return {std::move(found), {}}; }
  static Result none(std::string reason) { return {std::nullopt, std::move(reason)}; }
  explicit operator bool() const { return value.has_value(); }
  const T* operator->() const { return &value.value(); }
  const T& operator*() const { return value.value(); }
};

}  // namespace shardstream::study
