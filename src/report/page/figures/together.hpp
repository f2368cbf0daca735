// Figures with one line per study.
#pragma once

#include <vector>

#include "report/page/figures/figure.hpp"
#include "report/studies.hpp"

namespace shardstream::report::page {

/// Time (for studies of the same work), speed-up and efficiency. The report has studies side by
/// side.
std::vector<Figure> together_figures(const Report& report);

}  // namespace shardstream::report::page
