#include "io/source/texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "io/description/format.hpp"
#include "io/source/joined/coordinates.hpp"
#include "io/source/joined/pattern.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

/// Texts in another encoding become UTF-8. Returns a warning about them; empty if there are none.
std::string decode(const std::string& name, std::vector<std::string>& values) {
  const auto is_other = [](const std::string& value) { return !is_utf8(value); };
  const auto first = std::ranges::find_if(values, is_other);
  if (first == values.end()) return {};
  const auto count = std::ranges::count_if(values, is_other);
  const std::string example = printable(as_utf8(*first));
  for (std::string& value : values) value = as_utf8(value);
  return fmt::format("{} of {} not UTF-8 and read as Latin-1, such as '{}'", counted(count, "text"),
                     name + (count == 1 ? " is" : " are"), example);
}

/// Texts that are missing become empty.
void apply_conventions(const OpenDataset& dataset, const Options& options,
                       std::vector<std::string>& values) {
  if (options.text("input.conventions") != "auto") return;
  for (const char* const attribute : {"_FillValue", "missing_value"}) {
    const auto missing = dataset.attribute(attribute).text;
    if (missing) std::ranges::replace(values, *missing, std::string());
  }
}

/// A file, and the data set that the option names in it.
struct TextDataset {
  std::filesystem::path file;
  DatasetName name;
};

/// Adds the texts of one file and its origin. Returns whether the data set has texts.
bool add_file(TextDataset& place, const Options& options, std::uint64_t max, Texts& all,
              std::vector<Origin>& origins) {
  const auto file = open_data_file(place.file);
  place.name = file->resolve(place.name);
  if (!place.name.member.empty()) return false;
  const std::string& path = place.name.path;
  const std::string name = place.file.string() + ":" + path;
  const auto dataset = file->open(path, name);
  if (!dataset->has_texts()) return false;
  const std::vector<Dimension> dimensions = dataset->dimensions();
  dataset->expect_readable_texts(max - std::min<std::uint64_t>(max, all.values.size()));
  const Unwritten unwritten =
      options.text("input.unwritten") == "fill" ? Unwritten::fill : Unwritten::reject;
  origins.push_back(file->trace(path, unwritten));
  std::vector<std::string> values = dataset->read_texts();
  if (std::string warning = decode(name, values); !warning.empty()) {
    origins.back().warnings.push_back(std::move(warning));
  }
  const bool are_rows_of_characters = dimensions.size() > 1;
  if (!are_rows_of_characters) apply_conventions(*dataset, options, values);
  std::ranges::move(values, std::back_inserter(all.values));
  all.dimension.name = dimensions[0].name;
  return true;
}

/// The coordinates of all indices; nothing if there are none.
std::optional<Coordinates> coordinates_of(const std::vector<DatasetPlace>& places) {
  if (places.size() == 1) return read_coordinates(places[0], 0);
  Origin origin;
  origin.joined = places;
  return joined_coordinates(origin);
}

/// The same for comparisons: times of files in different units are microseconds since 1970.
std::optional<Coordinates> comparable_coordinates(const std::vector<DatasetPlace>& places) {
  try {
    return coordinates_of(places);
  } catch (const UsageError&) {
    Origin origin;
    origin.joined = places;
    return joined_times(origin);
  }
}

/// Those of the used indices; nothing if they cannot be read.
std::optional<Labels> used_coordinates(const std::vector<DatasetPlace>& places,
                                       const SourceDimension& dimension) {
  try {
    auto found = comparable_coordinates(places);
    if (!found || found->values.size() != dimension.extent) return std::nullopt;
    const Axis& axis = dimension.axis;
    for (std::uint64_t i = 0; i < axis.count; ++i) found->values[i] = found->values[axis[i]];
    found->values.resize(axis.count);
    return Labels{found->name, found->type, std::move(found->values), std::move(found->attributes),
                  true};
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

/// Leaves only the selected texts.
void select(const std::optional<std::string>& selection, const std::vector<DatasetPlace>& places,
            Texts& texts) {
  const std::uint64_t extent = texts.values.size();
  texts.dimension.extent = extent;
  texts.dimension.axis = {.count = extent};
  if (!selection) return;
  const std::vector<Dimension> dimensions = {
      {texts.dimension.name, extent, extent <= max_coordinates}};
  const Selection chosen = resolve(
      SelectionText::parse(*selection), dimensions,
      [&](std::size_t) { return coordinates_of(places); }, texts.name, &texts.origin.beyond);
  const Axis& axis = texts.dimension.axis = chosen[0];
  for (std::uint64_t i = 0; i < axis.count; ++i) {
    if (axis[i] != i) texts.values[i] = std::move(texts.values[axis[i]]);
  }
  texts.values.resize(axis.count);
  texts.name += text_of(chosen, std::vector{extent});
}

/// Reads all texts; nothing if the data set has none.
std::optional<Texts> read_texts(const Options& options, const DatasetName& name,
                                std::uint64_t max) {
  Texts all;
  std::vector<Origin> origins;
  std::vector<DatasetPlace> places;
  std::optional<std::string> selection;
  const std::vector<std::string> files =
      is_pattern(name.file) ? matching_files(name.file) : std::vector{name.file};
  for (const std::string& file : files) {
    TextDataset place{file, name};
    const std::uint64_t before = all.values.size();
    if (!add_file(place, options, max, all, origins)) {
      if (places.empty()) return std::nullopt;
      throw UsageError(fmt::format("{}:{} has no texts, but {}:{} has: name data sets of one type",
                                   file, place.name.path, files.front(), all.path));
    }
    all.path = place.name.path;
    selection = place.name.selection;
    places.push_back({file, all.path, all.values.size() - before});
  }
  if (all.values.empty()) {
    throw UsageError(fmt::format("{}:{} has no elements: name other texts", name.file, all.path));
  }
  all.name = name.file + ":" + all.path;
  all.origin = unite(origins);
  select(selection, places, all);
  all.coordinates = used_coordinates(places, all.dimension);
  return all;
}

}  // namespace

std::optional<Texts> open_texts(const Options& options, std::string_view key, std::uint64_t max) {
  const DatasetName name = dataset_name(options.text(key));
  if (name.path.empty()) return std::nullopt;
  try {
    std::optional<Texts> texts = read_texts(options, name, max);
    if (!texts) return texts;
    set_option(texts->origin, key);
    return texts;
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    // No work has started yet, so an error of its library is an error of the input.
    throw UsageError(fmt::format("{}: {}", key, error.what()), error.where());
  }
}

}  // namespace shardstream::io
