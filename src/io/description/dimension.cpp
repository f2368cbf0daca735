#include "io/description/dimension.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text.hpp"

namespace shardstream::io {

std::string text_of(std::span<const Dimension> dimensions) {
  return join(dimensions, " x ", [](const Dimension& each) {
    return each.name.empty() ? std::to_string(each.extent)
                             : fmt::format("{}={}", printable(each.name), each.extent);
  });
}

std::optional<std::string> attribute_of(const Coordinates& coordinates, const std::string& name) {
  const auto& all = coordinates.attributes;
  const auto found = std::ranges::find(all, name, &std::pair<std::string, std::string>::first);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

bool are_rounded(const Coordinates& coordinates) {
  const bool is_wide = coordinates.hold_wide_integers || coordinates.type == ElementType::i64 ||
                       coordinates.type == ElementType::u64;
  return is_wide && std::ranges::any_of(coordinates.values,
                                        [](double value) { return std::abs(value) >= 0x1p53; });
}

bool are_same_coordinates(double a, double b, bool as_f32) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || (as_f32 && static_cast<float>(a) == static_cast<float>(b));
}

}  // namespace shardstream::io
