// The sizes of tiles, pitches and elements that a product has on each backend.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/shard.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/multiply/factor.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/precision.hpp"

namespace shardstream::gemm {
namespace {

TEST(TileFor, CoversWithEqualTilesThatAreMultiplesOfTheGranule) {
  struct Rule {
    Backend backend;
    std::uint64_t max, coarse, fine;
    std::uint64_t Tile::*edge;
  };
  for (const auto& [backend, max, coarse, fine, edge] :
       {Rule{Backend::cuda, 4096, 256, 16, &Tile::m}, Rule{Backend::cuda, 4096, 256, 16, &Tile::n},
        Rule{Backend::cuda, 8064, 64, 16, &Tile::k}, Rule{Backend::host, 2048, 8, 1, &Tile::k}}) {
    for (const std::uint64_t x : {1, 8, 13, 16, 17, 256, 257, 263, 768, 769, 2049, 4096, 4097, 9000,
                                  65536, 65537, 1000003}) {
      const std::uint64_t length = tile_for(x, x, x, Precision::fp32, backend, true).*edge;
      const std::uint64_t tiles = (x + length - 1) / length, fewest = (x + max - 1) / max;
      EXPECT_LE(length, max) << x;
      EXPECT_EQ(tiles, fewest) << x;
      EXPECT_EQ(length % (length > coarse ? coarse : fine), 0U) << x;
      EXPECT_LT(tiles * length - x, tiles * coarse) << x << ": padded by a granule a tile or more";
    }
  }
}

/// The threads of a host need several tiles to share.
TEST(TileFor, HostsHaveTwoTilesPerEdgeAndFourForTallProducts) {
  for (const auto& [precision, longest] :
       {std::pair{Precision::fp32, 512U}, std::pair{Precision::fp64, 384U}}) {
    for (const std::uint64_t x : {1, 7, 128, 129, 384, 511, 513, 1024, 1500, 2048, 4097, 65537}) {
      for (const std::uint64_t parts : {2, 4}) {
        const Tile tile = tile_for(x, x, parts == 2 ? 8 * x - 1 : 8 * x, precision, Backend::host);
        const std::uint64_t tiles = (x + tile.m - 1) / tile.m;
        EXPECT_EQ(tile.n, tile.m) << x;
        EXPECT_LE(tile.m, longest) << x;
        EXPECT_TRUE(tile.m <= 128 || tiles >= parts) << x;
        EXPECT_TRUE(tile.m >= 64 || tiles == 1) << x;
        EXPECT_EQ(tile.m % 2, 0U) << x;
        EXPECT_LT(tiles * tile.m - x, tiles * 8) << x << ": padded by a granule a tile or more";
      }
    }
  }
}

TEST(TileFor, EdgesAreChosenIndependently) {
  EXPECT_EQ(tile_for(9000, 4097, 9000, Precision::fp64, Backend::cuda), (Tile{3072, 2304, 3008}));
  EXPECT_EQ(tile_for(65536, 1, 13, Precision::bf16, Backend::cuda), (Tile{65536, 16, 16}));
  EXPECT_EQ(tile_for(1, 1, 20000, Precision::tf32, Backend::cuda), (Tile{16, 16, 5120, 8}));
  EXPECT_EQ(tile_for(1, 1, 20000, Precision::fp32x3, Backend::cuda), (Tile{16, 16, 1024}));
  EXPECT_EQ(tile_for(9000, 5, 5000, Precision::fp32, Backend::host), (Tile{504, 6, 1672}));
  EXPECT_EQ(tile_for(9000, 5, 5000, Precision::int8, Backend::host), (Tile{504, 6, 1000}));
  EXPECT_EQ(tile_for(65536, 65536, 65536, Precision::int8, Backend::cuda),
            (Tile{4096, 4096, 7296}));
  for (const Backend backend : {Backend::cuda, Backend::host}) {
    const Tile tile = tile_for(65536, 65536, 65536, Precision::fp32x3, backend);
    EXPECT_EQ(tile.k, max_split_k);
  }
}

TEST(TileFor, TallProductsHaveLanesUnlessCFillsTheDevice) {
  const auto tall = [](std::uint64_t edge, std::uint64_t k, Backend backend = Backend::cuda) {
    return tile_for(edge, edge, k, Precision::fp32, backend, true);
  };
  EXPECT_EQ(tall(512, 1 << 22), (Tile{512, 512, 16384, 8}));
  EXPECT_EQ(tall(1024, 1 << 20), (Tile{1024, 1024, 8192, 2}));
  EXPECT_EQ(tall(2048, 1 << 20), (Tile{2048, 2048, 8064}));
  EXPECT_EQ(tile_for(64, 64, 1 << 24, Precision::fp32, Backend::cuda), (Tile{64, 64, 131072, 32}));
  EXPECT_EQ(tile_for(4, 4, 1 << 28, Precision::fp32, Backend::cuda), (Tile{16, 16, 1030144, 128}));
  EXPECT_EQ(tall(512, 512 * 8 - 1).lanes, 1U) << "not tall";
  EXPECT_EQ(tall(384, 200000, Backend::host), (Tile{128, 128, 2048}))
      << "nine tiles are enough for threads";
  EXPECT_EQ(tall(120, 200000, Backend::host).lanes, 4U);
  EXPECT_EQ(tall(4, 1 << 28, Backend::host).lanes, 4U);
  for (const std::uint64_t edge : {1, 100, 512, 700, 1500, 3000}) {
    for (const std::uint64_t k : {1000, 30001, 1000003, 100000007}) {
      for (const Precision precision : all_precisions) {
        for (const Backend backend : {Backend::cuda, Backend::host}) {
          const Tile tile = tile_for(edge, edge, k, precision, backend);
          EXPECT_EQ(tile.k % tile.lanes, 0U);
          EXPECT_LE(tile.lane_k(), calls_of(precision, backend).max_k);
          EXPECT_LT(ceil_div(k, tile.k) * tile.k - k, k / 4 + 1024) << edge << " " << k;
        }
      }
    }
  }
}

TEST(TileFor, SmallerTilesPadLessAndKeepTheAlgorithm) {
  EXPECT_EQ(tile_for(4096, 4096, 4096, Precision::tf32, Backend::cuda),
            (Tile{1024, 4096, 4096, 1, 4096, 4096}));
  EXPECT_EQ(tile_for(12345, 6789, 23456, Precision::fp32, Backend::cuda),
            (Tile{1792, 2304, 7872, 1, 3328, 3584}));
  EXPECT_EQ(tile_for(65536, 1024, 65536, Precision::fp32, Backend::cuda), (Tile{4096, 1024, 7296}));
  EXPECT_EQ(tile_for(4096, 4096, 4096, Precision::tf32, Backend::cuda, true),
            (Tile{4096, 4096, 4096}))
      << "symmetric";
  for (const std::uint64_t m : {1025, 3000, 5000, 12345, 40000}) {
    for (const std::uint64_t n : {2049, 3000, 5000, 12345, 40000}) {
      const Tile plain = tile_for(m, n, 5000, Precision::bf16, Backend::cuda, true);
      const Tile tile = tile_for(m, n, 5000, Precision::bf16, Backend::cuda);
      EXPECT_LE(ceil_div(m, tile.m) * tile.m, ceil_div(m, plain.m) * plain.m * 33 / 32) << m;
      EXPECT_LE(ceil_div(n, tile.n) * tile.n, ceil_div(n, plain.n) * plain.n) << n;
      EXPECT_EQ(tile.m % 256 + tile.n % 256, 0U);
    }
  }
}

/// The bits of C depend on these: a change needs a new version of the results' schema.
TEST(TileFor, TilesThatDetermineBitsAreFixed) {
  struct Case {
    std::uint64_t m, n, k;
    Precision precision;
    bool symmetric;
    Tile tile;
  };
  using enum Precision;
  const Case cases[] = {
      {4096, 4096, 4096, fp32, false, {1024, 4096, 4096, 1, 4096, 4096}},
      {65536, 65536, 65536, tf32, false, {4096, 4096, 5056}},
      {3000, 3000, 3000, fp32, false, {1536, 3072, 3008, 1, 3072, 3072}},
      {20000, 20000, 20000, tf32, false, {2560, 4096, 5056, 1, 4096, 4096}},
      {2000, 2000, 500000, fp32, true, {2048, 2048, 8000}},
      {1024, 1024, 4194304, fp64, true, {1024, 1024, 8192, 2}},
      {129, 129, 1000000, fp32, true, {144, 144, 15488, 8}},
      {64, 64, 16777216, int8, true, {64, 64, 131072, 32}},
      {64, 64, 16777216, fp32x3, true, {64, 64, 1024}},
      {100, 100, 700, fp32, true, {112, 112, 704}},
      {4, 4, 268435456, fp32, false, {16, 16, 1030144, 128}},
      {7, 4000, 300, bf16, false, {16, 4096, 320}},
      {129, 500000, 300, fp32, false, {144, 4096, 320}},
      {100, 4096, 50, fp64, false, {112, 4096, 64}},
      {12345, 12345, 6000, fp16, true, {3328, 3328, 6016}},
      {300, 200, 100000, bf16, false, {512, 208, 7808, 8}},
      {4, 4, 134217728, fp32, true, {4, 4, 2097152, 64, 0, 0, 16}},
      {12, 12, 60000000, fp32, true, {12, 12, 942080, 64, 0, 0, 8}},
      {33, 33, 20000000, fp32, true, {36, 36, 315392, 64, 0, 0, 4}},
      {96, 96, 3000000, fp32, true, {96, 96, 47104, 64, 0, 0, 1}},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(tile_for(one.m, one.n, one.k, one.precision, Backend::cuda, one.symmetric), one.tile)
        << one.m << " x " << one.n << " x " << one.k;
  }
}

TEST(TileFor, FewRowsOrColumnsHaveLongTiles) {
  const auto strip = [](std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return tile_for(m, n, k, Precision::fp32, Backend::cuda);
  };
  EXPECT_EQ(strip(7, 500'000, 300), (Tile{16, 62720, 320}));
  EXPECT_EQ(strip(500'000, 7, 300), (Tile{62720, 16, 320}));
  EXPECT_EQ(strip(128, 500'000, 300), (Tile{128, 8192, 320}));
  EXPECT_EQ(strip(7, 4000, 300), (Tile{16, 4096, 320}));
  for (const std::uint64_t shorter : {1, 16, 17, 48, 100, 128}) {
    for (const std::uint64_t longer : {129, 4096, 5000, 65'537, 1'000'003}) {
      const Tile tile = strip(shorter, longer, 100);
      EXPECT_EQ(strip(longer, shorter, 100), (Tile{tile.n, tile.m, tile.k}));
      EXPECT_LE(tile.m * tile.n, std::uint64_t{1} << 20);
      EXPECT_LE(tile.n, 65'536U);
      const std::uint64_t tiles = ceil_div(longer, tile.n);
      EXPECT_LT(tiles * tile.n - longer, tiles * 256) << shorter << " x " << longer;
    }
  }
}

TEST(TileFor, NarrowProductsFoldTheirPanels) {
  for (const std::uint64_t n : {1, 2, 3, 4, 5, 12, 33, 36, 60, 64, 65, 96, 100, 128}) {
    for (const std::uint64_t k : {1024, 8000, 100'000, 3'000'000, 134'217'728}) {
      const Tile tile = tile_for(n, n, k, Precision::tf32, Backend::cuda, true);
      const std::string what = std::to_string(n) + " of " + std::to_string(k);
      ASSERT_TRUE(tile.is_narrow()) << what;
      EXPECT_EQ(tile.m, tile.n);
      EXPECT_EQ(tile.n, ceil_div(n, n <= 64 ? 4 : 16) * (n <= 64 ? 4 : 16)) << what;
      EXPECT_TRUE(std::has_single_bit(tile.fold) && std::has_single_bit(tile.lanes));
      EXPECT_EQ(tile.folded_n() % 16, 0U) << what;
      EXPECT_TRUE(tile.folded_n() >= 64 && tile.folded_n() <= 256) << what;
      EXPECT_EQ(tile.lane_elements(), tile.folded_n() * tile.folded_n());
      EXPECT_EQ(tile.k % tile.lanes, 0U);
      EXPECT_EQ(tile.lane_k() % (16 * tile.fold), 0U) << what;
      EXPECT_TRUE(tile.lanes == 1 || tile.lane_k() / tile.fold >= 200) << what;
      EXPECT_LE(tile.lanes, 64U);
      // All of a small product, or at least half of 2^22 elements: K is cut into equal parts.
      EXPECT_TRUE(tile.k >= k || tile.k * tile.n > (std::uint64_t{1} << 21)) << what;
      EXPECT_LE(tile.k * tile.n, (std::uint64_t{1} << 24) * 17 / 16) << what;
      EXPECT_LT(ceil_div(k, tile.k) * tile.k - k, k / 16 + 16 * tile.fold * tile.lanes) << what;
      EXPECT_FALSE(may_begin_shallow(tile, Precision::tf32));
    }
  }
}

TEST(TileFor, OtherProductsAreNotNarrow) {
  const auto is_folded = [](std::uint64_t n, std::uint64_t k, Precision precision,
                            Backend backend = Backend::cuda, bool symmetric = true) {
    return tile_for(n, n, k, precision, backend, symmetric).is_narrow();
  };
  for (const Precision precision : all_precisions) {
    const bool has_lanes = precision != Precision::fp32x3 && precision != Precision::int8 &&
                           !multiplies_residues(precision);
    EXPECT_EQ(is_folded(12, 100'000, precision), has_lanes) << word_of(precision);
  }
  EXPECT_FALSE(is_folded(12, 100'000, Precision::fp32, Backend::host));
  EXPECT_FALSE(is_folded(12, 100'000, Precision::fp32, Backend::cuda, false));
  EXPECT_TRUE(is_folded(128, 1024, Precision::fp32));
  EXPECT_FALSE(is_folded(129, 100'000, Precision::fp32)) << "too wide";
  EXPECT_FALSE(is_folded(128, 1023, Precision::fp32)) << "not tall";
  EXPECT_EQ(check_slices(narrow_tile(4, 100'000), 4), 256U);
  EXPECT_EQ(check_slices(Tile{16, 16, 100}, 4), 128U);
}

/// Only the blocks determine the bits.
TEST(TileFor, ResiduesHaveTheSameBlocksOnAllBackends) {
  for (const Precision precision : {Precision::fp64_int8, Precision::fp32_int8}) {
    for (const std::uint64_t k : {1U, 17U, 63U, 100U, 8192U, 8193U, 20'000U, 1'000'000U}) {
      for (const std::uint64_t edge : {5U, 300U, 5000U}) {
        const Tile here = tile_for(edge, edge, k, precision, Backend::host, true);
        const Tile there = tile_for(edge, edge, k, precision, Backend::cuda, true);
        EXPECT_EQ(here.k, there.k);
        EXPECT_LE(here.k, calls_of(precision, Backend::cuda).max_k);
        EXPECT_EQ(here.k % 16, 0U);
        EXPECT_EQ(here.moduli, traits_of(precision).moduli);
        EXPECT_EQ(there.moduli, here.moduli);
        EXPECT_FALSE(here.has_lanes() || there.has_lanes());
      }
    }
  }
  for (const Tile& tile : {Tile{.m = 4096, .n = 4096, .k = 8192, .moduli = 14},
                           Tile{.m = 3328, .n = 4096, .k = 8192, .moduli = 16},
                           Tile{.m = 65'536, .n = 16, .k = 8192, .moduli = 16}}) {
    EXPECT_EQ(tile.m % residue_rows(tile), 0U);
    EXPECT_EQ(residue_rows(tile) % 16, 0U);
    EXPECT_LE(plan_memory(tile), (std::uint64_t{1024} << 20) + max_workspace);
  }
}

TEST(TileFor, RowsOfFloatsHaveALargerPitch) {
  struct Rows {
    std::uint64_t k, on_gpu, backend;
  };
  for (const auto& [k, on_gpu, backend] : {Rows{1, 1, 1},
                                           {13, 13, 13},
                                           {14, 16, 14},
                                           {16, 16, 16},
                                           {32, 32, 48},
                                           {80, 80, 96},
                                           {96, 128, 112},
                                           {4032, 4096, 4048},
                                           {4096, 4096, 4112},
                                           {5456, 5456, 5472},
                                           {5504, 8192, 5520},
                                           {7296, 8192, 7312},
                                           {8064, 8192, 8080}}) {
    for (const Precision precision : all_precisions) {
      const bool floats = precision == Precision::fp32;
      EXPECT_EQ(a_ld(precision, k, Backend::cuda), floats ? on_gpu : k) << k << word_of(precision);
      EXPECT_EQ(a_ld(precision, k, Backend::host), floats ? backend : k) << k << word_of(precision);
    }
  }
}

TEST(Precisions, HaveNamesAndSizes) {
  for (const Precision precision : all_precisions) {
    EXPECT_EQ(precision_named(word_of(precision)), precision);
  }
  EXPECT_EQ(precision_named("fp8"), std::nullopt);
  EXPECT_EQ(panel_element_bytes(Precision::bf16, Backend::cuda), 2U);
  EXPECT_EQ(panel_element_bytes(Precision::bf16, Backend::host), 4U);
  EXPECT_EQ(panel_element_bytes(Precision::tf32, Backend::cuda), 4U);
  EXPECT_EQ(panel_element_bytes(Precision::fp64, Backend::host), 8U);
  EXPECT_EQ(panel_element_bytes(Precision::int8, Backend::cuda), 1U);
  EXPECT_EQ(panel_element_bytes(Precision::int8, Backend::host), 4U);
  EXPECT_EQ(panel_element_bytes(Precision::fp32x3, Backend::cuda), 4U);
  EXPECT_EQ(accumulator_type(Precision::int8), ElementType::i32);
  EXPECT_EQ(accumulator_type(Precision::fp32x3), ElementType::f32);
  for (const Precision precision : all_precisions) {
    EXPECT_EQ(accumulator_bytes(precision), size_of(accumulator_type(precision)));
  }
  EXPECT_EQ(accumulator_bytes(Precision::fp16), 4U);
  EXPECT_EQ(accumulator_bytes(Precision::fp64), 8U);
}

}  // namespace
}  // namespace shardstream::gemm
