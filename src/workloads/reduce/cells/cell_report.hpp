// The report of statistics of cells: the values of each operation, which the ranks write together,
// their summary, and their verification.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/reduce/cells/cell.hpp"
#include "workloads/reduce/cells/cell_columns.hpp"
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/cells/cell_weights.hpp"
#include "workloads/reduce/cells/check.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/cells/shard_cells.hpp"
#include "workloads/reduce/cells/summary.hpp"
#include "workloads/reduce/double_range.hpp"
#include "workloads/reduce/missing.hpp"
#include "workloads/reduce/reduce_statistics.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The results of a rank, and everything that describes them.
struct CellInputs {
  const stream::ShardContext& context;
  const io::Source& source;
  const CellPlan& plan;
  const CellRequest& request;
  const CellRules& rules;
  const cells::Choice& choice;
  const std::optional<CellGroups>& groups;
  const std::optional<CellWeights>& weights;
  const SampledBoxes& boxes;
  const std::vector<CellColumn>& columns;
  const std::string& missing_policy;
  const Found& invalid;  ///< the values of a row that make its results NaN
  /// The moments of one pass: those of this rank's outputs, and of the samples.
  struct Pass {
    cells::CellRange cells;
    std::vector<Range> outputs;  ///< of RankNodes::outputs()
    cells::States roots;         ///< in their order
    std::vector<std::uint64_t>* samples;
  };
  std::vector<Pass> passes;
};

class CellReport {
 public:
  explicit CellReport(CellInputs inputs);

  /// The values of this rank's cells that do not count.
  std::uint64_t missing() const;

  /// Writes the values of this rank's outputs to the result, if it has arrays. Collective.
  void write();

  /// The largest element of this rank's cells; NaN without extremes. After write().
  double largest() const { return largest_; }

  /// Called after write(). Collective.
  void describe(const stream::Checks& checks, Outcome& outcome);

 private:
  bool all_have_groups() const { return !in_.groups || in_.groups->have_all(); }

  /// Neighbouring cells of a group, up to max_piece of them, and their moments.
  struct CellPiece {
    std::uint64_t group, first_cell, count;
    cells::States roots;
  };
  static constexpr std::uint64_t max_piece = std::uint64_t{1} << 16;
  /// The outputs of this rank.
  std::vector<CellPiece> pieces() const;
  /// Calls use(piece) for them on all threads.
  template <class Use>
  void for_pieces(const Use& use) const;
  /// Calls use(moments, i) for each cell i of a piece.
  template <class Use>
  void for_cells(const CellPiece& piece, const Use& use) const;
  /// Calls use(group, count) for the outputs of this rank, without reading the other moments.
  template <class Use>
  void for_counts(const Use& use) const;
  CellView view(std::uint64_t group, const CellMoments& moments) const {
    return {moments, in_.rules, expected_[group]};
  }

  /// The integer that stands for an undefined value of a column.
  std::int64_t undefined_integer(std::size_t column) const;
  void write(const CellPiece& piece, std::size_t column, std::int64_t undefined) const;
  /// Writes the columns of f64, too. Collective.
  std::vector<CellSummary> summarize();
  /// The same for a piece, with the largest element.
  std::pair<std::vector<CellSummary>, double> summarize(const CellPiece& piece) const;

  // Verification

  CellCheck worst_check();
  template <class T>
  CellCheck check_box(std::size_t number, const CellInputs::Pass& pass) const;
  /// The reason why the result is wrong; empty if it is not. Collective.
  std::string fault_of(const stream::Checks& checks, const CellCheck& check,
                       std::uint64_t missing) const;

  // The outcome

  void add_attributes(Outcome& outcome) const;
  /// The operations whose values are out of range in some cells.
  OutOfRange out_of_range() const;
  void add_table(const CellCheck& check, bool is_whole, Outcome& outcome) const;

  /// The value of an operation for the only cell.
  struct Single {
    double real = 0;
    std::int64_t index = cells::no_index;  ///< of the element that is the value, if it is known
    std::string exact = {};                ///< all digits, from which the same bits can be read
  };
  /// The same on all ranks. Collective.
  Single only_value(const Statistic& statistic) const;
  Single single_of(const Statistic& statistic, const CellMoments& m, const CellValue& value) const;
  /// Rows of the table `reduce` for a single cell. Its rank sends the values to all others.
  void add_rows(const CellCheck& check, bool is_whole, Outcome& outcome) const;
  std::string coordinates_of_value(std::int64_t number) const;
  /// A value of the operation with all its digits.
  std::string exact_text(const Statistic& statistic, const CellValue& value) const;
  void label(Outcome& outcome) const;

  const CellInputs in_;
  const LoadMoments load_;
  std::vector<const Statistic*> statistics_;  // the operations
  std::vector<std::uint64_t> expected_;       // values of a cell, by group
  double largest_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<CellSummary> summaries_;  // of each operation
};

}  // namespace shardstream::workloads
