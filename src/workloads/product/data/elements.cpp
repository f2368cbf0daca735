#include "workloads/product/data/elements.hpp"

#include <algorithm>
#include <cmath>

namespace shardstream::workloads::product {
namespace {

/// Calls f with a pointer to the first element.
template <class F>
decltype(auto) with_elements(ElementType type, const std::byte* elements, F&& f) {
  return with_element_type(type, [&](auto tag) {
    return f(reinterpret_cast<const typename decltype(tag)::type*>(elements));
  });
}

}  // namespace

bool are_finite(ElementType type, const std::byte* elements, std::uint64_t count, NanElements nan) {
  const bool skips = nan == NanElements::are_skipped;
  return with_elements(type, elements, [&](const auto* x) {
    return std::all_of(x, x + count,
                       [&](auto each) { return each - each == 0 || (skips && each != each); });
  });
}

void convert(ElementType from, const std::byte* elements, std::uint64_t count, ElementType to,
             std::byte* out) {
  with_elements(from, elements, [&](const auto* x) {
    if (to == ElementType::f64) {
      std::transform(x, x + count, reinterpret_cast<double*>(out),
                     [](auto each) { return static_cast<double>(each); });
    } else {
      std::transform(x, x + count, reinterpret_cast<float*>(out),
                     [](auto each) { return static_cast<float>(each); });
    }
  });
}

double squares_of_numbers(ElementType type, const std::byte* elements, std::uint64_t count) {
  return with_elements(type, elements, [&](const auto* x) {
    double squares = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(x[i]);
      if (!std::isnan(value)) squares += value * value;
    }
    return squares;
  });
}

}  // namespace shardstream::workloads::product
