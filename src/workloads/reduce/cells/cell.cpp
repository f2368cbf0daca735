#include "workloads/reduce/cells/cell.hpp"

#include <cmath>
#include <limits>

namespace shardstream::workloads {
namespace {

template <class T>
CellMoments load(cells::Quantities quantities, std::uint64_t* first, std::uint64_t pitch) {
  return any_moments(quantities, cells::Moments<T>::load(quantities, first, pitch));
}

}  // namespace

LoadMoments moments_loader(ElementType type) {
  LoadMoments loader = nullptr;
  with_element_type(type, [&](auto tag) { loader = load<typename decltype(tag)::type>; });
  return loader;
}

CellView::CellView(const CellMoments& moments, const CellRules& its_rules, std::uint64_t expected)
    : m(moments),
      rules(its_rules),
      is_sum_defined(static_cast<std::uint64_t>(m.count) >= rules.min_count &&
                     (static_cast<std::uint64_t>(m.count) == expected || !rules.propagates)),
      is_defined(m.count > 0 && is_sum_defined),
      sum_is_nan(std::isnan(m.sum) && !rules.has_integers()),
      is_finite(std::isfinite(m.sum) || rules.has_integers()) {
  const bool has_extremes = rules.quantities.has(cells::Quantity::extremes);
  if (m.count == 0 || rules.has_integers() || !has_extremes) return;
  has_nan = std::isnan(m.min.real) || std::isnan(m.max.real);
  is_finite = std::isfinite(m.min.real) && std::isfinite(m.max.real);
  // Infinities of one sign do not make a sum NaN: finite elements have exceeded the range, too.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool has_both = m.min.real == -infinity && m.max.real == infinity;
  if (sum_is_nan && !has_nan && !has_both && !rules.is_weighted()) is_finite = true;
}

}  // namespace shardstream::workloads
