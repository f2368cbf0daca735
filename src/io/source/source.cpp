#include "io/source/source.hpp"

#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/source/generator_source.hpp"
#include "io/source/hdf5_source.hpp"
#include "kernels/data/stored_value.hpp"

namespace shardstream::io {
namespace {

/// For a data set in an HDF5 file.
constexpr std::size_t max_dimensions = 32;

constexpr OptionRow rows[] = {
    {"input.data", OptionKind::text, "uniform", "",
     "The data: FILE:/PATH, FILE (if it has only one data set), or a generator, uniform or ramp."},
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
    {"input.type", OptionKind::choice, "auto", "auto|f32|f64|i32|i64|i8|u8|u64",
     "Convert elements to this type; auto is the narrowest type that "
     "holds the values of the file. For generated data, auto is "
     "f32, or the type of product.precision (f64 for fp64, i8 for int8)."},
    {"input.seed", OptionKind::count, "1", "", "The seed of the generator uniform."},
};

std::optional<ElementType> requested_type(const Options& options) {
  const std::string& text = options.text("input.type");
  for (const auto type : all_element_types) {
    if (text == name_of(type)) return type;
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
    if (data == name_of(generator)) return generator;
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
                    join(shape, "x"), name_of(type), max));
  }
  return std::make_unique<GeneratorSource>(generator, type, shape, seed);
}

std::unique_ptr<Source> open_generator(Generator generator, const Options& options) {
  reject_rows_of_generator(options, "input.data");
  if (read_way(options) == ReadWay::direct) {
    throw UsageError(fmt::format(
        "input.read: the generator {} has no file that could be read direct: leave it at auto",
        name_of(generator)));
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

/// Opens FILE or FILE:/PATH, the value of the option `key`.
std::unique_ptr<Source> open_file(std::string_view key, const std::string& data,
                                  const Options& options, ReadOrder order,
                                  const std::string& misfit_remedy = {}) {
  const DatasetName name = dataset_name(data);
  const std::string& file = name.file;
  if (file.empty()) {
    throw UsageError(
        fmt::format("{}: '{}' names no file: write FILE:/PATH, FILE, uniform or ramp", key, data));
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
    auto source = open_hdf5_source(
        file, name.path_and_member(),
        {.type = requested_type(options),
         .way = read_way(options),
         .order = order,
         .unwritten =
             options.text("input.unwritten") == "fill" ? Unwritten::fill : Unwritten::reject,
         .conventions = options.text("input.conventions") == "auto",
         .missing_as_nan = order == ReadOrder::rectangles,
         .misfit_remedy = misfit_remedy,
         .rows = rows_taken});
    Origin origin = source->origin();
    for (InputFile& each : origin.files) each.option = key;
    source->set_origin(std::move(origin));
    return source;
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    // No work has started yet, so an error of HDF5 is an error of the input.
    throw UsageError(fmt::format("{}: {}", key, error.what()), error.where());
  }
}

constexpr std::size_t in_core_cache = std::size_t{128} << 10;

/// Reads rows together and then copies each to its place, since a call for each would be expensive.
void read_whole_rows(Range lines, std::uint64_t width, std::size_t row_bytes, std::byte* out,
                     std::uint64_t stride, const auto& read) {
  const std::uint64_t step =
      std::clamp<std::uint64_t>(in_core_cache / std::max<std::size_t>(1, row_bytes), 1,
                                std::max<std::uint64_t>(1, lines.count));
  std::vector<std::byte> together(step * row_bytes);
  for (std::uint64_t first = 0; first < lines.count; first += step) {
    const std::uint64_t some = std::min(step, lines.count - first);
    read((lines.first + first) * width, some * width, together.data());
    for (std::uint64_t row = 0; row < some; ++row) {
      std::memcpy(out + (first + row) * stride, together.data() + row * row_bytes, row_bytes);
    }
  }
}

}  // namespace

void Source::read_rectangle(Range rows, Range columns, std::byte* out, std::uint64_t stride) const {
  expect_rectangle(rows, columns, stride);
  read_rows(
      rows, columns, size_of(type()), out, stride,
      [this](std::uint64_t first, std::uint64_t count, std::byte* to) { read(first, count, to); });
}

void Source::read_rows(Range rows, Range columns, std::uint64_t element, std::byte* out,
                       std::uint64_t stride, const Read& read) const {
  expect(order().box() == order().shape(), "elements are numbered row by row");
  const std::uint64_t width = order().shape().size() == 2 ? order().shape()[1] : 1;
  if (columns.count == width && stride == width * element) {
    return read(rows.first * width, rows.count * width, out);
  }
  const std::size_t row_bytes = columns.count * element;
  if (columns.count == width && 2 * row_bytes <= in_core_cache) {
    return read_whole_rows(rows, width, row_bytes, out, stride, read);
  }
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    read((rows.first + row) * width + columns.first, columns.count, out + row * stride);
  }
}

const std::byte* Source::read_stored(std::uint64_t first, std::uint64_t count,
                                     std::byte* slot) const {
  expect(conversion() == nullptr, "a source with a conversion reads stored elements itself");
  read(first, count, slot);
  return slot;
}

std::uint64_t Source::convert(std::uint64_t, std::uint64_t, const std::byte*, std::byte*) const {
  throw ContractError("only a source with a conversion converts");
}

void Source::expect_rectangle(Range rows, Range columns, std::uint64_t stride) const {
  const Extents& shape = order().shape();
  expect(shape.size() <= 2, "only shapes of one or two dimensions have rectangles");
  const std::uint64_t height = shape[0], width = shape.size() == 2 ? shape[1] : 1;
  expect(rows.first <= height && rows.count <= height - rows.first && columns.first <= width &&
             columns.count <= width - columns.first,
         "a rectangle ends inside its source");
  expect(stride % size_of(type()) == 0 && stride / size_of(type()) >= columns.count,
         "the rows of a rectangle are whole elements apart and do not overlap");
}

std::span<const OptionRow> input_options() {
  return rows;
}

std::string type_text(const Source& source) {
  const Conversion* const conversion = source.conversion();
  return conversion == nullptr ? std::string(name_of(source.type())) : text_of(*conversion);
}

std::string identity_of(const Source& source) {
  const ElementOrder& order = source.order();
  return fmt::format("{}: {}, {} elements, {} of {}", source.name(), type_text(source),
                     order.count(), fmt::join(order.box(), " x "), fmt::join(order.shape(), " x "));
}

std::unique_ptr<Source> open_source(const Options& options) {
  const std::string& data = options.text("input.data");
  if (const auto generator = generator_named(data)) return open_generator(*generator, options);
  const std::string file = dataset_name(data).file;
  for (const char* key : {"input.count", "input.shape", "input.seed"}) {
    if (!options.is_on_command_line(key) || file.empty()) continue;
    throw UsageError(
        fmt::format("{} is for generators, and input.data names the file {}: leave it out, since a "
                    "data set is taken as a whole",
                    key, file));
  }
  return open_file("input.data", data, options, ReadOrder::elements);
}

std::unique_ptr<Source> open_source(const Options& options, const NamedSource& named) {
  for (const char* key : {"input.count", "input.shape"}) {
    if (!options.is_on_command_line(key)) continue;
    throw UsageError(fmt::format("{} is for input.data, not for {}: leave it out", key, named.key));
  }
  const std::string& data = options.text(named.key);
  const auto generator = generator_named(data);
  if (generator) reject_rows_of_generator(options, named.key);
  return generator
             ? make_generator(*generator, requested_type(options).value_or(named.type), named.shape,
                              named.key, named.seed)
             : open_file(named.key, data, options, ReadOrder::rectangles, named.misfit_remedy);
}

bool names_file(const Options& options, std::string_view key) {
  const std::string& data = options.text(key);
  return !generator_named(data) && !dataset_name(data).file.empty();
}

}  // namespace shardstream::io
