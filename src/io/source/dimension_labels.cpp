#include "io/source/dimension_labels.hpp"

#include <fmt/format.h>

#include <memory>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/description/format.hpp"
#include "io/source/joined/coordinates.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

/// The data set of a source, opened in its first file.
std::unique_ptr<OpenDataset> open(const Source& source) {
  const InputFile& first = source.origin().files.at(0);
  return open_data_file(first.path)->open(first.dataset, source.name());
}

/// The coordinates of all indices of dimension `number`; nothing if there are none.
std::optional<Coordinates> all_coordinates(const Source& source, std::size_t number) {
  if (number == 0 && !source.origin().joined.empty()) return joined_coordinates(source.origin());
  const auto dataset = open(source);
  if (number >= dataset->dimensions().size()) return std::nullopt;  // a scalar
  return dataset->coordinates(number);
}

/// The coordinates that `read` returns; nothing, with a warning, if they cannot be read.
template <class Read>
auto or_warning(const Source& source, std::size_t number, std::vector<std::string>& warnings,
                const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    warnings.push_back(fmt::format("the result lacks the coordinates of the dimension '{}': {}",
                                   printable(source.dimensions()[number].name), error.what()));
    return {};
  }
}

void warn_if_rounded(const Coordinates& coordinates, std::vector<std::string>& warnings) {
  if (!are_rounded(coordinates)) return;
  warnings.push_back(
      fmt::format("the dimension '{}' has coordinates beyond 2^53, which the result has only as "
                  "rounded doubles",
                  printable(coordinates.name)));
}

/// The coordinates of the used indices of dimension `number`; nothing if there are none, or if they
/// cannot be read.
std::optional<Coordinates> used_coordinates(const Source& source, std::size_t number,
                                            std::vector<std::string>& warnings) {
  const auto& [name, extent, axis] = source.dimensions().at(number);
  auto found =
      or_warning(source, number, warnings, [&] { return all_coordinates(source, number); });
  if (!found || found->values.size() != extent) return std::nullopt;
  warn_if_rounded(*found, warnings);
  for (std::uint64_t i = 0; i < axis.count; ++i) found->values[i] = found->values[axis[i]];
  found->values.resize(axis.count);
  return found;
}

/// The coordinates of these indices of dimension `number` of the data set, as used_coordinates().
/// If several files are joined, only those that contain the indices are read.
std::vector<double> coordinates_along(const Source& source, std::size_t number,
                                      std::span<const Extents> positions,
                                      std::vector<std::string>& warnings) {
  return or_warning(source, number, warnings, [&] {
    std::vector<double> values;
    if (number == 0 && !source.origin().joined.empty()) {
      for (const Extents& position : positions) {
        const auto value = joined_coordinate(source.origin(), position[0]);
        if (!value) return std::vector<double>();
        values.push_back(*value);
      }
      return values;
    }
    const auto all = all_coordinates(source, number);
    if (!all || all->values.size() != source.dimensions()[number].extent) return values;
    warn_if_rounded(*all, warnings);
    for (const Extents& position : positions) values.push_back(all->values[position[number]]);
    return values;
  });
}

/// The index along dimension `which` of element `index` of flattened dimensions.
std::uint64_t index_along(std::span<const Labels> labels, std::size_t which, std::uint64_t index) {
  for (std::size_t d = labels.size() - 1; d > which; --d) index /= labels[d].values.size();
  return index % labels[which].values.size();
}

}  // namespace

std::string name_of_dimension(const Source& source, std::size_t dimension) {
  const std::string& name = source.dimensions().at(dimension).name;
  return name.empty() ? fmt::format("dim_{}", dimension) : name;
}

std::optional<Labels> coordinates_of(const Source& source, std::size_t dimension,
                                     std::vector<std::string>& warnings) {
  if (source.origin().files.empty()) return std::nullopt;
  auto found = used_coordinates(source, dimension, warnings);
  if (!found) return std::nullopt;
  return Labels{name_of_dimension(source, dimension), found->type, std::move(found->values),
                std::move(found->attributes), true};
}

Labels positions_of(const Source& source, std::size_t dimension) {
  const Axis& axis = source.dimensions().at(dimension).axis;
  Labels labels{name_of_dimension(source, dimension), ElementType::i64, {}, {}, false};
  for (std::uint64_t i = 0; i < axis.count; ++i) {
    labels.values.push_back(static_cast<double>(axis[i]));
  }
  return labels;
}

std::vector<Labels> labels_of(const Source& source, std::span<const std::size_t> dimensions,
                              std::vector<std::string>& warnings) {
  std::vector<Labels> all;
  if (source.origin().files.empty()) return all;
  for (const std::size_t dimension : dimensions) {
    auto coordinates = coordinates_of(source, dimension, warnings);
    all.push_back(coordinates ? std::move(*coordinates) : positions_of(source, dimension));
  }
  if (all.size() != 1 || all[0].are_coordinates) return all;
  const SourceDimension& only = source.dimensions()[dimensions[0]];
  if (only.name.empty() && is_whole(only.axis, only.extent)) all.clear();
  return all;
}

std::string text_of(std::span<const Labels> labels, std::uint64_t index) {
  std::string text;
  for (std::size_t which = 0; which < labels.size(); ++which) {
    const Labels& each = labels[which];
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", printable(each.name),
                        each.values[index_along(labels, which, index)]);
  }
  return text;
}

std::vector<double> flattened(std::span<const Labels> labels, std::size_t which) {
  std::uint64_t count = 1;
  for (const Labels& each : labels) count *= each.values.size();
  std::vector<double> values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values.push_back(labels[which].values[index_along(labels, which, i)]);
  }
  return values;
}

std::vector<std::string> coordinates_at(const Source& source, std::span<const Extents> positions,
                                        std::vector<std::string>& warnings) {
  std::vector<std::string> texts(positions.size());
  if (source.origin().files.empty() || positions.empty()) return texts;
  for (std::size_t d = 0; d < source.dimensions().size(); ++d) {
    const std::vector<double> values = coordinates_along(source, d, positions, warnings);
    for (std::size_t i = 0; i < values.size(); ++i) {
      texts[i] += fmt::format("{}{}={}", texts[i].empty() ? "" : ", ",
                              printable(source.dimensions()[d].name), values[i]);
    }
  }
  return texts;
}

std::string attribute_of(const Source& source, const std::string& key) {
  if (source.origin().files.empty()) return {};
  return open(source)->attribute(key).text.value_or("");
}

}  // namespace shardstream::io
