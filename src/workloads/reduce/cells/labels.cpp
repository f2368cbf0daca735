#include "workloads/reduce/cells/labels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "core/text.hpp"
#include "io/source/labels.hpp"
#include "io/source/result_labels.hpp"

namespace shardstream::workloads {
namespace {

/// The name of a method in the attribute cell_methods of the CF conventions; empty if there is
/// none.
std::string_view method_of(std::string_view op) {
  if (op == "mean" || op == "sum" || op == "variance" || op == "range") return op;
  if (op == "stddev") return "standard_deviation";
  if (op == "min") return "minimum";
  if (op == "max") return "maximum";
  return {};
}

/// The units of an operation's values for data with these units.
std::string units_of(std::string_view op, const std::string& units, bool is_weighted) {
  if (op == "count" || op.starts_with("arg") || op == "effective-count" || op == "skewness" ||
      op == "kurtosis") {
    return "1";
  }
  if (units.empty() || (op == "sum" && is_weighted)) return {};
  return op == "variance" ? fmt::format("({})^2", units) : units;
}

std::string names_of(const io::Source& source, const std::vector<std::size_t>& dimensions,
                     std::string_view separator) {
  return join(dimensions, separator,
              [&](std::size_t d) { return printable(io::name_of_dimension(source, d)); });
}

io::Attributes attributes_of(const CellColumn& column, const io::Source& source,
                             const CellPlan& plan, const std::optional<CellWeights>& weights,
                             bool has_undefined) {
  io::Attributes attributes = column.attributes;
  const std::vector<std::size_t>& reduced = plan.dimensions().reduced;
  const std::string over = names_of(source, reduced, ", ");
  const std::string data = printable(io::data_name(source));
  if (column.dimension) {
    const std::string of = printable(io::name_of_dimension(source, reduced[*column.dimension]));
    attributes.emplace_back("long_name",
                            fmt::format("{} at the {} of {}", of, column.op.substr(3), data));
  } else {
    attributes.emplace_back(
        "long_name", fmt::format("{} of {} over {}{}", column.op, data, over,
                                 weights ? ", weighted by " + printable(weights->name) : ""));
    const std::string units =
        units_of(column.op, io::attribute_of(source, "units"), weights.has_value());
    if (!units.empty()) attributes.emplace_back("units", units);
    const std::string_view method = method_of(column.op);
    if (!method.empty()) {
      attributes.emplace_back("cell_methods",
                              fmt::format("{}: {}", names_of(source, reduced, ": "), method));
    }
  }
  if (column.type == ElementType::f64) {
    attributes.emplace_back("_FillValue", std::numeric_limits<double>::quiet_NaN());
  } else if (has_undefined) {
    attributes.emplace_back("_FillValue", column.undefined);
  }
  return attributes;
}

/// An integer that hardly any value has. Positions are never negative.
std::int64_t usual_undefined(std::string_view op, ElementType type) {
  using Limits = std::numeric_limits<std::int64_t>;
  if (op.starts_with("arg")) return -1;
  return type == ElementType::u64 ? Limits::max() : Limits::min();
}

}  // namespace

std::string column_name(std::string_view op) {
  std::string name(op);
  std::ranges::replace(name, '-', '_');
  return name;
}

std::uint64_t CellColumn::word(const CellValue& value, const CellPlan& plan) const {
  if (!dimension) {
    const bool is_undefined = value.real != value.real && type != ElementType::f64;
    return is_undefined ? static_cast<std::uint64_t>(undefined) : value.bits;
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (value.real != value.real) return std::bit_cast<std::uint64_t>(nan);
  return std::bit_cast<std::uint64_t>(coordinates[plan.reduced_indices(value.bits)[*dimension]]);
}

std::vector<CellColumn> columns_of(const io::Source& source, const CellPlan& plan,
                                   const CellRequest& request, bool is_weighted) {
  std::vector<CellColumn> columns;
  std::set<std::string> taken;
  for (const std::string& op : request.ops) {
    const ElementType type = with_element_type(source.type(), [&](auto tag) {
      return type_of<typename decltype(tag)::type>(op, is_weighted);
    });
    columns.push_back({column_name(op), op, type});
    columns.back().undefined = usual_undefined(op, type);
    taken.insert(columns.back().name);
  }
  const std::vector<std::size_t>& reduced = plan.dimensions().reduced;
  for (const std::string& op : request.ops) {
    if (!op.starts_with("arg")) continue;
    for (std::size_t i = 0; i < reduced.size(); ++i) {
      std::vector<std::string> ignored;  // labelled_cells() warns
      auto labels = io::coordinates_of(source, reduced[i], ignored);
      if (!labels) continue;
      CellColumn column{io::netcdf_name(op + "_" + labels->name, taken), op, ElementType::f64, i};
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
                                const std::vector<bool>& has_undefined,
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
    made.existing.push_back({columns[i].name, names,
                             attributes_of(columns[i], source, plan, weights, has_undefined[i])});
  }
  return made;
}

}  // namespace shardstream::workloads
