// The arrays of the result, with their names, types and labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/description/labelled_data.hpp"
#include "io/source/source.hpp"
#include "workloads/reduce/cells/cell.hpp"
#include "workloads/reduce/cells/cell_plan.hpp"
#include "workloads/reduce/cells/cell_reduction.hpp"
#include "workloads/reduce/cells/cell_weights.hpp"
#include "workloads/reduce/cells/groups.hpp"
#include "workloads/reduce/reduce_statistics.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads {

/// An array of the result: the values of an operation, or the coordinates of an extreme.
struct CellColumn {
  std::string name;
  const Statistic* statistic;
  ElementType type;
  /// The coordinates of a reduced dimension (its position in CellDimensions::reduced), for
  /// argmin and argmax.
  std::optional<std::size_t> dimension = {};
  std::vector<double> coordinates = {};
  io::Attributes attributes = {};

  /// The bits of an element. `undefined` stands for an integer that is undefined.
  std::uint64_t word(const CellValue& value, std::int64_t undefined, const CellPlan& plan) const;
};

/// The arrays of all operations, in their order. Reads coordinates if positions of extremes are
/// requested. Takes the lock of HDF5.
std::vector<CellColumn> columns_of(const io::Source& source, const CellPlan& plan,
                                   const CellRequest& request, bool is_weighted);

/// The arrays that ranks write.
std::vector<OutputArray> output_arrays(const io::Source& source, const CellPlan& plan,
                                       const std::optional<CellGroups>& groups,
                                       const std::vector<CellColumn>& columns);

/// Dimensions, coordinates and attributes of the arrays. `undefined` has the integer that stands
/// for undefined elements of a column, if it has some. Coordinates that cannot be read are left
/// out, with a sentence in `warnings`. Takes the lock of HDF5.
io::LabelledData labelled_cells(const io::Source& source, const CellPlan& plan,
                                const std::optional<CellGroups>& groups,
                                const std::optional<CellWeights>& weights,
                                const std::vector<CellColumn>& columns,
                                const std::vector<std::optional<std::int64_t>>& undefined,
                                std::vector<std::string>& warnings);

}  // namespace shardstream::workloads
