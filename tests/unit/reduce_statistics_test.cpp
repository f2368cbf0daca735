// The rows of the statistics of `reduce`: what follows from a name, and moments of any type.
#include "workloads/reduce/statistics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <concepts>
#include <cstdint>
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

/// Kernels must compute what each value is made of.
TEST(Statistics, AreInTheirSetOfMoments) {
  for (const Statistic& each : all_statistics()) {
    for (const ElementType type : types) {
      const std::vector<std::string> name{std::string(each.name)};
      const cells::Set set = set_of(name, type, false);
      EXPECT_TRUE(cells::has_extremes(set) || !each.needs(Ingredient::extremes)) << each.name;
      EXPECT_TRUE(cells::has_extremes(set) || type != ElementType::f64) << each.name;
      EXPECT_TRUE(cells::has_squares(set) || !each.needs(Ingredient::squares)) << each.name;
      EXPECT_TRUE(cells::has_powers(set) || !each.needs(Ingredient::powers)) << each.name;
      EXPECT_TRUE(cells::has_powers(set) || !each.needs(Ingredient::magnitudes)) << each.name;
      EXPECT_TRUE(cells::has_indices(set) || !each.needs(Ingredient::positions)) << each.name;
      EXPECT_EQ(set_of(name, type, true), cells::Set::weighted);
    }
  }
}

TEST(Statistics, AnUnknownOneIsAnError) {
  EXPECT_THROW((void)statistic("cv"), ContractError);
}

/// Moments of 2, 5, and 11 with the weights 1, 2, and 3, if the set has weights.
template <class T, cells::Set S>
void expect_loaded(ElementType type) {
  cells::Accumulator<T, S> accumulator;
  std::int64_t index = 0;
  for (const T x : {T{2}, T{5}, T{11}}) {
    ++index;
    accumulator.add(x, index, static_cast<double>(index));
  }
  std::uint64_t words[2 * cells::words_of<T, S>] = {};
  accumulator.moments().store(words, 2);
  const CellMoments m = moments_loader(type, S)(words, 2);
  constexpr bool weighted = cells::is_weighted(S);
  EXPECT_EQ(m.count, 3);
  EXPECT_EQ(m.sum, weighted ? 45 : 18);
  EXPECT_EQ(m.weight, weighted ? 6 : 3);
  EXPECT_EQ(m.weight2, weighted ? 14 : 0);
  EXPECT_EQ(static_cast<std::int64_t>(m.exact_sum), std::integral<T> && !weighted ? 18 : 0);
  if (cells::has_extremes(S)) {
    EXPECT_EQ(m.min.real, 2);
    EXPECT_EQ(m.max.real, 11);
    EXPECT_EQ(m.range, 9);
    EXPECT_EQ(m.max.bits, std::integral<T> ? 11 : std::bit_cast<std::uint64_t>(11.0));
  }
  EXPECT_EQ(m.min_index, cells::has_indices(S) ? 1 : -1);
  EXPECT_EQ(m.max_index, cells::has_indices(S) ? 3 : -1);
  EXPECT_DOUBLE_EQ(m.m2, !cells::has_squares(S) ? 0 : weighted ? 79.5 : 42);
  EXPECT_DOUBLE_EQ(m.m3, cells::has_powers(S) ? 60 : 0);
  EXPECT_DOUBLE_EQ(m.magnitude, cells::has_powers(S) ? 18 : 0);
}

TEST(Moments, OfEveryTypeAndSetAreLoaded) {
  for (const ElementType type : types) {
    with_element_type(type, [=](auto tag) {
      using T = typename decltype(tag)::type;
      expect_loaded<T, cells::Set::sum>(type);
      expect_loaded<T, cells::Set::extremes>(type);
      expect_loaded<T, cells::Set::squares>(type);
      expect_loaded<T, cells::Set::all>(type);
      expect_loaded<T, cells::Set::weighted>(type);
    });
  }
}

}  // namespace
}  // namespace shardstream::workloads
