// Scales, residues and reconstructed integers against exact integers of 128 bits, on every backend.
#include <algorithm>
#include <numeric>

#include "contract/residues_fixture.hpp"
#include "kernels/gemm/residues/scales.hpp"

namespace shardstream::gemm {
namespace {

using ResiduesOf = LinesOf;
INSTANTIATE_TEST_SUITE_P(Precisions, ResiduesOf,
                         ::testing::Values(Precision::fp64_int8, Precision::fp32_int8),
                         [](const auto& tested) {
                           return tested.param == Precision::fp64_int8 ? "fp64" : "fp32";
                         });

TEST(Basis, HasCoprimeModuliAndTheirConstants) {
  for (unsigned i = 0; i < max_moduli; ++i) {
    for (unsigned j = 0; j < i; ++j) {
      EXPECT_EQ(std::gcd(all_moduli[i], all_moduli[j]), 1) << all_moduli[i];
    }
  }
  for (unsigned count = min_moduli; count <= max_moduli; ++count) {
    const Basis& basis = basis_with(count);
    for (unsigned i = 0; i < count; ++i) {
      const Modulus& m = basis.moduli[i];
      for (unsigned j = 0; j < count; ++j) {
        EXPECT_EQ(static_cast<unsigned>(m.multiple % all_moduli[j]), i == j ? 1U : 0U);
      }
      EXPECT_LT(m.multiple, basis.product);
      std::int64_t power = 1;
      for (unsigned d = 0; d < 8; ++d, power = power * 256 % m.p) {
        const auto byte =
            static_cast<std::int8_t>((d < 4 ? m.low_digits : m.high_digits) >> 8 * (d % 4));
        EXPECT_EQ(modulo(byte, m.p), power);
      }
    }
    EXPECT_EQ(basis.is_narrow(), basis.product < UInt128{1} << 64) << count;
  }
}

/// The number of moduli keeps the promise, and one less would not.
TEST(Basis, TheUsualNumberOfModuliKeepsThePromise) {
  for (const Precision precision : {Precision::fp64_int8, Precision::fp32_int8}) {
    const PrecisionTraits& row = traits_of(precision);
    for (const std::uint64_t k : {16U, 1024U, 8192U}) {
      const double promise = std::sqrt(static_cast<double>(k)) * row.rounding.unit;
      EXPECT_LE(residue_error(row.moduli, k), promise);
      EXPECT_GT(residue_error(row.moduli - 1, k), promise);
    }
  }
}

/// The scale is the largest power of two with which no product reaches half of P, and each byte is
/// the residue of the rounded element.
TEST_P(ResiduesOf, EachByteIsTheResidueOfTheRoundedElement) {
  // A GPU converts residue_scratch_lines at a time, a host 16.
  const bool on_gpu = backend_named(device_->info().backend) == Backend::cuda;
  const std::uint64_t several = on_gpu ? residue_scratch_lines + 48 : 100;
  for (const unsigned moduli : {min_moduli, 7U, 8U, usual_, max_moduli}) {
    for (const std::uint64_t k : {16U, 48U, 1040U, 8192U}) {
      const Lines lines = varied(k == 8192 ? 16 : several, k, precision_, 5);
      const double most = max_scaled_norm(basis_with(moduli), k);
      for (const Side side : {Side::a, Side::b}) {
        const auto found = residues(panel(lines, side), lines, side, moduli);
        const auto planes = test::from_device(*stream_, found.planes);
        const auto exponents = test::from_device(*stream_, found.exponents);
        const double error = test::from_device(*stream_, found.error)[0];
        std::size_t wrong = 0, wrong_scales = 0, wrong_errors = 0;
        for (std::uint64_t i = 0; i < lines.count; ++i) {
          const long double norm = std::ldexp(lines.norm(i), exponents[i]);
          if (norm > most || (norm > 0 && 2 * norm * (1 + 0x1p-10L) < most)) ++wrong_scales;
          long double squares = 0;
          for (std::uint64_t j = 0; j < k; ++j) {
            const double scaled = std::ldexp(lines.line(i)[j], exponents[i]);
            const Int128 integer = integer_of(lines.line(i)[j], exponents[i]);
            const long double lost = scaled - static_cast<long double>(integer);
            squares += lost * lost;
            for (unsigned t = 0; t < moduli; ++t) {
              const std::int8_t byte = planes[t * found.pitch + i * k + j];
              if (modulo(byte, all_moduli[t]) != modulo(integer, all_moduli[t])) ++wrong;
            }
          }
          if (std::sqrt(squares) > error * norm) ++wrong_errors;
        }
        EXPECT_EQ(wrong, 0U) << moduli << " moduli, k = " << k;
        EXPECT_EQ(wrong_scales, 0U) << moduli << " moduli, k = " << k;
        EXPECT_EQ(wrong_errors, 0U) << moduli << " moduli, k = " << k;
        EXPECT_LE(2 * error + error * error, residue_error(moduli, k));
      }
    }
  }
}

TEST_P(ResiduesOf, LinesThatAreNotFiniteHaveMarks) {
  Lines lines = varied(8, 64, precision_, 6);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  lines.line(0)[3] = infinity;
  lines.line(1)[63] = -infinity;
  lines.line(2)[0] = NAN;
  lines.line(3)[1] = infinity;
  lines.line(3)[2] = NAN;
  std::fill_n(lines.line(4), lines.k, 0.0);
  for (const Side side : {Side::a, Side::b}) {
    const auto found = residues(panel(lines, side), lines, side, usual_);
    const auto exponents = test::from_device(*stream_, found.exponents);
    EXPECT_EQ(exponents[0], has_infinity);
    EXPECT_EQ(exponents[1], has_infinity);
    EXPECT_EQ(exponents[2], has_nan);
    EXPECT_EQ(exponents[3], has_nan);
    EXPECT_EQ(exponents[4], 0);
    EXPECT_LT(exponents[5], has_infinity);
  }
}

/// Integers at the ends of the range and beside ties, with results in the whole range of C's type.
TEST_P(ResiduesOf, IntegersAreRoundedOnce) {
  std::mt19937_64 random(7);
  for (const unsigned moduli : {min_moduli, 7U, 8U, 9U, usual_, max_moduli}) {
    const Basis& basis = basis_with(moduli);
    const auto limit = static_cast<Int128>(basis.product / 2 - (basis.product >> 11));
    std::vector<Int128> integers{0, 1, limit, limit - 1};
    for (int bit = 1; bit < 126 && Int128{1} << bit < limit; ++bit) {
      for (const Int128 beside : {-1, 0, 1}) integers.push_back((Int128{1} << bit) + beside);
      for (const int digits : {24, 53}) {  // ties, and integers beside them
        if (bit <= digits) continue;
        const Int128 tie = (Int128{1} << bit) + (Int128{1} << (bit - digits));
        for (const Int128 beside : {-1, 0, 1}) integers.push_back(tie + beside);
        const Int128 odd = tie + (Int128{1} << (bit - digits + 1));
        for (const Int128 beside : {-1, 0, 1}) integers.push_back(odd + beside);
      }
    }
    while (integers.size() % 4 != 0 || integers.size() < 2048) {
      const auto wide = static_cast<Int128>((UInt128{random()} << 64) | random());
      integers.push_back(wide % limit >> random() % 120);
    }
    std::erase_if(integers, [&](Int128 x) { return x > limit || x < -limit; });
    while (integers.size() % 4 != 0) integers.push_back(0);
    // One row for each exponent.
    const std::vector<int> exponents =
        is_double() ? std::vector{0, -1070, -1100, -1130, -1190, 900, 1000, 1100, -300, 300}
                    : std::vector{0, -120, -149, -170, -200, 60, 100, 128, -30, 30};
    const std::uint64_t rows = 2 * exponents.size(), columns = integers.size();
    std::vector<std::int32_t> products(moduli * rows * columns);
    std::vector<std::int32_t> of_a(rows), of_b(columns, 17);
    for (std::uint64_t row = 0; row < rows; ++row) {
      of_a[row] = -exponents[row / 2] - 17;
      for (std::uint64_t j = 0; j < columns; ++j) {
        const Int128 x = row % 2 == 0 ? integers[j] : -integers[j];
        for (unsigned t = 0; t < moduli; ++t) {
          const std::int64_t p = all_moduli[t];
          const std::int64_t some = static_cast<std::int64_t>(random() % (1 << 19)) - (1 << 18);
          products[(t * rows + row) * columns + j] =
              static_cast<std::int32_t>(modulo(x, p) + some * p);
        }
      }
    }
    const auto there = test::on_device(*device_, *stream_, products);
    const auto a = test::on_device(*device_, *stream_, of_a);
    const auto b = test::on_device(*device_, *stream_, of_b);
    device::Buffer<std::byte> c(*device_, device::Memory::device, rows * columns * element_bytes());
    stream_->launch(reconstruct_kernel(), {.products = there.data(),
                                           .precision = precision_,
                                           .rows = rows,
                                           .columns = columns,
                                           .k = 0,
                                           .moduli = moduli,
                                           .a_exponents = a.data(),
                                           .b_exponents = b.data(),
                                           .a = nullptr,
                                           .b = nullptr,
                                           .lda = 0,
                                           .ldb = 0,
                                           .c = c.data(),
                                           .first = true});
    const std::vector<double> got = numbers(test::from_device(*stream_, c));
    std::size_t wrong = 0;
    for (std::uint64_t row = 0; row < rows; ++row) {
      for (std::uint64_t j = 0; j < columns; ++j) {
        const Int128 x = row % 2 == 0 ? integers[j] : -integers[j];
        const double wanted = is_double() ? reference_rounding<double>(x, exponents[row / 2])
                                          : reference_rounding<float>(x, exponents[row / 2]);
        if (got[row * columns + j] != wanted) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0U) << moduli << " moduli";
  }
}

}  // namespace
}  // namespace shardstream::gemm
