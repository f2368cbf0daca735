// The request for order statistics, the methods of quantiles, and the intervals of a pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.hpp"
#include "support/errors.hpp"
#include "workloads/reduce/order/division.hpp"
#include "workloads/reduce/order/method.hpp"
#include "workloads/reduce/order/request.hpp"

namespace shardstream::workloads {
namespace {

std::vector<Quantile> requested(std::string_view list) {
  const auto items = list_items(list);
  return quantiles_of({items.begin(), items.end()});
}

TEST(QuantileRequest, NamesEachQuantileAsTheUserWould) {
  EXPECT_EQ(requested("median"), (std::vector<Quantile>{{"median", 0.5}}));
  EXPECT_EQ(requested("mean, quantile(0.05, 0.95), median,quantile( 1 )"),
            (std::vector<Quantile>{{"quantile(0.05)", 0.05},
                                   {"quantile(0.95)", 0.95},
                                   {"median", 0.5},
                                   {"quantile(1)", 1}}));
  EXPECT_EQ(requested("quantile(5e-1,0)"),
            (std::vector<Quantile>{{"quantile(0.5)", 0.5}, {"quantile(0)", 0}}));
  EXPECT_TRUE(requested("mean,sum").empty());
}

TEST(QuantileRequest, SaysWhatIsWrong) {
  for (const auto& [list, word] :
       std::vector<std::pair<std::string, std::string>>{{"quantile(1.5)", "1.5"},
                                                        {"quantile(-0.1)", "-0.1"},
                                                        {"quantile(0.1,nan)", "nan"},
                                                        {"quantile(a)", "a"},
                                                        {"quantile()", "empty"},
                                                        {"quantile( )", "empty"},
                                                        {"quantile(0.1,)", "quantile(0.1,)"},
                                                        {"quantile", "numbers"},
                                                        {"quantile(0.1", "closed"},
                                                        {"quantile(0.1,0.10)", "twice"},
                                                        {"quantile(0.1),quantile(0.1)", "twice"}}) {
    EXPECT_TRUE(
        test::names(test::error_of([&, &each = list] { requested(each); }), "reduce.ops", word));
  }
}

struct Case {
  std::string_view method;
  std::uint64_t count;
  double q;
  QuantilePosition place;
};

TEST(QuantileMethods, HaveThePlacesOfHyndmanAndFan) {
  for (const Case& each : std::vector<Case>{
           {"inverted_cdf", 10, 0.25, {2, 2}},
           {"inverted_cdf", 10, 0.3, {2, 2}},
           {"inverted_cdf", 4, 0.5, {1, 1}},
           {"inverted_cdf", 4, 0, {0, 0}},
           {"inverted_cdf", 4, 1, {3, 3}},
           {"averaged_inverted_cdf", 4, 0.5, {1, 2, 0.5}},
           {"averaged_inverted_cdf", 5, 0.5, {2, 2}},
           {"averaged_inverted_cdf", 4, 1, {3, 3}},
           {"closest_observation", 10, 0.25, {1, 1}},
           {"closest_observation", 10, 0.35, {3, 3}},
           {"closest_observation", 3, 0.5, {1, 1}},
           {"interpolated_inverted_cdf", 10, 0.25, {1, 2, 0.5}},
           {"hazen", 4, 0.5, {1, 2, 0.5}},
           {"weibull", 4, 0.25, {0, 1, 0.25}},
           {"weibull", 4, 0.1, {0, 0}},
           {"weibull", 4, 0.9, {3, 3}},
           {"linear", 5, 0.5, {2, 2}},
           {"linear", 5, 0.125, {0, 1, 0.5}},
           {"linear", 1, 0.3, {0, 0}},
           {"linear", 5, 1, {4, 4}},
           {"lower", 4, 0.5, {1, 1}},
           {"higher", 4, 0.5, {2, 2}},
           {"nearest", 2, 0.5, {0, 0}},
           {"nearest", 4, 0.5, {2, 2}},
           {"midpoint", 4, 0.1, {0, 1, 0.5}},
           {"midpoint", 3, 0.5, {1, 1}},
       }) {
    EXPECT_EQ(place_of(each.method, each.count, each.q), each.place)
        << each.method << " of " << each.count << " at " << each.q;
  }
}

TEST(QuantileMethods, StayWithinTheElements) {
  for (const std::string_view method : split(quantile_methods, '|')) {
    for (const std::uint64_t count : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7},
                                      (std::uint64_t{1} << 53) + 1, (std::uint64_t{1} << 62) - 1}) {
      for (const double q : {0.0, 1e-300, 0.1, 0.5, 0.999999999999, 1 - 0x1p-53, 1.0}) {
        const QuantilePosition place = place_of(method, count, q);
        EXPECT_LE(place.lower, place.upper);
        EXPECT_LT(place.upper, count) << method << " of " << count << " at " << q;
        EXPECT_GE(place.weight, 0);
        EXPECT_LT(place.weight, 1);
      }
    }
  }
}

TEST(QuantileMethods, InterpolateWithoutOverflow) {
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(interpolate(least, most, 0.25), -0x1p62);
  EXPECT_EQ(interpolate<std::int8_t>(-128, 127, 0.25), -64.25);
  EXPECT_EQ(interpolate<std::uint64_t>(0, UINT64_MAX, 0.5), 0x1p63);
  EXPECT_EQ(interpolate(1.0, 2.0, 0.75), 1.75);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(interpolate(1.0, infinity, 0.75), infinity);
  EXPECT_EQ(interpolate(-infinity, 1.0, 0.75), -infinity);
  EXPECT_EQ(interpolate(infinity, infinity, 0.5), infinity);
  EXPECT_TRUE(std::isnan(interpolate(-infinity, infinity, 0.5)));
}

using order_statistics::Division;
using order_statistics::KeyRange, order_statistics::missing_keys, order_statistics::Shares;

TEST(Division, HasTheEndsOfBracketsAsPartsAndCollectsTheRest) {
  const Division<std::int32_t> division({{50, 50}}, {{10, 100}, {90, 200}});
  std::vector<KeyRange<std::int32_t>> collected;
  for (const auto& part : division.parts()) {
    if (part.collects) collected.push_back(part.keys);
  }
  using Ranges = std::vector<KeyRange<std::int32_t>>;
  EXPECT_EQ(collected, (Ranges{{11, 49}, {51, 89}, {91, 99}, {101, 199}}));
  std::uint32_t next = 0;
  for (const auto& part : division.parts()) {
    EXPECT_EQ(part.keys.first, next);
    EXPECT_EQ(part.is_missing, part.keys.first == 50);
    next = part.keys.last + 1;
  }
  EXPECT_EQ(next, 0U);  // after the largest key
}

TEST(Division, FindsRanksAmongValidElements) {
  Division<std::int32_t> division({{50, 50}}, {{10, 100}});
  std::vector<std::uint64_t> counts(division.parts().size(), 10);
  division.set_counts(counts.data());
  EXPECT_EQ(division.missing(), 10U);
  EXPECT_EQ(division.total(), 10 * counts.size());
  const auto found = division.find(25);  // below 10; 10; 11 to 49
  EXPECT_EQ(found.part->keys, (KeyRange<std::int32_t>{11, 49}));
  EXPECT_EQ(found.rank, 5U);
  EXPECT_EQ(division.find(35).part->keys.first, 51U);
}

TEST(Division, EveryByteIsAPart) {
  const auto division = Division<std::uint8_t>::of_all_keys({{255, 255}});
  ASSERT_EQ(division.parts().size(), 256U);
  EXPECT_TRUE(division.parts()[255].is_missing);
  for (const auto& part : division.parts()) EXPECT_TRUE(part.is_single() && !part.collects);
}

template <class T>
class Locators : public testing::Test {
 protected:
  using Key = order::Key<T>;
  using Distribution = std::function<double(std::mt19937_64&)>;

  static std::vector<Key> sample_of(const Distribution& draw) {
    std::mt19937_64 random(1);
    std::vector<Key> keys;
    for (int i = 0; i < 40'000; ++i) keys.push_back(order::key_of(static_cast<T>(draw(random))));
    std::ranges::sort(keys);
    return keys;
  }
  /// With brackets of a 200th of the sorted keys around a few quantiles.
  static Division<T> division_of(const std::vector<Key>& keys) {
    std::vector<KeyRange<T>> brackets;
    Shares<T> shares;
    const auto n = static_cast<double>(keys.size());
    for (const double q : {0.01, 0.05, 0.25, 0.5, 0.75, 0.95}) {
      const auto place = static_cast<std::ptrdiff_t>(q * n), half = std::ssize(keys) / 400;
      const KeyRange<T> bracket{keys.begin()[place - half], keys.begin()[place + half]};
      const auto low = std::ranges::equal_range(keys, bracket.first);
      const auto high = std::ranges::equal_range(keys, bracket.last);
      shares.equal[bracket.first] = static_cast<double>(low.size()) / n;
      shares.equal[bracket.last] = static_cast<double>(high.size()) / n;
      const auto between = std::max<std::ptrdiff_t>(high.begin() - low.end(), 0);
      shares.spread.push_back({bracket, static_cast<double>(between) / n});
      brackets.push_back(bracket);
    }
    return {missing_keys<T>({}), brackets, {}, shares};
  }
  /// The share of the keys in cells with several intervals.
  static double searched(const std::vector<Key>& keys, const Division<T>& division) {
    const auto locator = division.locator();
    std::vector<order::PartitionTable<T>> table(1);
    order::fill_table(division.intervals(), locator, table[0]);
    const auto number = std::ranges::count_if(keys, [&](Key key) {
      return table[0].cell[locator(order::value_of<T>(key))] == order::several;
    });
    return static_cast<double>(number) / static_cast<double>(keys.size());
  }
  static void expect(order::Steps steps, const Distribution& draw) {
    const auto keys = sample_of(draw);
    const Division<T> division = division_of(keys);
    EXPECT_EQ(division.locator().steps(), steps);
    EXPECT_LT(searched(keys, division), 0.03);
  }
};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(Locators, Floats);

TYPED_TEST(Locators, HaveStepsOfTheValueForOrdinaryData) {
  const auto expect = [](auto distribution) {
    TestFixture::expect(order::Steps::of_value, distribution);
  };
  expect(std::uniform_real_distribution(0.0, 1.0));
  expect(std::uniform_real_distribution(-5.0, 1000.0));
  expect(std::normal_distribution());
  expect(std::exponential_distribution());
  expect(std::cauchy_distribution());
}

TYPED_TEST(Locators, HaveStepsOfTheKeyForAllMagnitudes) {
  using T = TypeParam;
  const auto expect = [](const auto& draw) { TestFixture::expect(order::Steps::of_key, draw); };
  expect([](std::mt19937_64& random) {  // random bits
    while (true) {
      const T x = order::value_of<T>(random() & order::max_key<T>);
      if (x == x) return static_cast<double>(x);
    }
  });
  expect(std::lognormal_distribution(0.0, 10.0));
}

/// Half of the values are 0, for which two intervals end.
TYPED_TEST(Locators, HaveACellForAFrequentValue) {
  std::lognormal_distribution tiny(-69.0, 1.0);
  TestFixture::expect(order::Steps::of_key, [&](std::mt19937_64& random) {
    return random() % 2 == 0 ? 0 : tiny(random);
  });
}

}  // namespace
}  // namespace shardstream::workloads
