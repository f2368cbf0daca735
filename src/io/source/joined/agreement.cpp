#include "io/source/joined/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/error.hpp"
#include "core/text.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {
namespace {

/// `remedy` may be empty; joining only some of the files is always possible.
void expect_same(const DatasetPlan& first, const DatasetPlan& other, const std::string& property,
                 const std::string& in_first, const std::string& in_other,
                 const std::string& remedy = {}) {
  if (in_first == in_other) return;
  const auto words = [](const std::string& text) { return text.empty() ? "none" : text; };
  throw UsageError(fmt::format("{} and {} cannot be joined, since their {} differ ({} and {}): {}",
                               first.about.name, other.about.name, property, words(in_first),
                               words(in_other),
                               remedy.empty() ? "choose a pattern for files that agree" : remedy));
}

std::string number_of_dimensions(const DatasetPlan& plan) {
  return std::to_string(plan.about.dimensions.size());
}

/// The attributes that are applied, and those that would be if they changed anything.
std::string conventions_of(const DatasetPlan& plan) {
  std::set<std::string> names(plan.origin.applied.begin(), plan.origin.applied.end());
  names.insert(plan.packed_by.begin(), plan.packed_by.end());
  return join(names, ", ");
}

bool is_integer(ElementType type) {
  return type != ElementType::f32 && type != ElementType::f64;
}

bool is_missing(std::uint64_t bits, const Conversion& conversion) {
  return with_stored_type(conversion.from, [&](auto id) {
    using S = typename decltype(id)::type;
    return conversion::is_missing<S>(conversion.missing, conversion::number_of_bits<S>(bits));
  });
}

/// The first data set in which the stored value is not missing, or null.
const DatasetPlan* without(std::uint64_t bits, std::span<const DatasetPlan> plans) {
  const auto found = std::ranges::find_if(
      plans, [&](const DatasetPlan& plan) { return !is_missing(bits, plan.conversion); });
  return found == plans.end() ? nullptr : &*found;
}

/// Stored values that may be missing in all of the data sets.
std::set<std::uint64_t> candidates(std::span<const DatasetPlan> plans) {
  std::set<std::uint64_t> bits;
  for (const DatasetPlan& plan : plans) {
    const MissingValues& missing = plan.conversion.missing;
    bits.insert(missing.value, missing.value + missing.count);
    const auto usual = missing_element(missing, plan.conversion.from);
    if (usual) bits.insert(*usual);
  }
  return bits;
}

}  // namespace

void expect_joinable(const DatasetPlan& first, const DatasetPlan& other) {
  expect_same(first, other, "numbers of dimensions", number_of_dimensions(first),
              number_of_dimensions(other));
  for (std::size_t d = 0; d < first.dimensions.size(); ++d) {
    const SourceDimension &one = first.dimensions[d], &two = other.dimensions[d];
    expect_same(first, other, fmt::format("names of dimension {}", d), one.name, two.name);
    if (d == 0) continue;
    expect_same(first, other, fmt::format("extents of dimension {}", d), std::to_string(one.extent),
                std::to_string(two.extent));
  }
  expect_same(first, other, "stored types", first.about.stored_as, other.about.stored_as);
  expect_same(first, other, "values of the attribute 'units'", first.about.units,
              other.about.units);
  expect_same(first, other, "applied attributes", conventions_of(first), conventions_of(other),
              "correct the attributes, or add --input.conventions none to take values as they are "
              "stored");
  const Conversion &one = first.conversion, &two = other.conversion;
  expect_same(first, other, "types of elements", std::string(word_of(one.to)),
              std::string(word_of(two.to)), "choose input.type = f64");
}

void agree_on_missing_element(std::span<DatasetPlan> plans) {
  const bool any = std::ranges::any_of(plans, [](const DatasetPlan& plan) {
    return plan.conversion.missing.any() && is_integer(plan.conversion.to);
  });
  if (!any) return;
  for (const std::uint64_t bits : candidates(plans)) {
    if (without(bits, plans) != nullptr) continue;
    for (DatasetPlan& plan : plans) set_missing_element(plan.conversion, bits);
    return;
  }
  const std::uint64_t usual = *candidates(plans).begin();
  const Conversion& conversion = plans.front().conversion;
  throw UsageError(fmt::format(
      "the files have different missing values, and no {} is missing in all of them ({} is not in "
      "{}), so none can stand for all missing values: choose input.type = f64",
      word_of(conversion.to), text_of(usual, conversion.from), without(usual, plans)->about.name));
}

}  // namespace shardstream::io
