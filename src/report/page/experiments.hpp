// The sections of a page for files of `bench`.
#pragma once

#include <string>
#include <vector>

#include "report/experiments.hpp"
#include "report/lesson.hpp"
#include "report/page/figures/figure.hpp"

namespace shardstream::report::page {

/// The figures of each measured experiment, in the order of the file. The first one of each has its
/// texts, its lesson, and its name as id; the others have a number after it.
std::vector<Figure> experiment_figures(const BenchFile& bench, const Lessons& lessons = no_lesson);

/// "b1": the id of the section of a file; `number` counts the files of `bench` from 1 on.
std::string id_of_bench(std::size_t number);

/// The section as HTML. `figures` are the figures of the file, with their pictures; `why_not` is
/// the reason for missing ones. In the section of the first file, an experiment's name is the id of
/// its first figure: page.html#stride. The other sections put their own id before it.
std::string bench_section(const BenchFile& bench, const std::vector<Figure>& figures,
                          std::size_t number, const std::string& why_not);

}  // namespace shardstream::report::page
