// Freivalds' check of a product on the backend of the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm::fixtures {

using device::Buffer;
using device::Memory;
using Values = std::vector<double>;

inline constexpr std::uint64_t sign_seed = 77;

inline Values made(std::uint64_t count, const std::function<double()>& value) {
  Values values(count);
  for (double& x : values) x = value();
  return values;
}
/// Small integers, which are exact in every precision, as are their sums.
inline Values whole(std::uint64_t count, unsigned from) {
  std::mt19937 random(from);
  return made(count, [&] { return static_cast<double>(random() % 9) - 4; });
}

struct Shape {
  std::uint64_t m, n, k, tile_n, block;  ///< K blocks of `block`
  std::uint64_t tiles() const { return (n + tile_n - 1) / tile_n; }
};

struct Check : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  Backend backend_ = backend_named(device_->info().backend);

  /// A panel of columns [first, first + columns) of the values, padded with zeros up to `ld`.
  Buffer<std::byte> panel(const Values& values, std::uint64_t stride, std::uint64_t rows,
                          std::uint64_t first, std::uint64_t columns, std::uint64_t ld,
                          Precision precision) {
    Values padded(rows * ld);
    for (std::uint64_t i = 0; i < rows * columns; ++i) {
      padded[i / columns * ld + i % columns] = values[i / columns * stride + first + i % columns];
    }
    const ElementType from =
        takes(precision, ElementType::f64) ? ElementType::f64 : ElementType::i8;
    return with_element_type(from, [&](auto tag) {
      const std::vector<typename decltype(tag)::type> stored(padded.begin(), padded.end());
      const auto raw = test::on_device(*device_, *stream_, stored);
      Buffer<std::byte> made(*device_, Memory::device,
                             rows * ld * panel_element_bytes(precision, backend_));
      stream_->launch(canonicalize_kernel(),
                      {raw.data(), from, false, made.data(), precision, rows, ld, ld});
      stream_->synchronize();
      return made;
    });
  }

  struct Sides {
    Buffer<double> z, row_squares, column_squares;
  };
  /// Z and the sums of squares over all K blocks.
  Sides sides(const Shape& s, const Values& a, const Values& b, Precision precision) {
    Sides sides{{*device_, Memory::device, s.m * s.tiles()},
                {*device_, Memory::device, s.m},
                {*device_, Memory::device, s.tiles()}};
    const std::uint64_t width = s.tiles() * s.tile_n;
    for (std::uint64_t kk = 0; kk < s.k; kk += s.block) {
      const std::uint64_t depth = std::min(s.block, s.k - kk);
      const Values rows(b.begin() + static_cast<std::ptrdiff_t>(kk * s.n),
                        b.begin() + static_cast<std::ptrdiff_t>((kk + depth) * s.n));
      const auto b_panel = panel(rows, s.n, depth, 0, s.n, width, precision);
      const auto a_panel = panel(a, s.k, s.m, kk, depth, depth, precision);
      const Buffer<double> y(*device_, Memory::device, depth * 2 * s.tiles());
      stream_->launch(signed_sums_kernel(), {b_panel.data(), precision, depth, width, s.tile_n,
                                             s.tiles(), sign_seed, 0, y.data()});
      stream_->launch(
          add_products_kernel(),
          {a_panel.data(), precision, s.m, depth, depth, y.data(), s.tiles(), sides.z.data(),
           sides.row_squares.data(), sides.column_squares.data(), kk == 0});
      stream_->synchronize();
    }
    return sides;
  }

  /// The verdicts on all column tiles of C, m x n.
  template <class T>
  std::vector<TileVerdict> verdicts(const Shape& s, const std::vector<T>& c, const Sides& sides,
                                    Precision precision) {
    const auto there = test::on_device(*device_, *stream_, c);
    const Buffer<RowVerdict> rows(*device_, Memory::device, s.m);
    const Buffer<TileVerdict> found(*device_, Memory::device, s.tiles());
    for (std::uint64_t tile = 0; tile < s.tiles(); ++tile) {
      const std::uint64_t first = tile * s.tile_n;
      const CheckTileArgs args{there.data() + first,
                               precision,
                               s.m,
                               std::min(s.tile_n, s.n - first),
                               s.n,
                               sign_seed,
                               first,
                               s.k,
                               sides.z.data() + tile,
                               s.tiles(),
                               sides.row_squares.data(),
                               sides.column_squares.data() + tile,
                               rows.data(),
                               found.data() + tile};
      stream_->launch(check_rows_kernel(), args);
      stream_->launch(verdict_kernel(), args);
    }
    return test::from_device(*stream_, found);
  }
};

}  // namespace shardstream::gemm::fixtures
