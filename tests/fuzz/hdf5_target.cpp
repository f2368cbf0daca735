// Opens damaged HDF5 files as inputs and reads them.
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "cli/commands.hpp"
#include "core/text.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/hdf5_seeds.hpp"
#include "fuzz/sealed.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "io/source/texts.hpp"

namespace shardstream::fuzz {
namespace {

constexpr auto words_file = "case.words";
/// A limit for changed extents, which would otherwise be read for ever.
constexpr std::uint64_t max_elements = 1 << 14, max_rows = 64, max_columns = 256;

void read_elements(io::Source& source) {
  const std::uint64_t all = source.count(), count = std::min(all, max_elements);
  source.prepare({0, all});
  source.access();
  source.visit_stored({0, count}, [](const Descriptor&, Range) {});
  source.coordinates(all - 1);
  std::vector<std::byte> elements(count * size_of(source.type()));
  source.read(0, count, elements.data());
  std::vector<std::byte> slot(source.slot_bytes(count) + 4096);
  auto* const aligned = reinterpret_cast<std::byte*>(
      (reinterpret_cast<std::uintptr_t>(slot.data()) + 4095) / 4096 * 4096);
  const std::byte* const stored = source.read_stored(all - count, count, aligned);
  if (source.conversions().empty()) return;
  source.convert(all - count, count, stored, elements.data());
}

void read_rectangles(const io::Matrix& matrix) {
  const std::uint64_t rows = std::min(matrix.rows(), max_rows);
  const std::uint64_t columns = std::min(matrix.columns(), max_columns);
  const std::size_t stride = (columns + 3) * size_of(matrix.type());
  std::vector<std::byte> out(rows * stride);
  matrix.read({0, rows}, {0, columns}, out.data(), stride);
  matrix.read({matrix.rows() - rows, rows}, {matrix.columns() - columns, columns}, out.data(),
              stride);
}

class Hdf5 final : public Target {
 public:
  explicit Hdf5(const std::filesystem::path& folder) {
    for (Seed& seed : hdf5_seeds(folder)) {
      Known known{std::move(seed), {}};
      for (const auto& [name, bytes] : known.seed.files) {
        known.blocks[name] = sealed_blocks(bytes);
      }
      seeds_.push_back(std::move(known));
    }
  }

  std::string_view name() const override { return "hdf5"; }
  Ends ends() const override { return Ends::usage_or_failed; }

  Files make(Random& random) const override {
    const Known& known = random.pick(seeds_);
    Files files = known.seed.files;
    const std::string name = random.one_in(4) ? random.pick(files).first : "main.h5";
    damage(files[name], random);
    if (!random.one_in(4)) seal(files[name], known.blocks.at(name));
    files[words_file] = words(known.seed.data, random);
    return files;
  }

  void run() const override {
    std::vector<std::string> arguments;
    const std::string text = read_file(words_file);
    for (const std::string_view word : split(text, ' ')) arguments.emplace_back(word);
    const char* const nothing[] = {nullptr};
    const Options options =
        table_.resolve(table_.parse_command_line(arguments), nothing, std::nullopt);
    if (arguments.front() == "--input.data") {
      if (!io::open_texts(options, "input.data", max_elements)) {
        read_elements(*io::open_source(options));
      }
    } else {
      read_rectangles(*io::open_matrix(options, "input.a", 8, 8));
    }
  }

 private:
  struct Known {
    Seed seed;
    std::map<std::string, std::vector<Sealed>> blocks;
  };

  void damage(std::string& bytes, Random& random) const {
    if (random.one_in(8)) {  // a piece of another file, in the same place or anywhere
      const std::string& other = random.pick(seeds_).seed.files.at("main.h5");
      const std::size_t from = random.below(other.size());
      const std::size_t to =
          std::min(random.one_in(2) ? from : random.below(bytes.size() + 1), bytes.size());
      const std::string piece = other.substr(from, 1 + random.below(512));
      bytes.replace(to, std::min(piece.size(), bytes.size() - to), piece);
    } else {
      mutate(bytes, random);
    }
  }

  /// "[1:3,lat=2:4]"
  static std::string selection(Random& random) {
    constexpr std::array positions = {":", "0", "-1", "1:3", "::2", "1:", "...", "1:6:3"};
    constexpr std::array coordinates = {"lat=1:4", "lat=2", "lat=:3:2", "lon=0.5:", "lon=1", "x=1"};
    const bool by_position = !random.one_in(3);
    std::string text;
    for (std::uint64_t left = random.below(3) + 1; left > 0; --left) {
      text += text.empty() ? "[" : ",";
      text += by_position ? random.pick(positions) : random.pick(coordinates);
    }
    return text + ']';
  }

  static std::string words(const std::string& data, Random& random) {
    constexpr std::array types = {"auto", "f32", "f64", "i32", "i64", "i8", "u8", "u64"};
    std::string words = random.one_in(3) ? "--input.a " : "--input.data ";
    words += data;
    if (data.find(":/") != data.npos && random.one_in(3)) words += selection(random);
    if (random.one_in(3)) words += std::string(" --input.type ") + random.pick(types);
    if (random.one_in(8)) words += " --input.read direct";
    if (random.one_in(8)) words += " --input.conventions none";
    return words;
  }

  std::vector<Known> seeds_;
  OptionTable table_ = cli::all_options();
};

}  // namespace

std::unique_ptr<Target> hdf5_target(const std::filesystem::path& folder) {
  return std::make_unique<Hdf5>(folder);
}

}  // namespace shardstream::fuzz
