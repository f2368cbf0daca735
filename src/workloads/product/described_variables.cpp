#include "workloads/product/described_variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>

#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/source/result_labels.hpp"

namespace shardstream::workloads::product {
namespace {

/// The dimensions of C. They have two names, since netCDF allows no dimension twice in a data set.
constexpr const char *first = "variable", *second = "variable_2";

/// The names in /results that no coordinates may take.
constexpr const char* own_names[] = {first,
                                     second,
                                     "C",
                                     "gram",
                                     "mean",
                                     "stddev",
                                     "root_mean_square",
                                     "count",
                                     "N",
                                     "special_variables"};

/// The coordinates of one of C's dimensions.
std::vector<io::Array> coordinates(const VariableNames& names, const std::string& dimension,
                                   std::set<std::string>& taken) {
  std::vector<io::Array> arrays;
  for (std::size_t which = 0; which < names.labels.size(); ++which) {
    const io::Labels& labels = names.labels[which];
    const std::string suffix = dimension == first ? "" : "_2";
    arrays.push_back(array_of(labels, io::netcdf_name(labels.name + suffix, taken), dimension,
                              flattened(names.labels, which)));
    // A flattened dimension is no axis.
    std::erase_if(arrays.back().attributes,
                  [](const auto& attribute) { return attribute.first == "axis"; });
  }
  return arrays;
}

std::vector<std::string> names_of(std::span<const io::Array> arrays) {
  std::vector<std::string> names;
  for (const io::Array& array : arrays) names.push_back(array.name);
  return names;
}

/// Adds the attribute `key` of the CF conventions, which names other data sets.
void refer(io::Attributes& attributes, const std::string& key,
           const std::vector<std::string>& names) {
  if (!names.empty()) attributes.emplace_back(key, join(names, " "));
}

/// An array with `of` each variable.
template <class Of>
io::Array array_of(const std::string& name, ElementType type,
                   std::span<const VariableStatistics> statistics, const Of& of) {
  std::vector<decltype(of(statistics[0]))> values;
  for (const VariableStatistics& each : statistics) values.push_back(of(each));
  return {name, first, type, std::move(values)};
}

/// The values that are multiplied, for a long_name.
std::string values_of(const Operands& operands, const VariableNames& names) {
  return operands.center_over_variables
             ? "differences of " + names.data + " from the means of samples"
             : names.data;
}

/// Means, standard deviations and counts. Variables that are not normalized have none.
std::vector<io::Array> statistics_arrays(const Operands& operands, const VariableNames& names,
                                         std::span<const VariableStatistics> statistics) {
  std::vector<io::Array> arrays;
  if (!operands.normalizes()) return arrays;
  const auto add = [&](io::Array array, const std::string& long_name, const std::string& units) {
    array.attributes.emplace_back("long_name", long_name);
    if (!units.empty()) array.attributes.emplace_back("units", units);
    arrays.push_back(std::move(array));
  };
  const auto deviation = [](const VariableStatistics& each) { return each.deviation; };
  if (operands.center) {
    add(array_of("mean", ElementType::f64, statistics,
                 [](const VariableStatistics& each) { return each.mean; }),
        "mean of " + names.data, names.units);
    add(array_of("stddev", ElementType::f64, statistics, deviation),
        "standard deviation of " + names.data, names.units);
    arrays.back().attributes.emplace_back("ddof", std::int64_t{operands.ddof()});
  } else {
    add(array_of("root_mean_square", ElementType::f64, statistics, deviation),
        "root mean square of " + values_of(operands, names), names.units);
  }
  add(array_of(
          "count", ElementType::i64, statistics,
          [](const VariableStatistics& each) { return static_cast<std::int64_t>(each.count); }),
      "number of samples", "1");
  return arrays;
}

std::string kind_of_c(const Operands& operands) {
  if (operands.center) return operands.scale ? "correlation" : "covariance";
  return operands.scale ? "normalized products" : "products";
}

VariableKind kind_of(const Operands& operands, std::uint64_t variable,
                     const VariableStatistics& of) {
  const auto weights = operands.weights_of(Weights::Of::variables);
  if (!weights.empty() && weights[variable] == 0) return VariableKind::usual;
  if (of.is_empty()) return VariableKind::empty;
  if (!operands.normalizes()) return VariableKind::usual;
  if (of.is_constant()) return VariableKind::constant;
  return std::isnan(of.deviation) ? VariableKind::not_finite : VariableKind::usual;
}

}  // namespace

std::string VariableNames::operator[](std::uint64_t variable) const {
  return labels.empty() ? std::to_string(variable) : text_of(labels, variable);
}

std::string names_of_dimensions(const io::Source& source, std::span<const std::size_t> dimensions,
                                std::string_view separator) {
  return join(dimensions, separator,
              [&](std::size_t d) { return printable(name_of_dimension(source, d)); });
}

VariableNames name_variables(const Operands& operands) {
  const io::Source& source = operands.a->source();
  VariableNames names{
      .data = data_name(source), .units = attribute_of(source, "units"), .labels = {}};
  names.labels = labels_of(source, operands.dimensions_of(Weights::Of::variables), names.warnings);
  return names;
}

io::LabelledData labelled(const Operands& operands, const VariableNames& names,
                          std::span<const VariableStatistics> statistics, bool stored) {
  std::set<std::string> taken(std::begin(own_names), std::end(own_names));
  io::LabelledData made;
  made.dimensions = {{first, operands.n}};
  std::vector<io::Array> labels = coordinates(names, first, taken);
  std::vector<io::Array> beside = statistics_arrays(operands, names, statistics);
  for (io::Array& array : beside) refer(array.attributes, "coordinates", names_of(labels));
  if (stored) {
    made.dimensions.push_back({second, operands.n});
    io::LabelledData::Existing c{"C", {first, second}, {}};
    c.attributes.emplace_back("long_name",
                              kind_of_c(operands) + " of " + values_of(operands, names));
    std::ranges::move(coordinates(names, second, taken), std::back_inserter(labels));
    refer(c.attributes, "coordinates", names_of(labels));
    std::vector<std::string> ancillary = names_of(beside);
    if (operands.pairwise()) ancillary.emplace_back("N");
    refer(c.attributes, "ancillary_variables", ancillary);
    made.existing.push_back(std::move(c));
    if (operands.pairwise()) {
      io::LabelledData::Existing n{"N", {first, second}, {}};
      n.attributes.emplace_back("long_name", "number of samples of each pair");
      n.attributes.emplace_back("units", "1");
      refer(n.attributes, "coordinates", names_of(labels));
      made.existing.push_back(std::move(n));
    }
  }
  made.arrays = std::move(labels);
  std::ranges::move(beside, std::back_inserter(made.arrays));
  return made;
}

io::LabelledData labelled_product(const Operands& operands, bool stored) {
  if (!stored) return {};
  return {.dimensions = {{"row", operands.m}, {"column", operands.n}},
          .arrays = {},
          .existing = {{"C", {"row", "column"}, {}}}};
}

std::uint64_t labelled_bytes(const Operands& operands) {
  constexpr std::uint64_t structure = 4096, others = 8;  // data sets besides coordinates
  if (!operands.symmetric) return structure * others;
  const std::uint64_t arrays = 2 * operands.dimensions_of(Weights::Of::variables).size() + others;
  return saturating_product(arrays, saturating_sum({structure, operands.n * sizeof(double)}));
}

std::vector<std::uint64_t> variables_of(VariableKind kind, const Operands& operands,
                                        std::span<const VariableStatistics> statistics) {
  std::vector<std::uint64_t> variables;
  for (std::uint64_t v = 0; v < statistics.size(); ++v) {
    if (kind_of(operands, v, statistics[v]) == kind) variables.push_back(v);
  }
  return variables;
}

Table special_variables(const Operands& operands, const VariableNames& names,
                        std::span<const VariableStatistics> statistics) {
  constexpr std::size_t max_rows = 65'536;
  constexpr const char* words[] = {"", "empty", "constant", "not finite"};
  Table table(
      "special_variables",
      {{"variable", ColumnType::integer}, {"name", ColumnType::text}, {"kind", ColumnType::text}});
  for (std::size_t v = 0; v < statistics.size() && table.rows().size() < max_rows; ++v) {
    const VariableKind kind = kind_of(operands, v, statistics[v]);
    if (kind == VariableKind::usual) continue;
    table.add({static_cast<std::int64_t>(v), names[v],
               std::string(words[static_cast<std::size_t>(kind)])});
  }
  return table;
}

std::vector<std::string> warnings_of_variables(const Operands& operands, const VariableNames& names,
                                               std::span<const VariableStatistics> statistics) {
  constexpr std::size_t max_named = 3;
  std::vector<std::string> warnings;
  const auto add = [&](VariableKind kind, const char* one, const char* several, const char* value) {
    const std::vector<std::uint64_t> some = variables_of(kind, operands, statistics);
    if (some.empty()) return;
    const bool is_one = some.size() == 1;
    warnings.push_back(fmt::format(
        "{} {}, so {} of C are {}: {}",
        is_one ? "1 variable" : fmt::format("{} variables", some.size()), is_one ? one : several,
        is_one ? "its row and column" : "their rows and columns", value,
        join_first(some, max_named, "; ", [&](std::uint64_t v) { return names[v]; })));
  };
  if (operands.scale) {
    add(VariableKind::constant, "is constant (zero variance)", "are constant (zero variance)",
        operands.pairwise() ? "NaN" : "0");
  }
  add(VariableKind::empty, "has only missing values", "have only missing values", "NaN");
  return warnings;
}

}  // namespace shardstream::workloads::product
