#include "io/source/texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "io/hdf5/attribute_content.hpp"
#include "io/hdf5/crash.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/stored_type.hpp"
#include "io/source/joined/coordinates.hpp"
#include "io/source/joined/pattern.hpp"
#include "io/source/selection.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

/// The maximum size of a text of fixed length.
constexpr std::size_t max_text = 4096;
/// The number of texts that are read at a time.
constexpr hsize_t block = 65'536;

/// A data set of texts that is open.
struct OpenTexts {
  hdf5::Dataset dataset;
  hdf5::Type type;
  std::string name;
  std::vector<Dimension> dimensions;

  bool is_variable() const { return H5Tis_variable_str(type.get()) > 0; }
  /// Whether the texts are rows of a matrix of characters.
  bool are_rows() const {
    return dimensions.size() == 2 && !is_variable() && H5Tget_size(type.get()) == 1;
  }
  std::size_t size() const { return are_rows() ? dimensions[1].extent : H5Tget_size(type.get()); }
};

/// Checks what the reader relies on. libhdf5 crashes if it reads some damaged layouts.
void expect_readable(const OpenTexts& texts, std::uint64_t max) {
  if (texts.dimensions.size() != 1 && !texts.are_rows()) {
    throw UsageError(fmt::format("{} has {}: name texts with one dimension", texts.name,
                                 counted(texts.dimensions.size(), "dimension")));
  }
  const std::uint64_t count = texts.dimensions[0].extent;
  if (count > max) {
    throw UsageError(fmt::format("{} has {} texts, but at most {} are kept in memory: name fewer",
                                 texts.name, count, max));
  }
  if (!texts.is_variable() && texts.size() > max_text) {
    throw UsageError(fmt::format("{} has texts of {} bytes: shorten them to {}", texts.name,
                                 texts.size(), max_text));
  }
  const hdf5::Properties creation(H5Dget_create_plist(texts.dataset.get()),
                                  "cannot get the layout of " + texts.name);
  const H5D_layout_t layout = H5Pget_layout(creation.get());
  if (layout == H5D_CHUNKED) {
    chunk_of(texts.dataset, texts.name);
  } else if (layout != H5D_VIRTUAL && H5Pget_external_count(creation.get()) == 0) {
    expect_stored_size(texts.dataset, layout, texts.name);
  }
}

void read_rows(const OpenTexts& texts, hsize_t first, hsize_t count, void* out) {
  const std::vector<hsize_t> start = {first, 0}, extent = {count, texts.size()};
  const int rank = texts.are_rows() ? 2 : 1;
  const hdf5::Space file(H5Dget_space(texts.dataset.get()), "cannot get the shape of a data set");
  const hdf5::Space memory(H5Screate_simple(rank, extent.data(), nullptr), "cannot make a space");
  if (H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                          nullptr) >= 0 &&
      H5Dread(texts.dataset.get(), texts.type.get(), memory.get(), file.get(), H5P_DEFAULT, out) >=
          0) {
    return;
  }
  throw UsageError(fmt::format("{} cannot be read (HDF5: {}): copy the file again", texts.name,
                               hdf5::Reasons().innermost()));
}

void read_variable(const OpenTexts& texts, hsize_t first, hsize_t count,
                   std::vector<std::string>& values) {
  std::vector<char*> read(count);
  read_rows(texts, first, count, read.data());
  for (const char* const text : read) values.emplace_back(text == nullptr ? "" : text);
  const hdf5::Space memory(H5Screate_simple(1, &count, nullptr), "cannot make a space");
  check(H5Dvlen_reclaim(texts.type.get(), memory.get(), H5P_DEFAULT, read.data()),
        "cannot free texts");
}

void read_fixed(const OpenTexts& texts, hsize_t first, hsize_t count,
                std::vector<std::string>& values) {
  const std::size_t size = texts.size();
  const bool has_blanks = H5Tget_strpad(texts.type.get()) == H5T_STR_SPACEPAD;
  std::string read(count * size, '\0');
  read_rows(texts, first, count, read.data());
  for (hsize_t i = 0; i < count; ++i) {
    std::string text = read.substr(i * size, size);
    text.resize(std::min(text.find('\0'), size));
    if (has_blanks) text.resize(text.find_last_not_of(' ') + 1);
    values.push_back(std::move(text));
  }
}

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
void apply_conventions(const OpenTexts& texts, const Options& options,
                       std::vector<std::string>& values) {
  if (options.text("input.conventions") != "auto" || texts.are_rows()) return;
  for (const char* const attribute : {"_FillValue", "missing_value"}) {
    const auto missing = attribute_content(texts.dataset.get(), attribute).text;
    if (missing) std::ranges::replace(values, *missing, std::string());
  }
}

/// A file, and the data set that the option names in it.
struct Place {
  std::filesystem::path file;
  DatasetName name;
};

/// Opens the data set; nothing if it has no texts. The caller holds the lock.
std::optional<OpenTexts> open_place(const hdf5::File& file, Place& place) {
  place.name = resolve_braces(file, place.name);
  if (!place.name.member.empty()) return std::nullopt;
  OpenTexts texts;
  texts.dataset = open_dataset(file, place.file.string(), place.name.path);
  texts.type = hdf5::Type(H5Dget_type(texts.dataset.get()));
  if (!texts.type.valid() || H5Tget_class(texts.type.get()) != H5T_STRING) return std::nullopt;
  texts.name = place.file.string() + ":" + place.name.path;
  texts.dimensions = dimensions_of(texts.dataset, texts.name);
  return texts;
}

/// Adds the texts of one file and its origin. Returns whether the data set has texts.
bool add_file(Place& place, const Options& options, std::uint64_t max, Texts& all,
              std::vector<Origin>& origins) {
  const hdf5::AtWork at_work(place.file.string(), hdf5::Stage::opening);
  const hdf5::Lock lock;
  const hdf5::File file = open_input_file(place.file);
  const auto texts = open_place(file, place);
  if (!texts) return false;
  expect_readable(*texts, max - std::min<std::uint64_t>(max, all.values.size()));
  const Unwritten unwritten =
      options.text("input.unwritten") == "fill" ? Unwritten::fill : Unwritten::reject;
  origins.push_back(trace_origin(file, place.file, place.name.path, unwritten));
  const hsize_t count = texts->dimensions[0].extent;
  std::vector<std::string> values;
  for (hsize_t first = 0; first < count; first += block) {
    const hsize_t some = std::min(block, count - first);
    texts->is_variable() ? read_variable(*texts, first, some, values)
                         : read_fixed(*texts, first, some, values);
  }
  if (std::string warning = decode(texts->name, values); !warning.empty()) {
    origins.back().warnings.push_back(std::move(warning));
  }
  apply_conventions(*texts, options, values);
  std::ranges::move(values, std::back_inserter(all.values));
  all.dimension.name = texts->dimensions[0].name;
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
    Place place{file, name};
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
    // No work has started yet, so an error of HDF5 is an error of the input.
    throw UsageError(fmt::format("{}: {}", key, error.what()), error.where());
  }
}

}  // namespace shardstream::io
