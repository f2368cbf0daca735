#include "io/source.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <optional>

#include "core/error.hpp"
#include "io/generator_source.hpp"
#include "io/hdf5_source.hpp"

namespace shardstream::io {
namespace {

constexpr OptionRow rows[] = {
    {"input.data", OptionKind::text, "uniform", "",
     "Where elements come from: FILE:/PATH, FILE (its only data set), or a generator, uniform or "
     "ramp."},
    {"input.read", OptionKind::choice, "auto", "auto|cached|direct",
     "How the file of a contiguous data set is read: through the page cache, or past it "
     "(O_DIRECT); auto goes past it where less than half of the rank's shard is cached."},
    {"input.count", OptionKind::count, "2^28", "1..", "How many elements a generator makes."},
    {"input.type", OptionKind::choice, "auto", "auto|f32|f64|i32|i64|u8",
     "What elements are converted to; auto is the file's own type, f32 for a generator."},
    {"input.seed", OptionKind::count, "1", "", "The seed of the generator uniform."},
};

std::optional<ElementType> requested_type(const Options& options) {
  const std::string& text = options.text("input.type");
  for (const auto type :
       {ElementType::f32, ElementType::f64, ElementType::i32, ElementType::i64, ElementType::u8}) {
    if (text == name_of(type)) return type;
  }
  return std::nullopt;
}

struct FileAndPath {
  std::string file, path;
};

/// Splits FILE:/PATH at the last ":/", unless there is a file with the whole as its name.
FileAndPath split(const std::string& data) {
  struct stat status {};
  const auto colon = data.rfind(":/");
  if (colon == std::string::npos || ::stat(data.c_str(), &status) == 0) return {data, ""};
  return {data.substr(0, colon), data.substr(colon + 1)};
}

ReadWay read_way(const Options& options) {
  const std::string& text = options.text("input.read");
  return text == "auto" ? ReadWay::automatic : text == "cached" ? ReadWay::cached : ReadWay::direct;
}

std::optional<Generator> generator_named(const std::string& data) {
  for (const auto generator : {Generator::uniform, Generator::ramp}) {
    if (data == name_of(generator)) return generator;
  }
  return std::nullopt;
}

std::unique_ptr<Source> open_generator(Generator generator, const Options& options) {
  if (read_way(options) == ReadWay::direct) {
    throw UsageError(fmt::format(
        "input.read: the generator {} has no file that could be read direct: leave it at auto",
        name_of(generator)));
  }
  const std::uint64_t count = options.count("input.count");
  const ElementType type = requested_type(options).value_or(ElementType::f32);
  const std::uint64_t most = INT64_MAX / size_of(type);  // its bytes are counted in 63 bits too
  if (count == 0 || count > most) {
    throw UsageError(
        fmt::format("input.count: {} elements of {} cannot be generated: choose 1 to {} of them",
                    count, name_of(type), most));
  }
  return std::make_unique<GeneratorSource>(generator, type, count, options.count("input.seed"));
}

std::unique_ptr<Source> open_file(const std::string& data, const Options& options) {
  const auto [file, path] = split(data);
  if (file.empty()) {
    throw UsageError(fmt::format(
        "input.data: '{}' names no file: write FILE:/PATH, FILE, uniform or ramp", data));
  }
  for (const char* key : {"input.count", "input.seed"}) {
    if (options.all().find(key)->second.origin != "command line") continue;
    throw UsageError(
        fmt::format("{} is for generators, and input.data names the file {}: leave it "
                    "out, since a data set is taken as a whole",
                    key, file));
  }
  struct stat status {};
  const auto colon = data.rfind(':');
  if (path.empty() && colon != data.npos && ::stat(data.c_str(), &status) != 0 &&
      ::stat(data.substr(0, colon).c_str(), &status) == 0) {
    throw UsageError(
        fmt::format("input.data: there is no file '{}': the path of a data set begins "
                    "with /, as in {}:/{}",
                    data, data.substr(0, colon), data.substr(colon + 1)));
  }
  try {
    return open_hdf5_source(file, path, requested_type(options), read_way(options));
  } catch (const ContractError&) {
    throw;
  } catch (const Error& error) {
    // No work has started: what HDF5 finds wrong with the file now is the input's fault.
    if (error.code() == ExitCode::usage) throw;
    throw UsageError(fmt::format("input.data: {}", error.what()), error.where());
  }
}

}  // namespace

std::span<const OptionRow> input_options() {
  return rows;
}

std::unique_ptr<Source> open_source(const Options& options) {
  const std::string& data = options.text("input.data");
  const auto generator = generator_named(data);
  return generator ? open_generator(*generator, options) : open_file(data, options);
}

std::filesystem::path input_file(const Options& options) {
  const std::string& data = options.text("input.data");
  return generator_named(data) ? "" : split(data).file;
}

}  // namespace shardstream::io
