// The arrays of the result, with their names, types and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5/labelled_data.hpp"
#include "io/source/source.hpp"
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/cells/plan.hpp"
#include "workloads/reduce/cells/values.hpp"
#include "workloads/reduce/cells/weights.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// The name of an operation in results: "effective_count".
std::string column_name(std::string_view op);

/// An array of the result: the values of an operation, or the coordinates of an extreme.
struct CellColumn {
  std::string name, op;
  ElementType type;
  /// The coordinates of a reduced dimension (its position in CellDimensions::reduced), for
  /// argmin and argmax.
  std::optional<std::size_t> dimension = {};
  std::vector<double> coordinates = {};
  io::Attributes attributes = {};
  /// The integer that stands for an undefined element, if `type` is a type of integers. No defined
  /// element has it after choose_undefined().
  std::int64_t undefined = 0;

  /// The bits of an element.
  std::uint64_t word(const CellValue& value, const CellPlan& plan) const;
};

/// The arrays of all operations, in their order. Reads coordinates if positions of extremes are
/// requested. Takes the lock of HDF5.
std::vector<CellColumn> columns_of(const io::Source& source, const CellPlan& plan,
                                   const CellRequest& request, bool is_weighted);

/// Chooses CellColumn::undefined of columns of integers, so that valid elements cannot look
/// undefined. `count(column)` returns how many defined elements of all ranks equal it.
template <class Count>
void choose_undefined(std::vector<CellColumn>& columns, const Count& count) {
  for (CellColumn& column : columns) {
    if (column.type == ElementType::f64) continue;
    const std::int64_t step = column.undefined > 0 ? -1 : 1;  // from one end of the range
    while (count(column) > 0) column.undefined += step;
  }
}

/// The arrays that ranks write.
std::vector<OutputArray> output_arrays(const io::Source& source, const CellPlan& plan,
                                       const std::optional<CellGroups>& groups,
                                       const std::vector<CellColumn>& columns);

/// Dimensions, coordinates and attributes of the arrays. `has_undefined` has the columns with
/// undefined elements. Coordinates that cannot be read are left out, with a sentence in `warnings`.
/// Takes the lock of HDF5.
io::LabelledData labelled_cells(const io::Source& source, const CellPlan& plan,
                                const std::optional<CellGroups>& groups,
                                const std::optional<CellWeights>& weights,
                                const std::vector<CellColumn>& columns,
                                const std::vector<bool>& has_undefined,
                                std::vector<std::string>& warnings);

}  // namespace shardstream::workloads
