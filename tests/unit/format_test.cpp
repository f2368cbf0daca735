// A format without HDF5, which only fills descriptions and gives bytes, is read like HDF5: its
// contiguous elements, its chunks, each in a file of its own, and what only its library can read.
#include "io/description/format.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/source/dataset/planned_source.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using Numbers = std::vector<float>;

/// Chunk n of a data set is the file NAME.n. There is no file of a chunk that was never written.
class ChunkFiles final : public ChunkStore {
 public:
  explicit ChunkFiles(const Description& about)
      : name_(about.place.file), bytes_(saturating_product(about.box) * about.record.size) {}

  StoredChunk find(std::uint64_t number, std::span<const std::uint64_t>) const override {
    auto file = std::make_shared<const Descriptor>(fmt::format("{}.{}", name_, number), O_RDONLY);
    if (!file->valid()) return {};
    return {.file = std::move(file), .address = 0, .bytes = bytes_};
  }
  void visit_files(const UseFile&) const override {}

 private:
  std::string name_;
  std::uint64_t bytes_;
};

/// The elements 0, 10, 20, ... of a data set of two dimensions, without a file.
class Tens final : public LibraryData, public LibraryReader {
 public:
  explicit Tens(std::uint64_t columns) : columns_(columns) {}

  std::unique_ptr<const LibraryReader> start() const override {
    return std::make_unique<Tens>(columns_);
  }
  std::optional<std::string> read(const Extents& start, const Extents& step, const Extents& extent,
                                  std::byte* out) const override {
    for (std::uint64_t i = 0; i < extent[0]; ++i) {
      for (std::uint64_t j = 0; j < extent[1]; ++j, out += sizeof(std::int16_t)) {
        const auto value = static_cast<std::int16_t>(
            10 * ((start[0] + i * step[0]) * columns_ + start[1] + j * step[1]));
        std::memcpy(out, &value, sizeof value);
      }
    }
    return std::nullopt;
  }
  std::optional<std::string> convert(std::uint64_t, std::byte*) const override { return {}; }
  std::uint64_t element_size() const override { return sizeof(std::int16_t); }

 private:
  std::uint64_t columns_;
};

extern const Format format;

/// A file that is its only data set, /x: 4 x 3 elements of i16 with the attribute scale_factor.
class PlainFile final : public OpenFile, public OpenDataset {
 public:
  PlainFile(std::string name, Layout layout) : name_(std::move(name)), layout_(layout) {}

  DatasetName resolve(const DatasetName& name) const override { return name; }
  Origin trace(const std::string&, Unwritten) const override { return {}; }
  std::unique_ptr<OpenDataset> open(const std::string&, const std::string&) const override {
    return std::make_unique<PlainFile>(name_, layout_);
  }
  std::unique_ptr<LibraryData> open_data(const std::string&, const Description& about,
                                         std::size_t) const override {
    return std::make_unique<Tens>(about.shape[1]);
  }

  std::vector<Dimension> dimensions() const override { return {{"y", 4, false}, {"x", 3, false}}; }
  std::optional<Coordinates> coordinates(std::size_t) const override { return std::nullopt; }
  std::optional<Bounds> bounds(std::size_t) const override { return std::nullopt; }
  AttributeContent attribute(const std::string&) const override { return {}; }
  Description describe(const std::string&, bool) const override {
    return {.format = &format,
            .name = name_ + ":/x",
            .stored_as = "i16",
            .form = {.type = StoredType::i16},
            .record = {2, 0},
            .dimensions = dimensions(),
            .shape = {4, 3},
            .layout = layout_,
            .box = layout_ == Layout::chunked ? Extents{2, 2} : Extents{4, 3},
            .fill = {std::byte{8}, std::byte{0}},
            .stored_bytes = 24,
            .attributes = {.contents = {{"scale_factor", {.numbers = {0.5}, .is_f32 = true}}}},
            .place = {.file = name_,
                      .offset = layout_ == Layout::contiguous ? std::optional(4) : std::nullopt}};
  }
  bool has_texts() const override { return false; }
  void expect_readable_texts(std::uint64_t) const override {}
  std::vector<std::string> read_texts() const override { return {}; }

 private:
  std::string name_;
  Layout layout_;
};

const Format format = {.name = "plain",
                       .read_call = "library",
                       .open_bytes = 0,
                       .chunk_store_bytes = [](std::uint64_t) { return std::uint64_t{0}; },
                       .open = nullptr,
                       .open_chunks = [](const Description& about) -> std::unique_ptr<ChunkStore> {
                         return std::make_unique<ChunkFiles>(about);
                       }};

class FormatTest : public testing::Test {
 protected:
  void write(const std::string& name, std::vector<std::int16_t> values) {
    const Descriptor file(folder_ / name, O_WRONLY | O_CREAT, 0600);
    EXPECT_TRUE(file.write_at(0, std::as_bytes(std::span(values))));
  }
  /// The source of a file with this layout.
  std::unique_ptr<DatasetSource> open(Layout layout) {
    const std::string name = folder_ / "file";
    auto file = std::make_unique<PlainFile>(name, layout);
    const DatasetRequest request{.conventions = true};
    const DatasetPlan plan = plan_dataset(*file, name, "/x", request);
    return open_planned(plan, request, std::make_shared<DecodingMemory>(), std::move(file));
  }
  static Numbers read(const Source& source) {
    Numbers values(source.count());
    source.read(0, values.size(), reinterpret_cast<std::byte*>(values.data()));
    return values;
  }

  test::TemporaryFolder folder_;
};

TEST_F(FormatTest, ContiguousElementsAreReadAtTheirPosition) {
  std::vector<std::int16_t> values(14);
  std::iota(values.begin(), values.end(), -2);  // the elements begin at byte 4
  write("file", values);
  const auto source = open(Layout::contiguous);
  EXPECT_EQ(source->type(), ElementType::f32);
  EXPECT_EQ(source->access(), "contiguous, parallel pread");
  EXPECT_EQ(shape_text(*source), "y=4 x x=3");
  EXPECT_EQ(read(*source), (Numbers{0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5}));
}

TEST_F(FormatTest, ChunksAreReadAsTheyAreStored) {
  write("file.0", {0, 1, 3, 4});
  write("file.1", {2, -1, 5, -1});  // the chunk goes beyond the data set
  write("file.3", {6, -1, 7, -1});  // chunk 2 was never written
  const auto source = open(Layout::chunked);
  EXPECT_EQ(source->access(), "chunks 2x2, parallel pread");
  EXPECT_EQ(read(*source), (Numbers{0, 0.5, 1.5, 2, 1, 2.5, 4, 4, 4, 4, 3, 3.5}));
}

TEST_F(FormatTest, TheLibraryReadsTheRest) {
  const auto source = open(Layout::compact);
  EXPECT_EQ(source->access(), "library, compact");
  EXPECT_EQ(read(*source), (Numbers{0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55}));
}

}  // namespace
}  // namespace shardstream::io
