#include "io/source/result_labels.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/utf8.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {

std::string data_name(const Source& source) {
  const auto& files = source.origin().files;
  const std::string& path = files.empty() ? source.name() : files[0].dataset;
  return as_utf8(std::string_view(path).substr(path.rfind('/') + 1));
}

std::string netcdf_name(const std::string& name, std::set<std::string>& taken) {
  // NC_MAX_NAME is 256, but netCDF-C 4.9 does not terminate names of this size.
  constexpr std::size_t max_name = 255;
  std::string made;
  for (const char c : as_utf8(name)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_letter = byte >= 0x80 || std::isalpha(byte) != 0 || c == '_';
    if (made.empty() && !is_letter) made = '_';
    made += is_letter || std::isdigit(byte) != 0 || c == '-' || c == '.' ? c : '_';
  }
  std::string suffix, unique(first_bytes(made, max_name));
  while (!taken.insert(unique).second) {
    suffix += "_of_data";
    expect(suffix.size() < max_name, "a result has few arrays with the same name");
    unique = first_bytes(made, max_name - suffix.size());
    unique += suffix;
  }
  return unique;
}

Array array_of(const Labels& labels, const std::string& name, const std::string& dimension,
               std::vector<double> values) {
  const bool lacks_values = std::ranges::any_of(values, [](double x) { return std::isnan(x); });
  const bool is_integer = labels.type != ElementType::f32 && labels.type != ElementType::f64;
  Array array{name, dimension, lacks_values && is_integer ? ElementType::f64 : labels.type,
              std::move(values)};
  if (lacks_values) {
    array.attributes.emplace_back("_FillValue", std::numeric_limits<double>::quiet_NaN());
  }
  for (const auto& [key, text] : labels.attributes) array.attributes.emplace_back(key, text);
  if (!labels.are_coordinates) {
    array.attributes.emplace_back("long_name", "position in the data set");
  }
  return array;
}

std::vector<ResultDimension> result_dimensions(const Source& source,
                                               std::span<const std::size_t> dimensions,
                                               std::set<std::string>& taken,
                                               std::vector<std::string>& warnings) {
  std::vector<ResultDimension> made;
  for (const std::size_t number : dimensions) {
    const SourceDimension& dimension = source.dimensions().at(number);
    ResultDimension result{netcdf_name(name_of_dimension(source, number), taken),
                           dimension.axis.count, std::nullopt};
    std::optional<Labels> labels = coordinates_of(source, number, warnings);
    if (!labels && !is_whole(dimension.axis, dimension.extent)) {
      labels = positions_of(source, number);
    }
    if (labels) {
      result.coordinates = array_of(*labels, result.name, result.name, std::move(labels->values));
    }
    made.push_back(std::move(result));
  }
  return made;
}

void add(LabelledData& to, const ResultDimension& dimension) {
  to.dimensions.push_back({dimension.name, dimension.extent});
  if (dimension.coordinates) to.arrays.push_back(*dimension.coordinates);
}

}  // namespace shardstream::io
