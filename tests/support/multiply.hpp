// Products of panels on the backend of the test, and matrices of values that a precision can
// represent.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/forked_streams.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "support/backend.hpp"
#include "support/residues.hpp"

namespace shardstream::gemm::fixtures {

using device::Buffer;
using device::Memory;
using Bytes = std::vector<std::byte>;

/// The bits of a significand, including the leading one.
inline int significant_bits(Precision precision) {
  switch (traits_of(precision).panel) {
    case Format::f64:
      return 53;
    case Format::f32:
      return 24;
    case Format::tf32:
    case Format::fp16:
      return 11;
    case Format::bf16:
    case Format::i8:
      return 8;
  }
  return 0;
}

inline double cut_to(Precision precision, double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  const int bits = significant_bits(precision);
  return std::ldexp(std::trunc(std::ldexp(fraction, bits)), exponent - bits);
}

/// The IEEE half of a value that it can represent as a normal number.
inline std::uint16_t half_bits(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // from 0.5 to 1
  const auto rest = static_cast<unsigned>(std::ldexp(fraction, 11)) - 1024;
  const auto biased = static_cast<unsigned>(exponent + 14);
  return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) | biased << 10 | rest);
}

template <class T>
void put(Bytes& bytes, std::size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

/// A panel with values that the precision can represent.
inline Bytes encode(const std::vector<double>& values, Precision precision, Backend backend) {
  const std::size_t each = panel_element_bytes(precision, backend);
  const Format format = traits_of(precision).panel;
  Bytes bytes(values.size() * each);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto narrow = static_cast<float>(values[i]);
    if (each == sizeof(double)) {
      put(bytes, i, values[i]);
    } else if (each == sizeof(float)) {
      put(bytes, i, narrow);
    } else if (format == Format::i8) {
      put(bytes, i, static_cast<std::int8_t>(values[i]));
    } else if (format == Format::bf16) {
      put(bytes, i, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(narrow) >> 16));
    } else {
      put(bytes, i, half_bits(values[i]));
    }
  }
  return bytes;
}

/// A row-major matrix.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> values = std::vector<double>(rows * columns);

  double& operator()(std::size_t i, std::size_t j) { return values[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * columns + j]; }

  Matrix part(std::size_t row, std::size_t column, std::size_t count, std::size_t width) const {
    Matrix cut{count, width};
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = 0; j < width; ++j) cut(i, j) = (*this)(row + i, column + j);
    }
    return cut;
  }
};

inline Matrix small_integers(std::size_t rows, std::size_t columns, unsigned seed) {
  std::mt19937 random(seed);
  Matrix made{rows, columns};
  for (double& value : made.values) value = static_cast<double>(random() % 9) - 4;
  return made;
}

/// With NaNs after the elements of each row.
inline Matrix widened(const Matrix& of, std::size_t columns) {
  Matrix made{of.rows, columns};
  for (std::size_t i = 0; i < of.rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) made(i, j) = j < of.columns ? of(i, j) : NAN;
  }
  return made;
}

inline Matrix transposed(const Matrix& of) {
  Matrix made{of.columns, of.rows};
  for (std::size_t i = 0; i < made.rows; ++i) {
    for (std::size_t j = 0; j < made.columns; ++j) made(i, j) = of(j, i);
  }
  return made;
}

/// Values of many magnitudes, so that sums of their products are rounded; for int8, all values.
inline Matrix uneven(std::size_t rows, std::size_t columns, Precision precision, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> size(0.5, 1);
  Matrix made{rows, columns};
  for (double& value : made.values) {
    const int exponent = static_cast<int>(random() % 13) - 6;
    if (sums_integers(precision)) {
      value = static_cast<double>(random() % 256) - 128;
      continue;
    }
    value = cut_to(precision, std::ldexp(size(random), exponent)) * (random() % 2 == 0 ? 1 : -1);
  }
  return made;
}

inline Matrix plain_product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t l = 0; l < a.columns; ++l) {
      for (std::size_t j = 0; j < b.columns; ++j) c(i, j) += a(i, l) * b(l, j);
    }
  }
  return c;
}

class Multiply : public ::testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (backend_ == Backend::host && !host_multiply_exists())
      GTEST_SKIP() << "this build has no CBLAS";
  }

  bool has_residues() const { return multiplies_residues(precision_); }

  std::unique_ptr<MultiplyPlan> plan_for(Tile tile) const {
    tile.moduli = traits_of(precision_).moduli;
    return make_multiply_plan(precision_, tile, backend_);
  }

  /// The shapes to multiply. A GPU's library needs edges that are multiples of 16, and residues
  /// such depths.
  std::vector<Tile> shapes() const {
    std::vector<Tile> all = {{16, 16, 16}, {48, 32, 64}, {128, 64, 96}};
    if (backend_ == Backend::host && !has_residues())
      all.insert(all.end(), {{1, 1, 1}, {7, 5, 3}, {40, 104, 24}});
    return all;
  }

  Bytes panel(const Matrix& values) const { return encode(values.values, precision_, backend_); }

  Buffer<std::byte> factor(const Matrix& values, Side side) {
    const bool turned = side == Side::b && multiplies_transposed_b(precision_, backend_);
    const std::uint64_t depth = side == Side::b ? values.rows : values.columns;
    const std::uint64_t ld = side == Side::b ? values.columns : a_ld(precision_, depth, backend_);
    auto there = test::on_device(*device_, *stream_,
                                 panel(turned ? transposed(values) : widened(values, ld)));
    if (!splits(precision_)) return there;
    Buffer<std::byte> made(*device_, Memory::device,
                           there.size() / depth * factor_depth(precision_, depth));
    stream_->launch(split_kernel(),
                    {there.data(), side, values.rows, values.columns, values.columns, made.data()});
    stream_->synchronize();
    return made;
  }

  /// The dense tiles of a b, as bytes, with one launch per block of K. If `shallow`, the first
  /// block is computed as a quarter, a quarter and a half.
  Bytes tiles(const MultiplyPlan& plan, const Tile& tile, const Matrix& a, const Matrix& b,
              bool shallow = false) {
    const std::vector<TileAt> all = all_tiles(a.rows / tile.m, b.columns / tile.n);
    Bytes garbage(a.rows * b.columns * tile.lanes * accumulator_bytes(precision_),
                  std::byte{0xff});  // NaNs
    const auto sums = test::on_device(*device_, *stream_, garbage);
    std::size_t depth = 0;
    for (std::size_t k = 0; k < a.columns; k += depth) {
      depth = !shallow || k >= tile.k ? tile.k : k >= tile.k / 2 ? tile.k / 2 : tile.k / 4;
      const auto left = factor(a.part(0, k, a.rows, depth), Side::a);
      const auto right = factor(b.part(k, 0, depth, b.columns), Side::b);
      const std::uint64_t ldb = multiplies_transposed_b(precision_, backend_) ? depth : b.columns;
      std::vector<test::DeviceResidues> residues;
      if (has_residues()) {
        const auto add = [&](const auto& panel, Side side, std::uint64_t lines, std::uint64_t ld) {
          residues.push_back(test::residues_of(*device_, *stream_, panel.data(), precision_, side,
                                               lines, depth, ld, traits_of(precision_).moduli));
        };
        add(left, Side::a, a.rows, depth);
        add(right, Side::b, b.columns, b.columns);
      }
      streams_.fork(*stream_);
      for (unsigned i = 0; i < streams_.count(); ++i) {
        const std::size_t first = all.size() * i / streams_.count();
        streams_[i].launch(multiply_kernel(),
                           {.plan = &plan,
                            .k = depth,
                            .a = left.data(),
                            .b = right.data(),
                            .ldb = ldb,
                            .tiles = sums.data() + sums.size() / all.size() * first,
                            .at = all.data() + first,
                            .count = all.size() * (i + 1) / streams_.count() - first,
                            .first = k == 0,
                            .workspace = i,
                            .residues = {has_residues() ? residues[0].view() : Residues{},
                                         has_residues() ? residues[1].view() : Residues{}}});
      }
      streams_.join();
      stream_->synchronize();
    }
    return test::from_device(*stream_, sums);
  }

  double sum_at(const Bytes& sums, std::size_t index) const {
    return with_accumulator_type(precision_, [&](auto of) {
      typename decltype(of)::type value{};
      std::memcpy(&value, sums.data() + index * sizeof(value), sizeof(value));
      return static_cast<double>(value);
    });
  }

  void expect_product(const Tile& tile, std::size_t across, std::size_t along) {
    constexpr std::size_t blocks = 3;
    const Matrix a = small_integers(across * tile.m, blocks * tile.k, 1);
    const Matrix b = small_integers(blocks * tile.k, along * tile.n, 2);
    const Matrix wanted = plain_product(a, b);
    const auto plan = plan_for(tile);
    const auto count_wrong = [&](const Bytes& got) {
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < wanted.rows; ++i) {
        for (std::size_t j = 0; j < wanted.columns; ++j) {
          const std::size_t place = (i / tile.m * along + j / tile.n) * tile.m * tile.n +
                                    i % tile.m * tile.n + j % tile.n;
          if (sum_at(got, place) != wanted(i, j)) ++wrong;
        }
      }
      return wrong;
    };
    const std::string what =
        std::to_string(across) + " x " + std::to_string(along) + " tiles, " + plan->algorithm();
    EXPECT_EQ(count_wrong(tiles(*plan, tile, a, b)), 0U) << what;
    if (has_residues() || !may_begin_shallow(tile, precision_)) return;
    EXPECT_EQ(count_wrong(tiles(*plan, tile, a, b, true)), 0U) << "shallow, " << what;
  }

  Precision precision_ = GetParam();
  std::unique_ptr<device::Device> device_ = test::make_backend();
  Backend backend_ = backend_named(device_->info().backend);
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  device::ForkedStreams streams_{*device_, multiply_streams(backend_)};
};

/// The name of a precision; names of tests have no hyphens.
inline std::string test_name(const ::testing::TestParamInfo<Precision>& tested) {
  std::string name(word_of(tested.param));
  std::ranges::replace(name, '-', '_');
  return name;
}

}  // namespace shardstream::gemm::fixtures
