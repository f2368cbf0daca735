// The interface between an experiment and the rest of the program. An experiment measures one
// technique on the GPU of each rank and returns a table. It is one file, GROUP/NAME.cu: its row,
// which states what it measures, and below `#if SHARDSTREAM_HAS_CUDA` the code that measures. A
// build without CUDA compiles the same file as C++, so that `bench --list` and `bench help` know
// the experiment there, too. The row is listed in catalogue.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include "core/options.hpp"
#include "core/table.hpp"
#include "experiments/guides.hpp"
#include "kernels/kernel.hpp"

namespace shardstream::experiments {

class Bench;
class HelperEnd;
class MeasuredRow;

/// Up to `max` values, in a form that a constant can hold.
template <class Value, std::size_t max>
class UpTo {
 public:
  constexpr UpTo(std::initializer_list<Value> values) : count_(values.size()) {
    std::size_t i = 0;
    for (const Value& value : values) values_.at(i++) = value;
  }
  constexpr const Value* begin() const { return values_.data(); }
  constexpr const Value* end() const { return begin() + count_; }

 private:
  std::array<Value, max> values_ = {};
  std::size_t count_;
};
using Names = UpTo<std::string_view, 4>;
using Sections = UpTo<Section, 10>;

/// What a learner reads before and after a measurement.
struct Explanation {
  std::string_view question;     ///< one sentence that a reader can try to answer first
  std::string_view varies;       ///< what the rows of the table vary, and what its columns mean
  std::string_view expectation;  ///< the expected result, with its arithmetic
  /// What misleads, and how the check or the measurement avoids it; empty if nothing does.
  std::string_view pitfalls = {};
};

/// The text of a cell in a column, as to_text() prints it, by which rows are chosen.
struct Condition {
  std::string_view column, text;
};

/// Values that a learner predicts before they are measured.
struct Exercise {
  /// One sentence that names the values and their unit: "Predict the rate in GB/s with strides 2
  /// and 8."
  std::string_view task = {};
  /// A row of the table for each of the values, by its cells.
  UpTo<UpTo<Condition, 3>, 4> rows = {};
};

/// A quantity that the rows of an experiment vary, and the column of the table that has it. A user
/// chooses some of its values with --axis (axes.hpp).
struct Axis {
  std::string_view name;  ///< of the column
  std::string_view unit;  ///< of the column; "B": the values are sizes
  /// Words, "up|down", or whole numbers, a list of "4" and of ranges: "0..32" has each number,
  /// "0..32+4" every fourth one, and in "4KiB..1MiB*16" each one is 16 times the one before it. A
  /// range has both ends. Without the second one, as "1..*2", it ends with the value of `most`.
  std::string_view values;
  std::string_view quick = {};  ///< the values with --quick; empty: the same
  /// "1..1024": the least and the largest number that a user can choose; empty: one of `values`.
  std::string_view range = {};
  /// The key of the option, a size if the values are sizes, that limits the numbers; empty: none.
  std::string_view most = {};
  std::string_view sentence;  ///< one sentence for `bench help`
};

/// How a report draws the table of an experiment.
enum class Look {
  bars,    ///< one bar per row
  lines,   ///< `y` over the numbers `x`, one line per value of `series`; bars if each has one point
  steps,   ///< one bar per row; the rows are the rungs of a ladder
  matrix,  ///< `y` as a coloured cell for each pair of `x` (columns) and `series` (rows)
  /// `y` over `x` below the roofs of the table, with the kernels of all experiments; `series` tells
  /// roofs and kernels apart (report/limiter.hpp)
  roofline
};
constexpr std::string_view word_of(Look look) {
  return std::array<std::string_view, 5>{"bars", "lines", "steps", "matrix",
                                         "roofline"}[static_cast<std::size_t>(look)];
}

/// Columns of the table that a report draws.
struct Figure {
  Look look = Look::bars;
  std::string_view x, y;
  std::string_view series = {};  ///< empty: one series
  std::string_view panel = {};   ///< one figure per value of this column; empty: one figure
  /// Up to two columns that `lines` draws as lines to compare `y` with, such as a prediction and a
  /// bound.
  Names reference_lines = {};
  bool log_x = false, log_y = false;  ///< bars with similar values ignore `log_y`
  bool more_is_better = true;         ///< whether `y` is better if it is larger; false for times
  bool is_rated = true;  ///< false: `y` is neither good nor bad, such as a place in an order
};

/// Whether the ranks of an experiment communicate.
enum class Scope {
  /// Each rank measures its own device and makes no collective call. The ranks may end differently.
  each_rank,
  /// All ranks measure together. They may communicate, and they end alike (Bench::agree).
  all_ranks
};

/// Which ranks measure at the same time, if they do not communicate.
enum class Turns {
  at_once,     ///< all ranks
  one_by_one,  ///< each rank alone, while the others wait
  both         ///< first one by one, then all at once; a single rank measures once
};

/// The requirements of an experiment. Only `run` needs the GPUs and ceilings; `run_host` does not.
struct Needs {
  int compute_capability = 0;  ///< 90 for 9.0; 0: any
  int gpus = 1;                ///< GPUs that the rank must see
  int ranks = 1;               ///< ranks that the run must have, with or without a GPU
  /// Names of the ceilings (measure/ceilings) to which the column `share` refers.
  Names ceilings = {};
  /// Names of further ceilings, which only `Experiment::expected` uses.
  Names ceilings_of_expected = {};
  std::string_view file = {};  ///< key of the option that names its data set; empty: it reads none

  /// Whether it needs the ceiling `name`, for shares or for expected values.
  constexpr bool has_ceiling(std::string_view name) const {
    const auto is_in = [name](const Names& names) {
      return std::ranges::find(names, name) != names.end();
    };
    return is_in(ceilings) || is_in(ceilings_of_expected);
  }
};

/// One row of the catalogue, a constant.
struct Experiment {
  std::string_view name, group;
  std::string_view summary;  ///< one sentence
  Explanation explanation;
  Sections read_on;
  std::string_view reference = {};  ///< a published figure and its GPU; empty if there is none
  /// The reference of the column `share`, such as "of the rate of a copy in device memory"; empty
  /// if that column is empty.
  std::string_view share = {};
  std::span<const OptionRow> options = {};  ///< their section is the name of the experiment
  std::span<const Axis> axes = {};  ///< in the order of the columns, which are the first ones
  /// The expected value of a row of `run`, in the unit of the measured one; NaN if there is none.
  /// Null if the table has no expected values (expected.hpp).
  double (*expected)(const MeasuredRow&) = nullptr;
  Exercise exercise = {};  ///< without rows: there is none
  Figure figure;
  Needs needs = {};
  Scope scope = Scope::each_rank;
  Turns turns = Turns::at_once;  ///< for Scope::each_rank
  /// Measures on this rank's device, alone or with the other ranks (Scope). Throws UsageError if an
  /// option does not suit the machine, and Unverified before a time is reported if an answer is
  /// wrong. In Scope::all_ranks, an exception that Bench::agree has not shared with the other ranks
  /// ends the program, since they may wait for this one.
  /// `with_cuda<f>()` for a function that only a build with CUDA has.
  Table (*run)(Bench&) = nullptr;
  /// The part that works without a GPU; null if there is none.
  Table (*run_host)(Bench&) = nullptr;
  /// The work of a helper process (helper_processes.hpp), which has no options and is no rank of
  /// this run; null if the experiment starts none.
  void (*helper)(HelperEnd&) = nullptr;
};

}  // namespace shardstream::experiments
