// The sections of a page for files of `bench`.
#pragma once

#include <string>
#include <vector>

#include "report/experiments.hpp"
#include "report/lesson.hpp"
#include "report/page/figures/figure.hpp"

namespace shardstream::report::page {

/// The figures of each measured experiment, in the order of the file. The first one of each has its
/// texts and its lesson.
std::vector<Figure> experiment_figures(const BenchFile& bench, const Lessons& lessons = no_lesson);

/// The section as HTML. `figures` are the figures of the file, with their pictures. `id` must be
/// unique in the page; `why_not` is the reason for missing pictures.
std::string bench_section(const BenchFile& bench, const std::vector<Figure>& figures,
                          const std::string& id, const std::string& why_not);

}  // namespace shardstream::report::page
