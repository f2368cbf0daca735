// The options that define a study: the contents of study.ini, and the comparison of two studies.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options.hpp"

namespace shardstream::scale {

/// Options and their values; the order matters.
using Values = std::vector<std::pair<std::string, std::string>>;

/// The options of a study that differ from the default, and those that reports need to find missing
/// launches, in the order of their keys.
Values chosen(const Options& options);

/// A default of the runs of a study that differs from that of a single run.
struct RunDefault {
  std::string_view key, value;
};
/// Result matrices are not stored, launches do not resume interrupted ones, since a resumed launch
/// does not count, and repetitions follow the stopping rule.
constexpr std::array<RunDefault, 3> run_defaults = {
    {{"output.store", "false"}, {"output.resume", "never"}, {"measure.repeat", "auto"}}};
/// A copy of `table` with these defaults.
OptionTable with_run_defaults(const OptionTable& table);

/// The text of study.ini: `values` and the study's name.
std::string ini_of(const Values& values, const std::string& name);

/// "KEY was VALUE and is VALUE now" for the first option that differs; empty if none does. `then`
/// is the result of read_study_ini(). Long values are shortened to the parts that differ.
std::string first_difference(std::map<std::string, std::string> then, const Values& now);

/// Whether the study `now` only adds replicates or sizes to `then`, so that the launches of `then`
/// belong to it. The largest size must be the same, since it is calibrated, and in weak studies the
/// smallest, to which the work of all sizes is relative. Throws UsageError like request_of().
bool extends(const std::map<std::string, std::string>& then, const Values& now);

}  // namespace shardstream::scale
