// Kernels that move, clear and sum bytes whatever they mean, on every backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using device::Buffer;
using device::Memory;
using Bytes = std::vector<std::byte>;

struct PanelCopies : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
};

TEST_F(PanelCopies, TransposesHandleElementsOfAnySize) {
  constexpr std::uint64_t shapes[][4] = {
      {1, 1, 1, 1},         {1, 263, 264, 1},     {13, 67, 67, 13},   {64, 128, 128, 64},
      {132, 260, 264, 140}, {262, 130, 132, 264}, {4, 3000, 3000, 4}, {3000, 4, 4, 3000},
      {33, 700, 704, 36},   {70, 12, 16, 80}};
  for (const unsigned bytes : {1U, 2U, 4U, 8U}) {
    for (const auto& [rows, columns, ld, ld_to] : shapes) {
      std::mt19937_64 random(7);
      Bytes from(rows * ld * bytes);
      for (auto& byte : from) byte = static_cast<std::byte>(random());
      Bytes wanted(columns * ld_to * bytes, std::byte{0x33});
      for (std::uint64_t r = 0; r < rows; ++r) {
        for (std::uint64_t c = 0; c < columns; ++c) {
          std::memcpy(&wanted[(c * ld_to + r) * bytes], &from[(r * ld + c) * bytes], bytes);
        }
      }
      const auto there = test::on_device(*device_, *stream_, from);
      const auto to = test::on_device(*device_, *stream_, Bytes(wanted.size(), std::byte{0x33}));
      stream_->launch(transpose_kernel(),
                      {there.data(), rows, columns, ld, to.data(), ld_to, bytes});
      EXPECT_EQ(test::from_device(*stream_, to), wanted)
          << rows << " x " << columns << ", " << bytes << " bytes";
    }
  }
}

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// Rows of few elements, whole blocks of threads, and packs that are partly valid.
TEST_F(PanelCopies, PaddingBecomesZeros) {
  struct Case {
    std::uint64_t rows, columns, to_rows, to_columns, ld;
  };
  constexpr Case cases[] = {{1, 1, 1, 1, 1},          {5, 3, 8, 4, 4},
                            {1000, 33, 1024, 36, 36}, {700, 4, 700, 4, 4},
                            {300, 60, 301, 64, 70},   {7, 5000, 16, 5120, 5120},
                            {0, 12, 3, 12, 12},       {13, 0, 16, 16, 16},
                            {3000, 1, 3000, 4, 8},    {3, 1030, 4, 1031, 1033}};
  for (const unsigned bytes : {1U, 2U, 4U, 8U}) {
    for (const auto& [rows, columns, to_rows, to_columns, ld] : cases) {
      const Bytes from = random_bytes(rows * columns * bytes, 5);
      Bytes padded(to_rows * ld * bytes, std::byte{0x33}), turned = padded;
      for (std::uint64_t i = 0; i < to_rows * to_columns; ++i) {
        const std::uint64_t r = i / to_columns, c = i % to_columns;
        const bool valid = r < rows && c < columns;
        std::byte* const to = &padded[(r * ld + c) * bytes];
        std::byte* const other = &turned[(r * ld + c) * bytes];
        std::memset(to, 0, bytes);
        std::memset(other, 0, bytes);
        if (valid) std::memcpy(to, &from[(r * columns + c) * bytes], bytes);
        if (valid) std::memcpy(other, &from[(c * rows + r) * bytes], bytes);
      }
      const auto there = test::on_device(*device_, *stream_, from);
      const auto to = test::on_device(*device_, *stream_, Bytes(padded.size(), std::byte{0x33}));
      const auto other = test::on_device(*device_, *stream_, Bytes(padded.size(), std::byte{0x33}));
      stream_->launch(pad_kernel(),
                      {there.data(), rows, columns, to.data(), to_rows, to_columns, ld, bytes});
      stream_->launch(transpose_kernel(), {there.data(), columns, rows, rows, other.data(), ld,
                                           bytes, to_rows, to_columns});
      EXPECT_EQ(test::from_device(*stream_, to), padded)
          << rows << " x " << columns << ", " << bytes << " bytes";
      EXPECT_EQ(test::from_device(*stream_, other), turned)
          << rows << " x " << columns << ", " << bytes << " bytes, transposed";
    }
  }
}

template <class T>
void expect_mirrored(device::Device& device, device::Stream& stream, std::uint64_t edge,
                     std::uint64_t ld) {
  std::vector<T> tile(edge * ld);
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<T>(i);
  const auto there = test::on_device(device, stream, tile);
  stream.launch(mirror_kernel(), {there.data(), edge, ld, sizeof(T)});
  for (std::uint64_t r = 0; r < edge; ++r) {
    for (std::uint64_t c = 0; c < r; ++c) tile[r * ld + c] = tile[c * ld + r];
  }
  EXPECT_EQ(test::from_device(stream, there), tile) << edge << " of " << sizeof(T) << " bytes";
}

TEST_F(PanelCopies, AMirroredTileIsSymmetric) {
  for (const std::uint64_t edge : {1, 2, 31, 33, 96, 263}) {
    expect_mirrored<float>(*device_, *stream_, edge, edge);
    expect_mirrored<double>(*device_, *stream_, edge, edge + 3);
  }
}

TEST_F(PanelCopies, WordChecksumsCoverEveryByte) {
  const Bytes bytes = random_bytes(700'000, 3);
  const auto data = test::on_device(*device_, *stream_, bytes);
  const Buffer<std::uint64_t> sum(*device_, Memory::device, 1);
  for (const std::uint64_t count : {0, 1, 7, 8, 9, 15, 16, 17, 63, 128, 1000, 65'541, 699'991}) {
    for (const std::uint64_t offset : {0, 1, 3, 8}) {
      std::uint64_t wanted = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        wanted += std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * (i % 8));
      }
      EXPECT_EQ(word_checksum(bytes.data() + offset, count), wanted) << count << " from " << offset;
      Bytes copy(count + 2, std::byte{0x5a});
      EXPECT_EQ(copy_with_checksum(bytes.data() + offset, count, copy.data() + 1), wanted) << count;
      EXPECT_TRUE(std::equal(copy.begin() + 1, copy.end() - 1, bytes.begin() + offset)) << count;
      EXPECT_TRUE(copy.front() == std::byte{0x5a} && copy.back() == std::byte{0x5a}) << count;
      stream_->launch(zero_kernel(), {sum.data(), sum.bytes()});
      for (int times = 0; times < 2; ++times) {
        stream_->launch(word_checksum_kernel(), {data.data() + offset, count, sum.data()});
      }
      EXPECT_EQ(test::from_device(*stream_, sum)[0], 2 * wanted) << count << " from " << offset;
    }
  }
}

TEST_F(PanelCopies, ChecksumsOfRowsIgnoreTheGaps) {
  const Bytes bytes = random_bytes(6'000'000, 4);
  const auto data = test::on_device(*device_, *stream_, bytes);
  const Buffer<std::uint64_t> sum(*device_, Memory::device, 1);
  struct Rows {
    std::uint64_t rows, bytes, pitch;
  };
  for (const Rows& of : {Rows{0, 16, 16},
                         {1, 48, 0},
                         {3, 48, 64},
                         {7, 1000, 1024},
                         {5, 24, 40},
                         {2, 300'000, 400'000},
                         {9'001, 528, 640}}) {
    for (const std::uint64_t offset : {0, 8, 16}) {
      std::uint64_t wanted = 0;
      for (std::uint64_t row = 0; row < of.rows; ++row) {
        wanted += word_checksum(bytes.data() + offset + row * of.pitch, of.bytes);
      }
      stream_->launch(zero_kernel(), {sum.data(), sum.bytes()});
      stream_->launch(word_checksum_kernel(),
                      {data.data() + offset, of.bytes, sum.data(), of.rows, of.pitch});
      EXPECT_EQ(test::from_device(*stream_, sum)[0], wanted) << of.rows << " from " << offset;
    }
  }
}

TEST_F(PanelCopies, ZeroSetsOnlyItsBytes) {
  const auto data = test::on_device(*device_, *stream_, Bytes(1000, std::byte{7}));
  stream_->launch(zero_kernel(), {data.data() + 13, 263});
  const Bytes got = test::from_device(*stream_, data);
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], i >= 13 && i < 13 + 263 ? std::byte{0} : std::byte{7}) << i;
  }
}

}  // namespace
}  // namespace shardstream::gemm
