// The sections of a page on files of `bench`.
#pragma once

#include <string>
#include <vector>

#include "report/experiments.hpp"
#include "report/page/figure.hpp"

namespace shardstream::report::page {

/// One figure for each experiment that was measured, in the order of the file.
std::vector<Figure> experiment_figures(const BenchFile& bench);

/// The section as HTML. `figures` are those of the file, with their pictures. `id` is unique in the
/// page; `why_not` says why a picture is missing.
std::string bench_section(const BenchFile& bench, const std::vector<Figure>& figures,
                          const std::string& id, const std::string& why_not);

}  // namespace shardstream::report::page
