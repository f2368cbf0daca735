// The words and numbers beside the figures of experiments.
#pragma once

#include <string>

#include "report/experiments.hpp"
#include "report/lesson.hpp"
#include "report/page/html.hpp"

namespace shardstream::report::page {

/// The name of a column of the table, with its unit.
std::string with_unit(const Table& table, const std::string& name);

/// The rows of rank 0, or of all ranks, without columns that are empty in all of them.
Grid numbers_of(const Table& table, bool of_all_ranks);

/// The GPU, its clock, and how the numbers were measured.
std::string basis_of(const BenchFile& bench, const ExperimentResult& experiment);

/// A sentence on the direction of `y`, if it has one, and all texts of the experiment.
std::string words_on(const ExperimentResult& experiment);

/// The question of a lesson, and its other texts and links folded below it, as HTML.
std::string to_html(const Lesson& lesson);

}  // namespace shardstream::report::page
