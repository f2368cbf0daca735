#include "workloads/reduce/cells/cell_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "core/text.hpp"
#include "io/source/dimension_labels.hpp"
#include "io/source/result_labels.hpp"

namespace shardstream::workloads {
namespace {

std::string names_of(const io::Source& source, const std::vector<std::size_t>& dimensions,
                     std::string_view separator) {
  return join(dimensions, separator,
              [&](std::size_t d) { return printable(io::name_of_dimension(source, d)); });
}

io::Attributes attributes_of(const CellColumn& column, const io::Source& source,
                             const CellPlan& plan, const std::optional<CellWeights>& weights,
                             std::optional<std::int64_t> undefined) {
  io::Attributes attributes = column.attributes;
  const std::vector<std::size_t>& reduced = plan.dimensions().reduced;
  const std::string over = names_of(source, reduced, ", ");
  const std::string data = printable(io::data_name(source));
  if (column.dimension) {
    const std::string of = printable(io::name_of_dimension(source, reduced[*column.dimension]));
    attributes.emplace_back(
        "long_name", fmt::format("{} at the {} of {}", of, column.statistic->name.substr(3), data));
  } else {
    attributes.emplace_back(
        "long_name", fmt::format("{} of {} over {}{}", column.statistic->name, data, over,
                                 weights ? ", weighted by " + printable(weights->name) : ""));
    const std::string units = column.statistic->units_for(
        io::attribute_of(source, "units"), weights ? std::optional(weights->units) : std::nullopt);
    if (!units.empty()) attributes.emplace_back("units", units);
    const std::string_view method = column.statistic->method;
    if (!method.empty()) {
      attributes.emplace_back("cell_methods",
                              fmt::format("{}: {}", names_of(source, reduced, ": "), method));
    }
  }
  if (column.type == ElementType::f64) {
    attributes.emplace_back("_FillValue", std::numeric_limits<double>::quiet_NaN());
  } else if (undefined) {
    attributes.emplace_back("_FillValue", *undefined);
  }
  return attributes;
}

}  // namespace

std::uint64_t CellColumn::word(const CellValue& value, std::int64_t undefined,
                               const CellPlan& plan) const {
  if (value.real != value.real) {
    return type == ElementType::f64
               ? std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN())
               : static_cast<std::uint64_t>(undefined);
  }
  if (!dimension) return value.bits;
  return std::bit_cast<std::uint64_t>(coordinates[plan.reduced_indices(value.bits)[*dimension]]);
}

std::vector<CellColumn> columns_of(const io::Source& source, const CellPlan& plan,
                                   const CellRequest& request, bool is_weighted) {
  std::vector<CellColumn> columns;
  std::set<std::string> taken;
  for (const std::string& op : request.ops) {
    const Statistic& row = statistic(op);
    columns.push_back({row.key(), &row, row.type_for(source.type(), is_weighted)});
    taken.insert(columns.back().name);
  }
  if (!request.makes_arrays) return columns;
  const std::vector<std::size_t>& reduced = plan.dimensions().reduced;
  for (const std::string& op : request.ops) {
    if (!statistic(op).is_position()) continue;
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      std::vector<std::string> ignored;  // labelled_cells() warns
      auto labels = io::coordinates_of(source, reduced[i], ignored);
      if (!labels) continue;
      CellColumn column{io::netcdf_name(op + "_" + labels->name, taken), &statistic(op),
                        ElementType::f64, i};
      column.coordinates = std::move(labels->values);
      for (const auto& [key, text] : labels->attributes) {
        if (key == "units" || key == "calendar") column.attributes.emplace_back(key, text);
      }
      columns.push_back(std::move(column));
    }
  }
  return columns;
}

std::vector<OutputArray> output_arrays(const io::Source& source, const CellPlan& plan,
                                       const std::optional<CellGroups>& groups,
                                       const std::vector<CellColumn>& columns) {
  std::vector<std::uint64_t> shape;
  if (groups) shape.push_back(groups->count());
  for (const std::size_t d : plan.kept()) shape.push_back(source.dimensions()[d].axis.count);
  constexpr std::uint64_t structure = 4096, coordinate = 16;
  std::uint64_t labelled = structure * (columns.size() + shape.size() + 1);
  for (const std::uint64_t extent : shape) labelled += coordinate * extent;
  if (groups) {
    for (std::size_t g = 0; g < groups->count(); ++g) labelled += 2 * groups->label(g).size() + 32;
  }
  std::vector<OutputArray> arrays;
  for (const CellColumn& column : columns) {
    arrays.push_back({column.name, column.type, shape, arrays.empty() ? labelled : 0});
  }
  return arrays;
}

io::LabelledData labelled_cells(const io::Source& source, const CellPlan& plan,
                                const std::optional<CellGroups>& groups,
                                const std::optional<CellWeights>& weights,
                                const std::vector<CellColumn>& columns,
                                const std::vector<std::optional<std::int64_t>>& undefined,
                                std::vector<std::string>& warnings) {
  std::set<std::string> taken{"cells"};  // the table
  for (const CellColumn& column : columns) taken.insert(column.name);
  io::LabelledData made;
  std::vector<std::string> names;
  const auto add = [&](const io::ResultDimension& dimension) {
    io::add(made, dimension);
    names.push_back(dimension.name);
  };
  if (groups) add(groups->result_dimension(taken));
  for (const auto& each : io::result_dimensions(source, plan.kept(), taken, warnings)) add(each);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    made.existing.push_back(
        {columns[i].name, names, attributes_of(columns[i], source, plan, weights, undefined[i])});
  }
  return made;
}

}  // namespace shardstream::workloads
