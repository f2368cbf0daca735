// The code of an experiment, as HTML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/table.hpp"
#include "report/lesson.hpp"

namespace shardstream::report::page {

/// For each line of `after`, whether it is new: whether it is outside the longest common
/// subsequence of the lines of both texts. Indentation does not count.
std::vector<bool> new_lines(std::string_view before, std::string_view after);

/// All code, folded; empty if there is none.
std::string code_of_lesson(const Lesson& lesson);

/// For a ladder: the kernel of each rung, with the lines marked that the kernel of the rung before
/// lacks. `table` is that of the experiment; its columns `rung` and `kernel` name the kernels as
/// "reduction.cu:120". If `lesson` lacks a kernel of a file at its line, other sources have been
/// measured, and all kernels of that file are left out. Empty if none is left.
std::string code_of_rungs(const Lesson& lesson, const Table& table);

}  // namespace shardstream::report::page
