// Means and squares of variables: right, and the same bits on any number of ranks.
#include "workloads/product/engine/moments.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/source/generator_source.hpp"
#include "mpi/faulty_backend.hpp"
#include "mpi/host_options.hpp"
#include "support/errors.hpp"
#include "support/session.hpp"

namespace shardstream::workloads {
namespace {

using test::session;

constexpr std::uint64_t enough = std::uint64_t{256} << 20;

struct MomentsOverRanks : testing::Test {
  const Options options_ = test::host_options(2);
  Log log_;
  runtime::Runtime runtime_{session(), options_, log_};
  const pipeline::Ring staging_ = pipeline::staging_ring(runtime_.options, runtime_.resources);

  static io::Matrix matrix(Generator generator, ElementType type, std::uint64_t rows,
                           std::uint64_t columns) {
    return io::Matrix(
        std::make_unique<io::GeneratorSource>(generator, type, std::vector{rows, columns}, 3));
  }

  /// A sum of all bits of all results.
  static std::uint64_t fingerprint(const Moments& moments) {
    std::uint64_t sum = 0, weight = 1;
    for (const auto* const values :
         {&moments.means(), &moments.squares(), &moments.raw_squares()}) {
      for (const double x : *values) sum += std::bit_cast<std::uint64_t>(x) * (weight += 2);
    }
    return sum;
  }

  /// Against a plain loop in long double; returns the fingerprint.
  std::uint64_t expect_right(Generator generator, ElementType type, std::uint64_t rows,
                             std::uint64_t columns, bool variables_are_rows,
                             std::uint64_t device_bytes = enough) {
    const io::Matrix it = matrix(generator, type, rows, columns);
    Moments moments(runtime_, it, variables_are_rows, device_bytes, staging_);
    moments.run();
    const std::uint64_t first = fingerprint(moments);
    moments.run();
    EXPECT_EQ(fingerprint(moments), first) << "another run";
    const std::uint64_t variables = variables_are_rows ? rows : columns;
    const std::uint64_t samples = variables_are_rows ? columns : rows;
    EXPECT_EQ(session().sum(moments.uploaded()), rows * columns * size_of(type));
    EXPECT_EQ(moments.means().size(), variables);
    std::vector<std::byte> stored(rows * columns * size_of(type));
    it.read({0, rows}, {0, columns}, stored.data(), columns * size_of(type));
    with_element_type(type, [&](auto tag) {
      const auto* const x = reinterpret_cast<const typename decltype(tag)::type*>(stored.data());
      const auto at = [&](std::uint64_t v, std::uint64_t s) {
        return static_cast<long double>(x[variables_are_rows ? v * columns + s : s * columns + v]);
      };
      // Sums of n terms, some of them in one lane: far less than n roundings of the largest sum.
      const double error = 1e-13;
      for (std::uint64_t v = 0; v < variables; ++v) {
        long double sum = 0, raw = 0, squares = 0;
        for (std::uint64_t s = 0; s < samples; ++s) {
          sum += at(v, s);
          raw += at(v, s) * at(v, s);
        }
        const long double mean = sum / static_cast<long double>(samples);
        for (std::uint64_t s = 0; s < samples; ++s) {
          squares += (at(v, s) - mean) * (at(v, s) - mean);
        }
        const auto near = [&](double got, long double wanted, long double size, const char* what) {
          ASSERT_LE(std::abs(got - wanted), error * size)
              << what << " of variable " << v << ", " << rows << " x " << columns;
        };
        near(moments.means()[v], mean, std::sqrt(raw / static_cast<long double>(samples)), "mean");
        // The first sample is at most some deviations away from the mean.
        near(moments.squares()[v], squares, 10 * squares, "squares");
        near(moments.raw_squares()[v], raw, 10 * raw, "raw squares");
      }
    });
    return first;
  }
};

/// Shapes of one unit and of many; in each layout few variables and many.
TEST_F(MomentsOverRanks, AreThoseOfAPlainLoop) {
  constexpr std::uint64_t shapes[][2] = {{1, 1},       {1, 1'200'000}, {1'200'000, 1},
                                         {3, 400'001}, {400'001, 3},   {13, 263},
                                         {1031, 2053}, {40, 40'000}};
  for (const auto& [rows, columns] : shapes) {
    for (const bool variables_are_rows : {false, true}) {
      for (const auto type : {ElementType::f32, ElementType::f64}) {
        expect_right(Generator::uniform, type, rows, columns, variables_are_rows);
      }
    }
  }
  expect_right(Generator::uniform, ElementType::u8, 999, 5003, false);
  expect_right(Generator::ramp, ElementType::i32, 999, 1003, true);
}

/// The bits that one rank made, written down: any number of ranks and any memory must make them.
TEST_F(MomentsOverRanks, AreTheSameBitsForAnyRanksAndMemory) {
  const std::uint64_t by_column =
      expect_right(Generator::uniform, ElementType::f32, 9001, 517, false);
  const std::uint64_t by_row = expect_right(Generator::uniform, ElementType::f32, 5, 999'983, true);
  constexpr std::uint64_t little = std::uint64_t{9} << 19;  // two batches and their sums
  EXPECT_EQ(expect_right(Generator::uniform, ElementType::f32, 9001, 517, false, little),
            by_column);
  EXPECT_EQ(expect_right(Generator::uniform, ElementType::f32, 5, 999'983, true, little), by_row);
  EXPECT_EQ(by_column, 12'207'392'615'824'137'116U);
  EXPECT_EQ(by_row, 11'420'967'984'272'125'303U);
}

TEST_F(MomentsOverRanks, AConstantVariableHasNoSpread) {
  const io::Matrix it = matrix(Generator::ramp, ElementType::f64, 1, 1000);  // one sample
  Moments moments(runtime_, it, false, enough, staging_);
  moments.run();
  for (std::uint64_t v = 0; v < 1000; ++v) {
    EXPECT_EQ(moments.squares()[v], 0);
    EXPECT_EQ(moments.raw_squares()[v], moments.means()[v] * moments.means()[v]);
  }
}

TEST_F(MomentsOverRanks, TheMemoryThatItAsksForSuffices) {
  for (const auto& [rows, columns] : {std::pair(1, 1), std::pair(9001, 517), std::pair(5, 999'983),
                                      std::pair(2, 70'000), std::pair(999'983, 3)}) {
    for (const bool by_row : {false, true}) {
      const io::Matrix it = matrix(Generator::uniform, ElementType::f32, rows, columns);
      const std::uint64_t bytes = Moments::device_bytes(it, by_row);
      EXPECT_LE(bytes, std::uint64_t{96} << 20);
      EXPECT_NO_THROW(Moments(runtime_, it, by_row, bytes, staging_)) << rows << " x " << columns;
    }
  }
}

TEST_F(MomentsOverRanks, TooLittleMemoryIsAnErrorThatNamesTheOption) {
  const io::Matrix it = matrix(Generator::uniform, ElementType::f64, 5000, 1000);
  const std::string message =
      test::error_of([&] { Moments(runtime_, it, false, 1 << 20, staging_); });
  EXPECT_TRUE(test::names(message, "pipeline.gpu-memory"));
}

TEST_F(MomentsOverRanks, ACorruptedUploadIsReported) {
  test::Faults faults;
  runtime_.device = std::make_unique<test::SpoilingDevice>(std::move(runtime_.device), faults,
                                                           test::upload_stream);
  const io::Matrix it = matrix(Generator::uniform, ElementType::f64, 2000, 999);
  Moments moments(runtime_, it, false, enough, staging_);
  // Behind the first sample, on every rank, so that none waits for another.
  if (moments.uploaded() > 0) faults.upload = test::Flip{999 * sizeof(double) + 12'345, 3};
  std::string failure;
  try {
    moments.run();
  } catch (const Error& error) {
    failure = error.what();
  }
  EXPECT_TRUE(test::names(failure, "uniform", "device", fmt::format("rank {}", session().rank())));
}

}  // namespace
}  // namespace shardstream::workloads
