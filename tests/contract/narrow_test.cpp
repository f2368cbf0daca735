// Kernels for narrow products X^T X against plain sums, and the check of long tiles, on every
// backend. Small integers are exact in every precision, as are their sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/gemm/check.hpp"
#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/narrow.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "support/backend.hpp"

namespace shardstream::gemm {
namespace {

using device::Buffer;
using device::Memory;
using Values = std::vector<double>;

constexpr std::uint64_t seed = 77;
constexpr std::uint64_t variables[] = {1, 3, 4, 5, 12, 33, 60, 64, 65, 96, 128};

Values small_integers(std::uint64_t count, unsigned from) {
  std::mt19937 random(from);
  Values values(count);
  for (double& x : values) x = static_cast<double>(random() % 9) - 4;
  return values;
}

bool allows_narrow(Precision precision) {
  return is_narrow(4, 1000, precision);
}

/// X^T X of a panel with rows of n elements.
Values square(const Values& x, std::uint64_t n) {
  Values c(n * n);
  for (std::uint64_t first = 0; first < x.size(); first += n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      for (std::uint64_t j = 0; j < n; ++j) c[i * n + j] += x[first + i] * x[first + j];
    }
  }
  return c;
}

/// The sums of Freivalds' check of X^T X.
struct CheckSums {
  Values z, row_squares, column_squares;
};
CheckSums plain_sums(const Values& x, std::uint64_t n) {
  CheckSums sums{Values(n), Values(n), Values(1)};
  for (std::uint64_t first = 0; first < x.size(); first += n) {
    double y = 0;
    for (std::uint64_t c = 0; c < n; ++c) y += sign_of(seed, c) * x[first + c];
    for (std::uint64_t c = 0; c < n; ++c) {
      sums.z[c] += x[first + c] * y;
      sums.row_squares[c] += x[first + c] * x[first + c];
      sums.column_squares[0] += x[first + c] * x[first + c];
    }
  }
  return sums;
}

/// The same sums on a device, in slices with a gap between them.
struct SlicedSums {
  std::uint64_t slices, columns, pitch = 2 * columns + 1 + 3;
  Buffer<double> all;

  SlicedSums(device::Device& device, std::uint64_t count, std::uint64_t n)
      : slices(count), columns(n), all(device, Memory::device, count * pitch) {}

  NarrowSumsArgs args(const void* panel, Precision precision, std::uint64_t depth,
                      bool first) const {
    double* const z = all.data();
    return {panel,       precision,       columns, depth,  seed, z,
            z + columns, z + 2 * columns, first,   slices, pitch};
  }
  /// The sums of the slices.
  CheckSums joined(device::Stream& stream) const {
    const auto values = test::from_device(stream, all);
    CheckSums sums{Values(columns), Values(columns), Values(1)};
    for (std::uint64_t s = 0; s < slices; ++s) {
      for (std::uint64_t c = 0; c < columns; ++c) {
        sums.z[c] += values[s * pitch + c];
        sums.row_squares[c] += values[s * pitch + columns + c];
      }
      sums.column_squares[0] += values[s * pitch + 2 * columns];
    }
    return sums;
  }
};

struct Narrow : ::testing::Test {
  std::unique_ptr<device::Device> device_ = test::make_backend();
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
  Backend backend_ = backend_named(device_->info().backend);

  /// A panel of these values, after `offset` elements.
  Buffer<std::byte> panel(const Values& values, Precision precision, std::uint64_t offset = 0) {
    const ElementType from =
        takes(precision, ElementType::f64) ? ElementType::f64 : ElementType::i8;
    return with_element_type(from, [&](auto tag) {
      std::vector<typename decltype(tag)::type> stored(offset);
      stored.insert(stored.end(), values.begin(), values.end());
      const auto raw = test::on_device(*device_, *stream_, stored);
      Buffer<std::byte> made(*device_, Memory::device,
                             stored.size() * panel_element_bytes(precision, backend_));
      stream_->launch(canonicalize_kernel(), {raw.data(), from, false, made.data(), precision, 1,
                                              stored.size(), stored.size()});
      stream_->synchronize();
      return made;
    });
  }

  Values numbers(const Buffer<std::byte>& there, Precision precision) {
    const auto bytes = test::from_device(*stream_, there);
    return with_accumulator_type(precision, [&](auto of) {
      std::vector<typename decltype(of)::type> values(bytes.size() / sizeof(values[0]));
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return Values(values.begin(), values.end());
    });
  }

  void expect_sums(const CheckSums& got, const CheckSums& wanted, const std::string& what) {
    EXPECT_EQ(got.z, wanted.z) << what;
    EXPECT_EQ(got.row_squares, wanted.row_squares) << what;
    EXPECT_EQ(got.column_squares, wanted.column_squares) << what;
  }
};

TEST_F(Narrow, SumsOfIntegersAreExact) {
  for (const std::uint64_t given : variables) {
    const std::uint64_t n = (given + 3) / 4 * 4;
    for (const std::uint64_t depth : {1, 37, 1000, 9001}) {
      const Values x = small_integers(n * depth, static_cast<unsigned>(n));
      const CheckSums wanted = plain_sums(x, n);
      for (const Precision precision : all_precisions) {
        const std::string what = std::string(word_of(precision)) + " n " + std::to_string(n) +
                                 " depth " + std::to_string(depth);
        // A multiple of 16 bytes, but not of 32.
        const std::uint64_t offset = 16 / panel_element_bytes(precision, backend_);
        const auto there = panel(x, precision, offset);
        const SlicedSums sums(*device_, depth == 1000 ? 1 : 8, n);
        const auto* const first = there.data() + 16;
        stream_->launch(narrow_sums_kernel(), sums.args(first, precision, depth, true));
        expect_sums(sums.joined(*stream_), wanted, what);
      }
    }
  }
}

TEST_F(Narrow, LaterBlocksAreAddedToTheSumsOfTheFirst) {
  constexpr std::uint64_t n = 36, depth = 5000;
  const Values x = small_integers(n * depth, 1), more = small_integers(n * depth, 2);
  Values all = x;
  all.insert(all.end(), more.begin(), more.end());
  const auto first = panel(x, Precision::tf32), second = panel(more, Precision::tf32);
  const SlicedSums sums(*device_, 256, n);
  stream_->launch(narrow_sums_kernel(), sums.args(first.data(), Precision::tf32, depth, true));
  stream_->launch(narrow_sums_kernel(), sums.args(second.data(), Precision::tf32, depth, false));
  expect_sums(sums.joined(*stream_), plain_sums(all, n), "two blocks");
}

/// Slices and their sums are those of signed_sums and add_products.
TEST_F(Narrow, SlicesAreThoseOfTheUsualKernels) {
  constexpr std::uint64_t n = 16, depth = 3000, slices = 16;
  const Values x = small_integers(n * depth, 3);
  Values turned(x.size());
  for (std::uint64_t i = 0; i < x.size(); ++i) turned[i % n * depth + i / n] = x[i];
  const auto b = panel(x, Precision::fp64), a = panel(turned, Precision::fp64);
  const SlicedSums sums(*device_, slices, n), usual(*device_, slices, n);
  for (const SlicedSums* each : {&sums, &usual}) {
    stream_->launch(zero_kernel(), {each->all.data(), each->all.bytes()});
  }
  const NarrowSumsArgs args = sums.args(b.data(), Precision::fp64, depth, true);
  stream_->launch(narrow_sums_kernel(), args);
  const Buffer<double> y(*device_, Memory::device, depth * 2);
  stream_->launch(signed_sums_kernel(),
                  {b.data(), Precision::fp64, depth, n, n, 1, seed, 0, y.data()});
  double* const z = usual.all.data();
  stream_->launch(add_products_kernel(), {a.data(), Precision::fp64, n, depth, depth, y.data(), 1,
                                          z, z + n, z + 2 * n, true, slices, usual.pitch});
  EXPECT_EQ(test::from_device(*stream_, sums.all), test::from_device(*stream_, usual.all));
}

/// Random signs do not hide a value that is not finite: every z depends on it.
TEST_F(Narrow, AValueThatIsNotFiniteReachesAllSumsOfProductsAndItsOwnSquares) {
  constexpr std::uint64_t n = 12, depth = 700, wrong = 5;
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL}) {
    Values x = small_integers(n * depth, 4);
    for (std::uint64_t c = 0; c < n; ++c) x[600 * n + c] = 1;
    x[600 * n + wrong] = bad;
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
      const auto there = panel(x, precision);
      const SlicedSums sums(*device_, 4, n);
      stream_->launch(narrow_sums_kernel(), sums.args(there.data(), precision, depth, true));
      const CheckSums got = sums.joined(*stream_);
      for (std::uint64_t c = 0; c < n; ++c) {
        EXPECT_FALSE(std::isfinite(got.z[c])) << c;
        EXPECT_EQ(std::isfinite(got.row_squares[c]), c != wrong) << c;
      }
      EXPECT_FALSE(std::isfinite(got.column_squares[0]));
    }
  }
}

TEST_F(Narrow, PanelsOfOtherWidthsAreRejected) {
  const auto there = panel(Values(132), Precision::fp32);
  for (const std::uint64_t n : {0, 3, 6, 132}) {
    const SlicedSums sums(*device_, 1, n);
    EXPECT_THROW(
        {
          stream_->launch(narrow_sums_kernel(), sums.args(there.data(), Precision::fp32, 1, true));
          stream_->synchronize();
        },
        std::logic_error)
        << n;
  }
}

TEST_F(Narrow, UnfoldAddsTheDiagonalBlocksInOrder) {
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::int8}) {
    for (const auto& [n, fold] : {std::pair<std::uint64_t, std::uint64_t>{4, 16},
                                  {60, 4},
                                  {5, 8},
                                  {33, 1},
                                  {128, 1},
                                  {1, 2}}) {
      const std::uint64_t edge = n * fold;
      with_accumulator_type(precision, [&, n = n, fold = fold](auto of) {
        using T = typename decltype(of)::type;
        std::mt19937_64 random(n);
        std::vector<T> folded(edge * edge), wanted(n * n);
        constexpr bool integers = std::is_integral_v<T>;
        for (T& x : folded) {  // sums of floating-point numbers of these depend on the order
          const auto exponent = random() % (integers ? 16 : sizeof(T) == 8 ? 60 : 20);
          x = static_cast<T>(std::ldexp(random() % 1000, static_cast<int>(exponent)));
        }
        for (std::uint64_t i = 0; i < n; ++i) {
          for (std::uint64_t j = 0; j < n; ++j) {
            T sum = folded[i * edge + j];
            for (std::uint64_t s = 1; s < fold; ++s) sum += folded[(s * n + i) * edge + s * n + j];
            wanted[i * n + j] = sum;
          }
        }
        const auto there = test::on_device(*device_, *stream_, folded);
        const auto out = test::on_device(*device_, *stream_, std::vector<T>(n * n, T{7}));
        stream_->launch(unfold_kernel(), {there.data(), out.data(), precision, n, fold});
        EXPECT_EQ(test::from_device(*stream_, out), wanted) << n << " x " << fold;
      });
    }
  }
}

/// Whole thread blocks sum long rows, and many rows have one verdict. Only the check's sums exist.
TEST_F(Narrow, TheCheckNamesTheWrongRowOfALongTile) {
  for (const auto& [rows, columns] :
       {std::pair<std::uint64_t, std::uint64_t>{7, 5001}, {3, 62720}, {30'000, 4}}) {
    const Values whole = small_integers(rows * columns, 8);
    std::vector<float> c(whole.begin(), whole.end());
    Values z(rows);
    for (std::uint64_t i = 0; i < c.size(); ++i) {
      z[i / columns] += sign_of(seed, i % columns) * whole[i];
    }
    const auto device_z = test::on_device(*device_, *stream_, z);
    const auto row_squares = test::on_device(*device_, *stream_, Values(rows, 1000));
    const auto column_squares = test::on_device(*device_, *stream_, Values(1, 1000));
    const Buffer<RowVerdict> verdicts(*device_, Memory::device, rows);
    const Buffer<TileVerdict> found(*device_, Memory::device, 1);
    const auto verdict = [&, rows = rows, columns = columns] {
      const auto there = test::on_device(*device_, *stream_, c);
      const CheckTileArgs args{there.data(),
                               Precision::fp32,
                               rows,
                               columns,
                               columns,
                               seed,
                               0,
                               100,
                               device_z.data(),
                               1,
                               row_squares.data(),
                               column_squares.data(),
                               verdicts.data(),
                               found.data()};
      stream_->launch(check_rows_kernel(), args);
      stream_->launch(verdict_kernel(), args);
      return test::from_device(*stream_, found)[0];
    };
    const TileVerdict right = verdict();
    EXPECT_EQ(right.worst, 0);
    EXPECT_EQ(right.failures + right.unchecked, 0U);
    c[(rows - 2) * columns + columns - 1] += 100;
    c[(rows - 1) * columns] += 1;
    const TileVerdict wrong = verdict();
    EXPECT_EQ(wrong.failures, 2U) << rows << " x " << columns;
    EXPECT_EQ(wrong.worst_row, rows - 2);
  }
}

struct NarrowMultiply : Narrow {
  void SetUp() override {
    if (backend_ == Backend::host && !host_multiply_exists())
      GTEST_SKIP() << "this build has no CBLAS";
  }

  /// The accumulators of all lanes after these panels, block by block.
  Buffer<std::byte> multiplied(const MultiplyPlan& plan, const Tile& tile, Precision precision,
                               const std::vector<Values>& blocks) {
    const std::size_t bytes = tile.lanes * tile.lane_elements() * accumulator_bytes(precision);
    auto sums = test::on_device(*device_, *stream_, std::vector<std::byte>(bytes, std::byte{0xff}));
    const TileAt at{0, 0};
    for (const Values& block : blocks) {
      const auto x = panel(block, precision);
      stream_->launch(multiply_kernel(), {.plan = &plan,
                                          .k = tile.k,
                                          .a = nullptr,
                                          .b = x.data(),
                                          .ldb = tile.n,
                                          .tiles = sums.data(),
                                          .at = &at,
                                          .count = 1,
                                          .first = &block == blocks.data()});
      stream_->synchronize();
    }
    return sums;
  }

  /// The unfolded sum of one lane.
  Values unfolded(const Buffer<std::byte>& sums, const Tile& tile, Precision precision,
                  std::uint64_t lane) {
    const std::size_t element = accumulator_bytes(precision);
    const Buffer<std::byte> out(*device_, Memory::device, tile.n * tile.n * element);
    stream_->launch(unfold_kernel(), {sums.data() + lane * tile.lane_elements() * element,
                                      out.data(), precision, tile.n, tile.fold});
    return numbers(out, precision);
  }

  void expect_squares(const Tile& tile, Precision precision) {
    const auto plan = make_multiply_plan(precision, tile, backend_);
    const std::vector<Values> blocks{small_integers(tile.k * tile.n, 5),
                                     small_integers(tile.k * tile.n, 6)};
    const auto sums = multiplied(*plan, tile, precision, blocks);
    for (std::uint64_t lane = 0; lane < tile.lanes; ++lane) {
      Values wanted(tile.n * tile.n);
      for (const Values& block : blocks) {
        const auto first =
            block.begin() + static_cast<std::ptrdiff_t>(lane * tile.lane_k() * tile.n);
        const Values part =
            square({first, first + static_cast<std::ptrdiff_t>(tile.lane_k() * tile.n)}, tile.n);
        for (std::size_t i = 0; i < part.size(); ++i) wanted[i] += part[i];
      }
      EXPECT_EQ(unfolded(sums, tile, precision, lane), wanted)
          << word_of(precision) << " " << tile.n << " x " << tile.fold << ", lane " << lane << ", "
          << plan->algorithm();
    }
  }
};

TEST_F(NarrowMultiply, EachLaneIsTheSquareOfItsSamples) {
  for (const Precision precision : all_precisions) {
    if (!allows_narrow(precision)) continue;
    for (const std::uint64_t n : variables) {
      Tile tile = narrow_tile(n, 100'000'000);
      tile.lanes = 4;  // fewer, so that the reference is fast
      tile.k = tile.lanes * tile.fold * 32;
      expect_squares(tile, precision);
      expect_squares(narrow_tile(n, 8 * n), precision);
    }
  }
}

TEST_F(NarrowMultiply, TheSameProductHasTheSameBits) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
    Tile tile = narrow_tile(12, 100'000'000);
    tile.lanes = 8;
    tile.k = tile.lanes * tile.fold * 64;
    Values x(tile.k * tile.n);
    for (double& value : x) value = normal(random);
    const auto plan = make_multiply_plan(precision, tile, backend_);
    const auto another = make_multiply_plan(precision, tile, backend_);
    EXPECT_EQ(plan->algorithm(), another->algorithm());
    const auto one = multiplied(*plan, tile, precision, {x, x});
    const auto two = multiplied(*another, tile, precision, {x, x});
    EXPECT_EQ(test::from_device(*stream_, one), test::from_device(*stream_, two));
  }
}

/// The whole path of a narrow product: its check passes, and finds a wrong element.
TEST_F(NarrowMultiply, TheCheckPassesTheProductAndFindsAWrongElement) {
  constexpr Precision precision = Precision::fp32;
  const Tile tile = narrow_tile(33, 2000);
  std::mt19937_64 random(10);
  std::normal_distribution<double> normal;
  Values x(tile.k * tile.n);
  for (std::uint64_t i = 0; i < x.size(); ++i) x[i] = i % tile.n < 33 ? normal(random) : 0;
  const auto plan = make_multiply_plan(precision, tile, backend_);
  const auto sums = multiplied(*plan, tile, precision, {x});
  Values c(tile.n * tile.n);
  for (std::uint64_t lane = 0; lane < tile.lanes; ++lane) {
    const Values part = unfolded(sums, tile, precision, lane);
    for (std::size_t i = 0; i < c.size(); ++i) c[i] += part[i];
  }
  const auto there = panel(x, precision);
  const SlicedSums check(*device_, 1, tile.n);
  stream_->launch(narrow_sums_kernel(), check.args(there.data(), precision, tile.k, true));
  const double* const z = check.all.data();
  const auto failures = [&](const std::vector<float>& of) {
    const auto on_device = test::on_device(*device_, *stream_, of);
    const Buffer<RowVerdict> rows(*device_, Memory::device, tile.n);
    const Buffer<TileVerdict> found(*device_, Memory::device, 1);
    const CheckTileArgs args{
        on_device.data(), precision, 33, 33,         tile.n,         seed,        0,
        tile.k,           z,         1,  z + tile.n, z + 2 * tile.n, rows.data(), found.data()};
    stream_->launch(check_rows_kernel(), args);
    stream_->launch(verdict_kernel(), args);
    return test::from_device(*stream_, found)[0];
  };
  std::vector<float> product(c.begin(), c.end());
  const TileVerdict right = failures(product);
  EXPECT_EQ(right.failures + right.unchecked, 0U);
  EXPECT_LT(right.worst, 0.6);
  product[7 * tile.n + 32] += static_cast<float>(1.01 * right.detection_threshold);
  const TileVerdict wrong = failures(product);
  EXPECT_EQ(wrong.failures, 1U);
  EXPECT_EQ(wrong.worst_row, 7U);
}

}  // namespace
}  // namespace shardstream::gemm
