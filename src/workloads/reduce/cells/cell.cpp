#include "workloads/reduce/cells/cell.hpp"

#include <cmath>

#include "kernels/cells/dispatch.hpp"

namespace shardstream::workloads {
namespace {

template <class T, cells::Set S>
CellMoments load(std::uint64_t* first, std::uint64_t pitch) {
  return any_moments(cells::Moments<T, S>::load(first, pitch));
}

}  // namespace

LoadMoments moments_loader(ElementType type, cells::Set set) {
  LoadMoments loader = nullptr;
  with_element_type(type, [&](auto tag) {
    cells::with_set(set,
                    [&](auto chosen) { loader = load<typename decltype(tag)::type, chosen()>; });
  });
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
  if (m.count == 0 || rules.has_integers() || !cells::has_extremes(rules.set)) return;
  has_nan = std::isnan(m.min.real) || std::isnan(m.max.real);
  is_finite = std::isfinite(m.min.real) && std::isfinite(m.max.real);
}

}  // namespace shardstream::workloads
