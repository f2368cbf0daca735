// The parts of an experiment that have a figure each, and the names and numbers of their rows.
#pragma once

#include <string>
#include <vector>

#include "core/table.hpp"
#include "report/experiments.hpp"

namespace shardstream::report::page {

/// A part of an experiment with its own figure.
struct Panel {
  std::string name;  ///< "up"; empty if the experiment has one figure
  ExperimentResult part;
  std::vector<std::string> series = {};  ///< the names of the lines in all panels
};

/// In the order of their first rows. The column `at_once` of ranks tells whether they took turns.
std::vector<Panel> panels_of(const ExperimentResult& experiment);

/// The rows of rank 0, in a view of the table.
std::vector<Row> first_rank(const Table& table);

/// A cell as a number; NaN for text.
double number_of(const Cell& cell);

/// A number of a column with its unit.
std::string amount(double value, const Table& table, const std::string& column);

/// The names of bars: the column `x`, and, if names repeat, the first varied column that tells
/// their rows apart.
std::vector<std::string> bar_names(const ExperimentResult& experiment,
                                   const std::vector<Row>& rows);

}  // namespace shardstream::report::page
