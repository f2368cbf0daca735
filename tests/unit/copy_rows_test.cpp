// The division of the rows of a matrix into pieces for readers.
#include "workloads/product/engine/copy_rows.hpp"

#include <gtest/gtest.h>

namespace shardstream::workloads::product {
namespace {

TEST(Pieces, AreWholeWords) {
  for (const std::size_t row : {1, 2, 4, 8, 12, 16, 20, 4096, 4098}) {
    EXPECT_EQ(whole_word_rows(row) * row % 8, 0U) << row;
  }
  EXPECT_EQ(whole_word_rows(262'144), 1U);
  EXPECT_EQ(whole_word_rows(262'148), 8U);
}

/// A row of 256 KiB fills a slot of this size, although only 128 KiB of it may be uploaded.
TEST(Pieces, FillTheirSlots) {
  constexpr std::size_t KiB = 1024;
  EXPECT_EQ(rows_per_piece(1024 * KiB, 256 * KiB, 128 * KiB), 4U);
  EXPECT_EQ(rows_per_piece(1023 * KiB, 256 * KiB, 128 * KiB), 3U);
  EXPECT_EQ(rows_per_piece(64 * KiB, 256 * KiB, 128 * KiB), 1U);
  EXPECT_EQ(rows_per_piece(1000, 12, 12), 80U);  // eight at a time
  EXPECT_EQ(rows_per_piece(10, 12, 12), 8U);
  EXPECT_EQ(rows_per_piece(1000, 0, 0), 1000U);  // empty rows
}

}  // namespace
}  // namespace shardstream::workloads::product
