// The axes of an experiment, the quantities that it varies: their values, the choice of a user, and
// the points, which are all combinations of the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "core/table.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

/// A value of --axis, such as "stride=2,8". Values have the form of Axis::values, but a comma
/// separates words, too, if none of them has one.
struct AxisChoice {
  std::string experiment;  ///< empty: each chosen experiment that has the axis
  std::string axis, values;
};
using AxisChoices = std::vector<AxisChoice>;

/// The choices of "stride=2,8;offset.offset=0..8". Throws UsageError if a part has another form.
AxisChoices axis_choices(std::string_view text);
/// Throws UsageError if a choice names no axis of the `selected` experiments, or a value that the
/// axis does not have with these options; the message lists what is possible.
void check_choices(const AxisChoices& choices, std::span<const Experiment* const> selected,
                   const Options& options);

/// A value of an axis.
struct AxisValue {
  const Axis* axis;
  std::uint64_t number;  ///< of words: the place of the word, from 0
  std::string_view word = {};
};

/// One value of each axis. Valid while the Experiment is, which is a constant.
class Point {
 public:
  explicit Point(std::vector<AxisValue> values) : values_(std::move(values)) {}

  /// The number, or the place of the word among those of Axis::values. Throws ContractError if
  /// there is no such axis.
  std::uint64_t operator[](std::string_view axis) const;
  /// The cell of the table. Throws ContractError if there is no such axis.
  Cell cell(std::string_view axis) const;
  /// The cells of all axes in their order, followed by `others`.
  std::vector<Cell> cells(std::vector<Cell> others = {}) const;

 private:
  const AxisValue& value_of(std::string_view axis) const;

  std::vector<AxisValue> values_;
};

/// The largest number of an axis, by its name.
using Largest = std::map<std::string_view, std::uint64_t>;

/// The axes of one experiment, with the choices of the user.
class Axes {
 public:
  Axes() = default;
  /// The choices have been checked. The values are those of --quick if `quick`.
  Axes(const Experiment& experiment, const AxisChoices& choices, bool quick);

  /// See Bench::columns and Bench::points.
  std::vector<Column> columns(std::vector<Column> others) const;
  std::vector<Point> points(const Options& options, const Largest& largest = {}) const;
  /// Whether the user has chosen values.
  bool are_chosen() const;

 private:
  struct Selected {
    const Axis* axis;
    std::string values;
    bool is_chosen;
  };
  std::vector<Selected> selected_;
};

/// The axes with their values, for `bench help`; empty if there are none.
std::string help(std::span<const Axis> axes);
/// "1..32 (with --quick 1..32+4), or other numbers in 0..64": the values of an axis.
std::string words_of(const Axis& axis);

}  // namespace shardstream::experiments
