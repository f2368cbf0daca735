// The expected values of an experiment's rows: computed from ceilings, from the varied quantities
// and from other rows of the table, so that a reader can compare them with what was measured.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

#include "core/table.hpp"
#include "experiments/experiment.hpp"

namespace shardstream::experiments {

/// A row of a measured table, from which Experiment::expected computes. A quantity that the table
/// or the run does not have is NaN, so that the expected value is NaN too. Valid while the table
/// and the ceilings are.
class MeasuredRow {
 public:
  /// `row` is its place in the table, and `figure` names the measured column. The ceilings are
  /// those of the rank, by name.
  MeasuredRow(const Table& table, std::size_t row, const Figure& figure,
              const std::map<std::string, double>& ceilings);

  /// The cell of a column of numbers, in the unit of the column.
  double operator[](std::string_view column) const;
  /// The cell of a column as text; empty if there is none.
  std::string text(std::string_view column) const;
  /// In the unit of measure/ceilings: GB/s for rates of copies.
  double ceiling(std::string_view name) const;

  /// The cell `column` of the first row of the same rank that has the cells `where`, and in the
  /// columns `same` the cells of this row. NaN if there is no such row, or if it is this row.
  double of_row(std::string_view column, std::initializer_list<Condition> where,
                std::initializer_list<std::string_view> same = {}) const;
  /// The measured value of that row.
  double measured(std::initializer_list<Condition> where,
                  std::initializer_list<std::string_view> same = {}) const {
    return of_row(figure_.y, where, same);
  }

 private:
  const Table& table_;
  std::size_t row_;
  const Figure& figure_;
  const std::map<std::string, double>& ceilings_;
};

/// Whether the row has the cell that the condition names. A number has the text of to_text().
bool holds(const Row& row, const Table& table, const Condition& condition);

/// The table with the column `expected` before the measured one and in its unit; the table itself
/// if the experiment computes none, or if the table has no such measured column or has `expected`
/// already. The ceilings are those of the rank that measured, by name.
Table with_expected(Table table, const Experiment& experiment, const Figure& figure,
                    const std::map<std::string, double>& ceilings);

}  // namespace shardstream::experiments
