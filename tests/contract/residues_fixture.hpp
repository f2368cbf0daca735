// Lines of many kinds, their residues on the backend of the test, and exact references.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/gemm/multiply/multiply.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "support/backend.hpp"
#include "support/residues.hpp"

namespace shardstream::gemm {

__extension__ using Int128 = __int128;

/// The residue of x modulo p, from 0 to p - 1.
inline std::int64_t modulo(Int128 x, std::int64_t p) {
  return static_cast<std::int64_t>((x % p + p) % p);
}

/// x 2^exponent, rounded once to a multiple of the precision's last bit, ties to even. Computes
/// with one bit of the integer at a time.
template <class T>
T reference_rounding(Int128 x, int exponent) {
  if (x == 0) return 0;
  const bool negative = x < 0;
  UInt128 magnitude = negative ? -static_cast<UInt128>(x) : static_cast<UInt128>(x);
  const int digits = std::numeric_limits<T>::digits;
  const int smallest = std::numeric_limits<T>::min_exponent - digits;  // of the last bit
  bool half = false, sticky = false;
  while ((magnitude >> digits) != 0 || (exponent < smallest && (magnitude != 0 || half))) {
    sticky = sticky || half;
    half = (magnitude & 1) != 0;
    magnitude >>= 1;
    ++exponent;
  }
  if (half && (sticky || (magnitude & 1) != 0)) ++magnitude;
  const T value = std::ldexp(static_cast<T>(static_cast<std::uint64_t>(magnitude)), exponent);
  return negative ? -value : value;
}

/// The integer to which an element is rounded.
inline Int128 integer_of(double x, int exponent) {
  return static_cast<Int128>(std::nearbyint(std::ldexp(x, exponent)));
}

/// Lines of k elements, one after another.
struct Lines {
  std::uint64_t count, k;
  std::vector<double> values = std::vector<double>(count * k);
  double* line(std::uint64_t i) { return values.data() + i * k; }
  const double* line(std::uint64_t i) const { return values.data() + i * k; }
  long double norm(std::uint64_t i) const {
    long double squares = 0;
    for (std::uint64_t j = 0; j < k; ++j) {
      squares += static_cast<long double>(line(i)[j]) * line(i)[j];
    }
    return std::sqrt(squares);
  }
};

/// Lines of many kinds: uniform, spread over many exponents, near the ends of the range, sparse,
/// with a single element, and graded: with exponents that rise or fall along the line, so that all
/// products of elements of a rising and a falling line have the same size.
inline Lines varied(std::uint64_t count, std::uint64_t k, Precision precision, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const bool wide = precision == Precision::fp64_int8;
  const int huge = wide ? 1000 : 120, tiny = wide ? -1060 : -140;
  Lines made{count, k};
  for (std::uint64_t i = 0; i < count; ++i) {
    for (std::uint64_t j = 0; j < k; ++j) {
      double value = uniform(random);
      const int grade = static_cast<int>(40 * j / k) - 20;
      if (i % 10 == 1) value = std::ldexp(value, static_cast<int>(random() % 60) - 30);
      if (i % 10 == 2) value = std::ldexp(value, huge);
      if (i % 10 == 3) value = std::ldexp(value, tiny);
      if (i % 10 == 4 && random() % 16 != 0) value = 0;
      if (i % 10 == 5) value = j == k / 2 ? value : 0;
      if (i % 10 == 6) value = std::ldexp(value, wide ? 300 : 30);
      if (i % 10 == 7) value = 1;
      if (i % 10 >= 8) value = std::ldexp(value, i % 10 == 8 ? grade : -grade);
      made.line(i)[j] = wide ? value : static_cast<double>(static_cast<float>(value));
    }
  }
  return made;
}

class LinesOf : public ::testing::TestWithParam<Precision> {
 protected:
  /// The panel that has these lines as its rows (A) or columns (B).
  device::Buffer<std::byte> panel(const Lines& lines, Side side) {
    std::vector<double> values = lines.values;
    if (side == Side::b) {
      for (std::uint64_t i = 0; i < lines.count; ++i) {
        for (std::uint64_t j = 0; j < lines.k; ++j) {
          values[j * lines.count + i] = lines.line(i)[j];
        }
      }
    }
    std::vector<std::byte> bytes(values.size() * element_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto narrow = static_cast<float>(values[i]);
      std::memcpy(bytes.data() + i * element_bytes(),
                  is_double() ? static_cast<const void*>(&values[i]) : &narrow, element_bytes());
    }
    return test::on_device(*device_, *stream_, bytes);
  }

  test::DeviceResidues residues(const device::Buffer<std::byte>& of, const Lines& lines, Side side,
                                unsigned moduli) {
    const std::uint64_t ld = side == Side::a ? lines.k : lines.count;
    return test::residues_of(*device_, *stream_, of.data(), precision_, side, lines.count, lines.k,
                             ld, moduli);
  }

  /// C = A B^T for the lines of A and of B. `spoil` may change the residues of A.
  template <class Spoil>
  std::vector<double> product(const Lines& a, const Lines& b, unsigned moduli, Spoil spoil) {
    const Tile tile{.m = a.count, .n = b.count, .k = a.k, .moduli = moduli};
    const auto plan = make_multiply_plan(precision_, tile, backend_);
    const auto left = panel(a, Side::a), right = panel(b, Side::b);
    test::DeviceResidues of_a = residues(left, a, Side::a, moduli);
    const test::DeviceResidues of_b = residues(right, b, Side::b, moduli);
    spoil(of_a);
    device::Buffer<std::byte> c(*device_, device::Memory::device,
                                a.count * b.count * element_bytes());
    const TileAt origin{0, 0};
    stream_->launch(multiply_kernel(), {.plan = plan.get(),
                                        .k = a.k,
                                        .a = left.data(),
                                        .b = right.data(),
                                        .ldb = b.count,
                                        .tiles = c.data(),
                                        .at = &origin,
                                        .count = 1,
                                        .first = true,
                                        .residues = {of_a.view(), of_b.view()}});
    return numbers(test::from_device(*stream_, c));
  }
  std::vector<double> product(const Lines& a, const Lines& b, unsigned moduli) {
    return product(a, b, moduli, [](const test::DeviceResidues&) {});
  }

  std::vector<double> numbers(const std::vector<std::byte>& bytes) const {
    std::vector<double> values(bytes.size() / element_bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float narrow = 0;
      std::memcpy(is_double() ? static_cast<void*>(&values[i]) : &narrow,
                  bytes.data() + i * element_bytes(), element_bytes());
      if (!is_double()) values[i] = static_cast<double>(narrow);
    }
    return values;
  }

  bool is_double() const { return precision_ == Precision::fp64_int8; }
  std::size_t element_bytes() const { return is_double() ? sizeof(double) : sizeof(float); }
  double unit() const { return traits_of(precision_).rounding.unit; }
  bool can_multiply() const { return backend_ != Backend::host || host_multiply_exists(); }

  Precision precision_ = GetParam();
  unsigned usual_ = traits_of(precision_).moduli;
  std::unique_ptr<device::Device> device_ = test::make_backend();
  Backend backend_ = backend_named(device_->info().backend);
  std::unique_ptr<device::Stream> stream_ = device_->make_stream();
};

}  // namespace shardstream::gemm
