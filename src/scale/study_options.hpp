// The options that define a study, and the comparison of two studies.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/options.hpp"
#include "study_folder/study_ini.hpp"

namespace shardstream::scale {

using study_folder::OptionList;
using study_folder::StoredOptions;

/// The options of a study that differ from the default, and those that reports need to find missing
/// launches, in the order of their keys.
OptionList chosen(const Options& options);

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

/// "KEY was VALUE and is VALUE now" for the first option that differs; empty if none does. `then`
/// is the result of read_options(). Long values are shortened to the parts that differ.
std::string first_difference(StoredOptions then, const OptionList& now);

/// Whether the study `now` only adds replicates or sizes to `then`, so that the launches of `then`
/// belong to it. The largest size must be the same, since it is calibrated, and in weak studies the
/// smallest, to which the work of all sizes is relative. Throws UsageError like request_of().
bool extends(const StoredOptions& then, const OptionList& now);

}  // namespace shardstream::scale
