// The rate at which readers fill panels is measured with both operands.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <memory>

#include "mpi/host_options.hpp"
#include "support/matrices.hpp"
#include "support/session.hpp"
#include "support/uniform_source.hpp"
#include "workloads/product/engine/panel_rates.hpp"

namespace shardstream::workloads::product {
namespace {

using test::session;

/// Counts the bytes that are read of it.
class CountedSource final : public test::UniformSource {
 public:
  CountedSource(std::uint64_t rows, std::uint64_t columns, std::atomic<std::uint64_t>& bytes)
      : test::UniformSource(rows, columns), bytes_(bytes) {}

  void read(std::uint64_t first, std::uint64_t count, std::byte* out) const override {
    test::UniformSource::read(first, count, out);
    bytes_ += count * sizeof(float);
  }

 private:
  std::atomic<std::uint64_t>& bytes_;
};

struct Counted {
  std::uint64_t a, b;
};
/// The bytes of A and of B that PanelReaders::read() reads in `seconds`.
Counted counted(std::uint64_t m, std::uint64_t n, std::uint64_t k, double seconds) {
  const Options options = test::host_options(2);
  Log log;
  runtime::Runtime runtime(session(), options, log);
  std::atomic<std::uint64_t> a = 0, b = 0;
  Operands operands;
  operands.a = test::matrix_of(std::make_unique<CountedSource>(m, k, a));
  operands.b = test::matrix_of(std::make_unique<CountedSource>(k, n, b));
  operands.precision = gemm::Precision::fp32;
  operands.m = m;
  operands.n = n;
  operands.k = k;
  const PanelReaders readers(runtime, operands, pipeline::staging_sizes(options, runtime.resources),
                             0);
  const measure::Ceiling ceiling = readers.read(seconds);
  EXPECT_GT(ceiling.min, 0);
  // Readers end with the pieces that they have begun.
  EXPECT_LE(ceiling.min * seconds * 1e9, 1.001 * static_cast<double>(a + b));
  const Counted counted{a, b};
  const measure::Ceiling feed = readers.feed(seconds / 10, ceiling.min, 1 << 20);
  EXPECT_EQ(feed.by_rank.size(), static_cast<std::size_t>(session().size()));
  EXPECT_GT(feed.min, 0);
  EXPECT_GT(a + b, counted.a + counted.b);
  return counted;
}

TEST(PanelRead, ReadsBothOperandsInProportion) {
  constexpr std::uint64_t piece = 1 << 20;
  const Counted wide = counted(1024, 8192, 512, 0.3);  // B has eight times as much as A
  EXPECT_GE(wide.a, piece);
  EXPECT_LE(std::abs(static_cast<double>(wide.b) - 8 * static_cast<double>(wide.a)), 9.0 * piece);
  const Counted tall = counted(8192, 1024, 512, 0.3);
  EXPECT_GE(tall.b, piece);
  EXPECT_LE(std::abs(static_cast<double>(tall.a) - 8 * static_cast<double>(tall.b)), 9.0 * piece);
}

TEST(PanelRead, OfSmallMatricesGoesOnUntilItsTimeIsOver) {
  const Counted small = counted(16, 16, 16, 0.01);
  EXPECT_GT(small.a, 16 * 16 * sizeof(float));
  EXPECT_GT(small.b, 16 * 16 * sizeof(float));
}

}  // namespace
}  // namespace shardstream::workloads::product
