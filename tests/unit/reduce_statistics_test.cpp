// The rows of the statistics of `reduce`: what follows from a name, and moments of any type.
#include "workloads/reduce/reduce_statistics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace shardstream::workloads {
namespace {

constexpr ElementType types[] = {ElementType::f32, ElementType::f64, ElementType::i32,
                                 ElementType::i64, ElementType::i8,  ElementType::u8,
                                 ElementType::u64};

TEST(Statistics, HaveNamesOfTheirOwn) {
  std::set<std::string> names, keys;
  for (const Statistic& each : all_statistics()) {
    EXPECT_TRUE(names.emplace(each.name).second) << each.name;
    EXPECT_TRUE(keys.insert(each.key()).second) << each.name;
    EXPECT_EQ(&statistic(each.name), &each);
  }
}

TEST(Statistics, HaveTypesOfElementsSumsCountsAndReals) {
  for (const ElementType type : types) {
    const bool is_float = type == ElementType::f32 || type == ElementType::f64;
    const ElementType wide = is_float                   ? ElementType::f64
                             : type == ElementType::u64 ? ElementType::u64
                                                        : ElementType::i64;
    EXPECT_EQ(statistic("max").type_for(type, true), wide);
    EXPECT_EQ(statistic("sum").type_for(type, false), wide);
    EXPECT_EQ(statistic("sum").type_for(type, true), ElementType::f64);
    EXPECT_EQ(statistic("argmax").type_for(type, false), ElementType::i64);
    EXPECT_EQ(statistic("mean").type_for(type, false), ElementType::f64);
  }
}

TEST(Statistics, HaveUnits) {
  const auto units = [](std::string_view name, const char* of_data, const char* of_weights) {
    return statistic(name).units_for(
        of_data, of_weights != nullptr ? std::optional<std::string>(of_weights) : std::nullopt);
  };
  EXPECT_EQ(units("count", "K", nullptr), "1");
  EXPECT_EQ(units("rms", "K", "m2"), "K");
  EXPECT_EQ(units("variance", "K", nullptr), "(K)^2");
  EXPECT_EQ(units("variance", "", nullptr), "");
  EXPECT_EQ(units("sum", "K", nullptr), "K");
  EXPECT_EQ(units("sum", "K", "m2"), "");
  EXPECT_EQ(units("sum-of-weights", "K", nullptr), "1");
  EXPECT_EQ(units("sum-of-weights", "K", "m2"), "m2");
}

using cells::Quantities, cells::Quantity;

/// Kernels must compute what each value is made of.
TEST(Statistics, AreMadeOfTheirQuantities) {
  for (const Statistic& each : all_statistics()) {
    for (const ElementType type : types) {
      for (const bool is_weighted : {false, true}) {
        const std::vector<std::string> name{std::string(each.name)};
        const Quantities all = quantities_of(name, type, is_weighted);
        EXPECT_EQ(all | each.needs, all) << each.name;
        EXPECT_EQ(all.has(Quantity::weights), is_weighted) << each.name;
        const bool wants_extremes =
            is_weighted || type == ElementType::f64 || all.has(Quantity::squares);
        EXPECT_TRUE(all.has(Quantity::extremes) || !wants_extremes) << each.name;
        EXPECT_TRUE(all.has(Quantity::extremes) || !all.has(Quantity::positions)) << each.name;
        EXPECT_TRUE(all.has(Quantity::squares) || !all.has(Quantity::powers)) << each.name;
      }
    }
  }
}

TEST(Statistics, AnUnknownOneIsAnError) {
  EXPECT_THROW((void)statistic("no such statistic"), ContractError);
}

/// Moments of 2, 5, and 11 with the weights 1, 2, and 3, if they have weights.
template <class T>
void expect_loaded(ElementType type, Quantities quantities) {
  struct At {
    std::int64_t index;
    std::int64_t number() const { return index; }
    double weight() const { return static_cast<double>(index); }
  };
  cells::Accumulator<T> accumulator;
  std::int64_t index = 0;
  for (const T x : {T{2}, T{5}, T{11}}) {
    ++index;
    accumulator.begin(quantities, x, 1);
    accumulator.add_each(quantities, [&](const auto& add) { add(x, At{index}); });
  }
  std::uint64_t words[2 * cells::max_words<T, Quantities>] = {};
  accumulator.moments(quantities).store(quantities, words, 2);
  const CellMoments m = moments_loader(type)(quantities, words, 2);
  const bool weighted = quantities.has(Quantity::weights);
  EXPECT_EQ(m.count, 3);
  EXPECT_EQ(m.sum, weighted ? 45 : 18);
  EXPECT_EQ(m.weight, weighted ? 6 : 3);
  EXPECT_EQ(m.weight2, weighted ? 14 : 0);
  EXPECT_EQ(static_cast<std::int64_t>(m.exact_sum), std::integral<T> && !weighted ? 18 : 0);
  if (quantities.has(Quantity::extremes)) {
    EXPECT_EQ(m.min.real, 2);
    EXPECT_EQ(m.max.real, 11);
    EXPECT_EQ(m.range, 9);
    EXPECT_EQ(m.max.bits, std::integral<T> ? 11 : std::bit_cast<std::uint64_t>(11.0));
  }
  EXPECT_EQ(m.min_index, quantities.has(Quantity::positions) ? 1 : -1);
  EXPECT_EQ(m.max_index, quantities.has(Quantity::positions) ? 3 : -1);
  EXPECT_DOUBLE_EQ(m.m2, !quantities.has(Quantity::squares) ? 0 : weighted ? 79.5 : 42);
  EXPECT_DOUBLE_EQ(m.m3, quantities.has(Quantity::powers) ? 60 : 0);
  EXPECT_DOUBLE_EQ(m.magnitude, quantities.has(Quantity::magnitudes) ? 18 : 0);
  EXPECT_EQ(m.nonzeros, quantities.has(Quantity::nonzeros) ? 3 : 0);
  EXPECT_EQ(std::ldexp(m.product.mantissa, static_cast<int>(m.product.exponent)),
            quantities.has(Quantity::product) ? 110 : 1);
}

TEST(Moments, OfEveryTypeAndQuantityAreLoaded) {
  constexpr Quantities extremes = Quantity::extremes, squares = extremes | Quantity::squares;
  for (const ElementType type : types) {
    with_element_type(type, [=](auto tag) {
      using T = typename decltype(tag)::type;
      for (const Quantities quantities :
           {Quantities(), extremes, squares, extremes | Quantity::positions,
            squares | Quantity::powers, Quantities(Quantity::magnitudes),
            Quantities(Quantity::nonzeros), Quantities(Quantity::product),
            squares | Quantity::weights, Quantity::product | squares | Quantity::nonzeros}) {
        expect_loaded<T>(type, quantities);
      }
    });
  }
}

double value_of(const cells::ScaledProduct& product) {
  return std::ldexp(product.mantissa, static_cast<int>(product.exponent));
}

TEST(ScaledProduct, NeitherOverflowsNorUnderflowsOnTheWay) {
  cells::ScaledProduct product;
  for (int i = 0; i < 100; ++i) product.multiply(1e300);
  for (int i = 0; i < 100; ++i) product.multiply(-5e-324);  // the smallest number
  for (int i = 0; i < 100; ++i) product.multiply(0x1p1000);
  for (int i = 0; i < 100; ++i) product.multiply(1e-300);
  product.exponent -= 100 * (1000 - 1074);
  EXPECT_NEAR(value_of(product), 1, 1e-13);
}

TEST(ScaledProduct, OfSmallIntegersIsExact) {
  cells::ScaledProduct product;
  for (const double x : {3.0, -7.0, 1.0, 0.5, 1024.0, 0.0078125}) product.multiply(x);
  EXPECT_EQ(value_of(product), -84);
  product.multiply(0.0);
  product.multiply(5.0);
  EXPECT_EQ(value_of(product), 0);
  product.multiply(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(product.mantissa));
}

}  // namespace
}  // namespace shardstream::workloads
