// The records of finished tiles in journals and part files.
#include "workloads/product/checkpoint/finished_tiles.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <limits>
#include <string>

#include "io/output/part_file.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::workloads::product {
namespace {

constexpr std::uint64_t rows = 8, columns = 6, offset = 12;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

const FinishedTile finished = {
    .tile = 3,
    .weighted = UINT64_MAX,
    .squares = 1.0 / 3,
    .worst = 0.5,
    .detection_threshold = infinity,
    .unchecked = 4,
    .overflowed = 3,
    .infinite = 1,
    .counts = {.weighted = 5, .min = 2, .max = UINT64_MAX, .without_samples = 7, .empty = 3},
    .counts_squares = 0.25,
    .variables = {}};

TEST(FinishedTiles, SurviveTheirRecord) {
  const io::FinishedPiece piece = piece_of(finished, 2);
  EXPECT_EQ(piece.group, 2U);
  EXPECT_EQ(piece.record.size(), tile_record);
  const auto back = tile_of(piece);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->tile, finished.tile);
  EXPECT_EQ(back->weighted, finished.weighted);
  EXPECT_EQ(back->squares, finished.squares);
  EXPECT_EQ(back->worst, finished.worst);
  EXPECT_EQ(back->detection_threshold, finished.detection_threshold);
  EXPECT_EQ(back->unchecked, finished.unchecked);
  EXPECT_EQ(back->overflowed, finished.overflowed);
  EXPECT_EQ(back->infinite, finished.infinite);
  EXPECT_EQ(back->counts, finished.counts);
  EXPECT_EQ(back->counts_squares, finished.counts_squares);
  EXPECT_TRUE(back->variables.empty());
}

TEST(FinishedTiles, KeepTheStatisticsOfTheirVariables) {
  FinishedTile tile = finished;
  tile.variables = {{.mean = -1.0 / 3, .deviation = 0.1, .count = 7},
                    {.mean = infinity, .deviation = 0, .count = UINT64_MAX}};
  io::FinishedPiece piece = piece_of(tile, {});
  const auto back = tile_of(piece);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->variables, tile.variables);
  piece.record.pop_back();
  EXPECT_FALSE(tile_of(piece)) << "incomplete";
  tile.variables[0].deviation = -1;
  EXPECT_FALSE(tile_of(piece_of(tile, {}))) << "impossible";
}

TEST(FinishedTiles, WithImpossibleValuesDoNotCount) {
  const auto with = [](std::size_t value, double x) {
    io::FinishedPiece piece = piece_of(finished, {});
    piece.record[value] = std::bit_cast<std::uint64_t>(x);
    return tile_of(piece).has_value();
  };
  EXPECT_TRUE(with(1, nan));  // C may contain values that are not finite
  EXPECT_FALSE(with(1, -1));
  EXPECT_FALSE(with(3, -1));
  EXPECT_FALSE(with(12, -1));
  for (const double worst : {-1.0, 2.0, nan}) EXPECT_FALSE(with(2, worst)) << worst;
  for (const std::size_t size : {0, 7, 12, 14}) {
    io::FinishedPiece piece = piece_of(finished, {});
    piece.record.resize(size);
    EXPECT_FALSE(tile_of(piece)) << size;
  }
}

TEST(FinishedTiles, AreReadFromTheirPartFile) {
  const test::TemporaryFolder folder;
  const auto part = io::part_path_of(folder / "C.h5", "12345678-1234-4123-8123-000000000000");
  std::string bytes = "\211HDF\r\n\032\n0123";
  for (std::size_t i = 0; i < rows * columns; ++i) {
    const float value = 100 + static_cast<float>(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  std::ofstream(part, std::ios::binary) << bytes;
  std::filesystem::permissions(part, std::filesystem::perms{0600});
  const io::Checkpoint checkpoint{
      .runs = {{part, {offset, offset + 4}, {}}, {part, {}, {}}, {folder / "none", {offset}, {}}},
      .pieces = {}};
  const CheckpointReader reader(checkpoint, columns, sizeof(float));
  std::vector<float> some(2 * 3, -1);
  auto* const out = reinterpret_cast<std::byte*>(some.data());
  ASSERT_TRUE(reader.read(0, 0, {4, 2}, {3, 2}, out, 3 * sizeof(float)));
  EXPECT_EQ(some, (std::vector<float>{127, 128, -1, 133, 134, -1}));
  ASSERT_TRUE(reader.read(0, 1, {4, 1}, {3, 2}, out, 0));
  EXPECT_EQ(some[0], 128) << "of the second matrix";
  EXPECT_FALSE(reader.read(0, 2, {0, 1}, {0, 1}, out, 0)) << "no such matrix";
  EXPECT_FALSE(reader.read(0, 0, {1 << 20, 1}, {0, 1}, out, 0)) << "beyond the end";
  EXPECT_FALSE(reader.read(1, 0, {0, 1}, {0, 1}, out, 0)) << "not stored";
  EXPECT_FALSE(reader.read(2, 0, {0, 1}, {0, 1}, out, 0)) << "no file";
}

}  // namespace
}  // namespace shardstream::workloads::product
