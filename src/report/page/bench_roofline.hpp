// The figure of the roofs of a GPU, with all kernels and runs below them.
#pragma once

#include "report/page/figures/figure.hpp"
#include "report/roofline_points.hpp"

namespace shardstream::report::page {

/// Draws the roofs over the intensity, and a point for each kernel and run that has operations and
/// bytes; its marker tells the limiter. The numbers are those of all that is placed. Kernels
/// without operations are only in the numbers.
void draw_roofline(Figure& figure, const Roofline& roofline);

/// How to read the figure, the number of each limiter, and what is not placed.
std::string words_on_limiters(const Roofline& roofline);

}  // namespace shardstream::report::page
