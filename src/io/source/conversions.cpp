#include "io/source/conversions.hpp"

#include <fmt/format.h>

#include <set>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "kernels/data/convert.hpp"
#include "types/stored_value.hpp"

namespace shardstream::io {

void Conversions::add(std::uint64_t count, const Conversion& conversion) {
  if (pieces_.empty()) return pieces_.push_back({count, conversion});
  ConversionRun& last = pieces_.back();
  expect(conversion.from == last.conversion.from && conversion.to == last.conversion.to &&
             conversion.missing_element == last.conversion.missing_element,
         "the conversions of a source have the same types");
  const std::uint64_t end = last.end + count;
  if (conversion == last.conversion) {
    last.end = end;
  } else {
    pieces_.push_back({end, conversion});
  }
}

bool Conversions::declare_missing() const {
  return std::ranges::any_of(
      pieces_, [](const ConversionRun& each) { return each.conversion.missing.any(); });
}

bool Conversions::always_fit() const {
  return std::ranges::all_of(
      pieces_, [](const ConversionRun& each) { return always_fits(each.conversion); });
}

std::string text_of(const Conversions& conversions) {
  std::vector<std::string> texts;  // in order
  std::set<std::string> known;
  conversions.visit({0, UINT64_MAX}, [&](Range, const Conversion& each) {
    std::string text = text_of(each);
    if (known.insert(text).second) texts.push_back(std::move(text));
  });
  return join_first(texts, 2, "; ");
}

std::string identity_of(const Conversions& conversions) {
  std::string all;
  std::size_t number = 0;
  conversions.visit({0, UINT64_MAX}, [&](Range elements, const Conversion& each) {
    all += fmt::format("{} {}\n", elements.count, text_of(each));
    ++number;
  });
  const std::string text = text_of(conversions);
  return number == 1 ? text : fmt::format("{} (digest {})", text, digest_of(all));
}

}  // namespace shardstream::io
