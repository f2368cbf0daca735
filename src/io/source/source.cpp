#include "io/source/source.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "core/utf8.hpp"
#include "io/description/dataset_name.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "io/source/generator_source.hpp"
#include "io/source/joined/join.hpp"
#include "io/source/joined/pattern.hpp"
#include "io/source/selection.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {
namespace {

constexpr OptionRow rows[] = {
    {"input.data", OptionKind::text, "uniform", "",
     "The data: FILE:/PATH, a selection FILE:/PATH[0:90, 5] or FILE:/PATH[lat=-30:30], FILE (if it "
     "has only one data set), or a generator, uniform or ramp. FILE may be a pattern in quotes, "
     "such as 'sst_*.nc': all matching files, joined along their first dimension."},
    {"input.read", OptionKind::choice, "auto", "auto|cached|direct",
     "Read a contiguous data set through the page cache (cached) or past it with O_DIRECT "
     "(direct); auto is direct if less than half of the rank's shard is in the cache."},
    {"input.unwritten", OptionKind::choice, "fill", "fill|error",
     "Elements of a data set that were never written: fill uses the fill value of the data set and "
     "warns; error rejects the data set."},
    {"input.conventions", OptionKind::choice, "auto", "auto|none",
     "Apply the attributes of netCDF and HDF-EOS5: missing values, valid ranges, packing, signs "
     "(auto), or take values as they are stored (none)."},
    {"input.rows", OptionKind::count, "auto", "auto|1..",
     "Use only the first rows of the data set of input.data (indices of its first dimension); auto "
     "is all rows."},
    {"input.count", OptionKind::count, "2^28", "1..", "The number of generated elements."},
    {"input.shape", OptionKind::text, "", "such as 4096x2048",
     "The shape of the generated data, with elements numbered row by row; instead of "
     "input.count."},
    {"input.type", OptionKind::choice, "auto", element_type_range,
     "Convert elements to this type; auto is the narrowest type that "
     "holds the values of the file. For generated data, auto is "
     "f32, or the type of product.precision (f64 for fp64, i8 for int8).",
     element_type_other_names},
    {"input.seed", OptionKind::count, "1", "", "The seed of the generator uniform."},
};

std::optional<ElementType> requested_type(const Options& options) {
  const std::string& text = options.text("input.type");
  for (const auto type : all_element_types) {
    if (text == word_of(type)) return type;
  }
  return std::nullopt;
}

ReadWay read_way(const Options& options) {
  const std::string& text = options.text("input.read");
  return text == "auto" ? ReadWay::automatic : text == "cached" ? ReadWay::cached : ReadWay::direct;
}

void reject_rows_of_generator(const Options& options, std::string_view key) {
  if (key != "input.data" || !options.is_on_command_line("input.rows")) return;
  throw UsageError(
      fmt::format("input.rows is for data sets of files, and input.data is {}: leave it out",
                  options.text(key)));
}

std::optional<Generator> generator_named(const std::string& data) {
  for (const auto generator : {Generator::uniform, Generator::ramp}) {
    if (data == word_of(generator)) return generator;
  }
  return std::nullopt;
}

Extents parse_shape(const std::string& text) {
  Extents shape;
  try {
    for (const std::string_view extent : split(text, 'x')) {
      shape.push_back(parse_count(extent));
    }
  } catch (const UsageError& error) {
    throw UsageError(
        fmt::format("input.shape: {} (a shape is written as 4096x2048)", error.what()));
  }
  if (shape.size() > max_dimensions) {
    throw UsageError(
        fmt::format("input.shape: {} dimensions are more than the {} of HDF5: choose fewer",
                    shape.size(), max_dimensions));
  }
  return shape;
}

/// `option` is the option with the shape.
std::unique_ptr<Source> make_generator(Generator generator, ElementType type, const Extents& shape,
                                       std::string_view option, std::uint64_t seed) {
  const std::uint64_t count = saturating_product(shape);
  const std::uint64_t max = INT64_MAX / size_of(type);  // its bytes are counted in 63 bits too
  if (count == 0 || count > max) {
    throw UsageError(
        fmt::format("{}: {} elements of {} cannot be generated: choose 1 to {} of them", option,
                    join(shape, "x"), word_of(type), max));
  }
  return std::make_unique<GeneratorSource>(generator, type, shape, seed);
}

std::unique_ptr<Source> open_generator(Generator generator, const Options& options) {
  reject_rows_of_generator(options, "input.data");
  if (read_way(options) == ReadWay::direct) {
    throw UsageError(fmt::format(
        "input.read: the generator {} has no file that could be read direct: leave it at auto",
        word_of(generator)));
  }
  const std::string& shape = options.text("input.shape");
  if (!shape.empty() && !options.is_default("input.count")) {
    throw UsageError(
        "input.shape and input.count both say how many elements a generator makes: give one of "
        "them");
  }
  return make_generator(generator, requested_type(options).value_or(ElementType::f32),
                        shape.empty() ? Extents{options.count("input.count")} : parse_shape(shape),
                        shape.empty() ? "input.count" : "input.shape", options.count("input.seed"));
}

/// Opens the data set of one file, or of all files that match a pattern.
std::unique_ptr<Source> open_files(const DatasetName& name, const DatasetRequest& request) {
  const std::string &pattern = name.file, path = name.within_file();
  if (!is_pattern(pattern)) return open_dataset_source(pattern, path, request);
  expect_no_selection(pattern);
  const std::vector<std::string> files = matching_files(pattern);
  if (files.size() > 1) return open_joined_source(pattern, files, path, request);
  auto source = open_dataset_source(files.front(), path, request);
  Origin origin = source->origin();
  origin.notes.push_back(
      fmt::format("'{}' is the only file that matches '{}'", files.front(), pattern));
  source->set_origin(std::move(origin));
  return source;
}

/// Whether the text begins like https://. FILE://PATH is a data set, if FILE has an extension.
bool is_url(const std::string& data) {
  const auto end = data.find("://");
  return end != data.npos && end > 0 && std::all_of(data.begin(), data.begin() + end, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
         });
}

/// Opens FILE or FILE:/PATH, the value of the option `key`.
std::unique_ptr<Source> open_file(std::string_view key, const std::string& data,
                                  const Options& options, ReadOrder order,
                                  const std::string& misfit_remedy = {}, bool keeps_type = false) {
  const DatasetName name = dataset_name(data);
  const std::string& file = name.file;
  const std::string without_type = "write smaller numbers, or f64, to another file";
  if (file.empty()) {
    throw UsageError(
        fmt::format("{}: '{}' names no file: write FILE:/PATH, FILE, uniform or ramp", key, data));
  }
  if (is_url(data)) {
    throw UsageError(fmt::format(
        "{}: '{}' is a URL, and only files on this machine are read: download it first, for "
        "example with curl -O or the client of the store, and name the file",
        key, data));
  }
  struct stat status {};
  const auto colon = data.rfind(':');
  if (name.path.empty() && colon != data.npos && ::stat(data.c_str(), &status) != 0 &&
      ::stat(data.substr(0, colon).c_str(), &status) == 0) {
    throw UsageError(
        fmt::format("{}: there is no file '{}': the path of a data set begins with /, as in {}:/{}",
                    key, data, data.substr(0, colon), data.substr(colon + 1)));
  }
  const bool all = key != "input.data" || options.is_auto("input.rows");
  const std::uint64_t rows_taken = all ? 0 : options.count("input.rows");
  try {
    auto source = open_files(
        name, {.type = keeps_type ? std::nullopt : requested_type(options),
               .way = read_way(options),
               .order = order,
               .unwritten =
                   options.text("input.unwritten") == "fill" ? Unwritten::fill : Unwritten::reject,
               .conventions = options.text("input.conventions") == "auto",
               .missing_as_nan = order == ReadOrder::blocks,
               .misfit_remedy = keeps_type ? without_type : misfit_remedy,
               .rows = rows_taken});
    Origin origin = source->origin();
    set_option(origin, key);
    source->set_origin(std::move(origin));
    return source;
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    // No work has started yet, so an error of its library is an error of the input.
    throw UsageError(fmt::format("{}: {}", key, error.what()), error.where());
  }
}

}  // namespace

std::vector<SourceDimension> unnamed_dimensions(const Extents& shape) {
  std::vector<SourceDimension> dimensions;
  for (const std::uint64_t extent : shape) {
    dimensions.push_back({.name = {}, .extent = extent, .axis = {.count = extent}});
  }
  return dimensions;
}

Extents Source::shape() const {
  Extents shape;
  for (const SourceDimension& dimension : dimensions()) {
    if (!dimension.axis.is_index) shape.push_back(dimension.axis.count);
  }
  return shape.empty() ? Extents{1} : shape;
}

std::uint64_t Source::count() const {
  return saturating_product(shape());
}

void Source::read_block(const Extents& start, const Extents& extent, const Pitches& pitch,
                        std::byte* out) const {
  expect_block(start, extent);
  if (saturating_product(extent) == 0) return;
  Extents shape;
  for (const SourceDimension& dimension : dimensions()) shape.push_back(dimension.axis.count);
  const std::uint64_t element = size_of(type());
  const Pitches in_source = dense_pitches(shape, element);
  const std::uint64_t first = offset_of(start, in_source);
  std::vector<std::byte> room;
  io::read_block(
      extent, element, in_source, out, pitch,
      {.read = [&](std::uint64_t offset, std::uint64_t bytes,
                   std::byte* to) { read((first + offset) / element, bytes / element, to); },
       .memory =
           [&](std::uint64_t bytes) {
             room.resize(bytes);
             return room.data();
           }});
}

const std::byte* Source::read_stored(std::uint64_t first, std::uint64_t count,
                                     std::byte* slot) const {
  expect(conversions_.empty(), "a source with a conversion reads stored elements itself");
  read(first, count, slot);
  return slot;
}

std::uint64_t Source::convert(std::uint64_t, std::uint64_t, const std::byte*, std::byte*) const {
  throw ContractError("only a source with a conversion converts");
}

void Source::expect_block(const Extents& start, const Extents& extent) const {
  const auto& all = dimensions();
  expect(start.size() == all.size() && extent.size() == all.size(),
         "a block has the dimensions of its source");
  for (std::size_t d = 0; d < all.size(); ++d) {
    const std::uint64_t count = all[d].axis.count;
    expect(start[d] <= count && extent[d] <= count - start[d], "a block ends inside its source");
  }
}

std::span<const OptionRow> input_options() {
  return rows;
}

std::optional<double> cached_share(const Source& source, Range elements, std::uint64_t samples) {
  std::uint64_t files = 1;  // with these elements
  if (!source.origin().joined.empty()) {
    files = 0;
    source.visit_stored(elements, [&](const Descriptor&, Range) { ++files; });
  }
  const std::uint64_t samples_of_each = ceil_div(samples, std::max<std::uint64_t>(files, 1));
  double all = 0, cached = 0;
  bool is_known = true;
  source.visit_stored(elements, [&](const Descriptor& file, Range bytes) {
    const auto share = cached_share(file, bytes, samples_of_each);
    is_known = is_known && (share || bytes.count == 0);
    all += static_cast<double>(bytes.count);
    cached += static_cast<double>(bytes.count) * share.value_or(0);
  });
  return is_known && all > 0 ? std::optional(cached / all) : std::nullopt;
}

std::string type_text(const Source& source) {
  const Conversions& conversions = source.conversions();
  return conversions.empty() ? std::string(word_of(source.type())) : identity_of(conversions);
}

std::string shape_text(const Source& source) {
  std::vector<Dimension> kept;
  for (const auto& [name, extent, axis] : source.dimensions()) {
    if (!axis.is_index) kept.push_back({name, axis.count, false});
  }
  return kept.empty() ? "1" : text_of(kept);
}

std::vector<std::size_t> kept_dimensions(const Source& source) {
  std::vector<std::size_t> kept;
  for (std::size_t d = 0; d < source.dimensions().size(); ++d) {
    if (!source.dimensions()[d].axis.is_index) kept.push_back(d);
  }
  return kept;
}

std::size_t find_dimension(const Source& source, const std::string& text) {
  const std::string wanted = as_utf8(text);
  std::vector<std::string> names;
  std::vector<std::size_t> found;
  for (const std::size_t d : kept_dimensions(source)) {
    const std::string& name = source.dimensions()[d].name;
    if (wanted == name || wanted == std::to_string(d)) found.push_back(d);
    names.push_back(name.empty() ? std::to_string(d) : name);
  }
  if (found.size() == 1) return found[0];
  if (found.size() > 1) {
    throw UsageError(fmt::format(
        "'{}' means several dimensions of {} ({}), those with the numbers {}: name one by its "
        "number, or give them different names",
        printable(wanted), source.name(), shape_text(source), join(found, ", ")));
  }
  throw UsageError(fmt::format("{} has no dimension '{}': choose {}", source.name(), text,
                               names.empty() ? "a data set that has one" : join(names, ", ")));
}

std::string name_within_file(const Source& source) {
  const auto colon = source.name().rfind(":/");
  expect(colon != std::string::npos, "the name of a source of files has a path");
  return source.name().substr(colon);
}

std::string identity_of(const Source& source) {
  const auto& joined = source.origin().joined;
  std::string files;
  for (const DatasetPlace& place : joined) {
    files += fmt::format("{}:{}\n", place.file.string(), place.path);
  }
  if (!joined.empty()) {
    files = fmt::format(", {} files (digest {})", joined.size(), digest_of(files));
  }
  return fmt::format("{}: {}, {} elements, {} of {}{}", source.name(), type_text(source),
                     source.count(), fmt::join(source.box(), " x "),
                     fmt::join(source.shape(), " x "), files);
}

std::string selection_text(const Source& source) {
  Selection selection;
  Extents extents;
  bool is_all = true;
  for (const auto& [name, extent, axis] : source.dimensions()) {
    is_all = is_all && is_whole(axis, extent);
    selection.push_back(axis);
    extents.push_back(extent);
  }
  return is_all ? "" : text_of(selection, extents);
}

std::unique_ptr<Source> open_source(const Options& options) {
  const std::string& data = options.text("input.data");
  if (const auto generator = generator_named(data)) return open_generator(*generator, options);
  const std::string file = dataset_name(data).file;
  for (const char* key : {"input.count", "input.shape", "input.seed"}) {
    if (!options.is_on_command_line(key) || file.empty()) continue;
    throw UsageError(
        fmt::format("{} is for generators: leave it out, since input.data names a file, {}, which "
                    "has its own shape",
                    key, file));
  }
  return open_file("input.data", data, options, ReadOrder::elements);
}

std::unique_ptr<Source> open_source(const Options& options, const NamedSource& named) {
  for (const char* key : {"input.count", "input.shape"}) {
    if (!options.is_on_command_line(key) || named.keeps_type) continue;
    throw UsageError(fmt::format("{} is for input.data, not for {}: leave it out", key, named.key));
  }
  const std::string& data = options.text(named.key);
  const auto generator = generator_named(data);
  if (generator) reject_rows_of_generator(options, named.key);
  return generator ? make_generator(*generator, requested_type(options).value_or(named.type),
                                    named.shape, named.key, named.seed)
                   : open_file(named.key, data, options, ReadOrder::blocks, named.misfit_remedy,
                               named.keeps_type);
}

bool names_file(const Options& options, std::string_view key) {
  const std::string& data = options.text(key);
  return !generator_named(data) && !dataset_name(data).file.empty();
}

}  // namespace shardstream::io
