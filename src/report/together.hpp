// Several studies side by side, for example three serial shares, two machines or two versions.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/table.hpp"

namespace shardstream::report {

struct Report;

/// The maximum number of studies side by side: figures have a colour and a marker for each.
inline constexpr std::size_t max_together = 6;

/// The properties of one study among those that are shown together.
struct Distinction {
  std::string letter;  ///< "A" for the first study
  std::string folder;  ///< of its files
  /// Facts that differ between the studies, most telling first: options as KEY and VALUE, and the
  /// keys workload, device and commit. Defaults of options stand only in a study that has chosen
  /// none of the differing options.
  std::vector<std::pair<std::string, std::string>> differs;
  std::string label;  ///< "A: block.size=64"; the folder if no fact differs or is unique
};

/// The studies of a report side by side.
struct Together {
  std::vector<Distinction> studies;  ///< in the order of the report's studies
  /// The reason why times cannot be compared, without a full stop; empty if all studies do the same
  /// work.
  std::string why_no_times;
};

/// Reads the files of each folder as studies of their own, in the order of the folders, and puts
/// them side by side. Throws UsageError unless there are two to max_together studies, all strong or
/// all weak, each with several numbers of ranks, and no files of bench.
Report make_report_together(std::span<const std::filesystem::path> files);

/// One row per quantity and size, one column per study, with intervals: speed-up, efficiency and,
/// for studies of the same work, the time in seconds.
Table side_by_side(const Report& report);
/// One row per study: what differs, the folder, the reference size, the law and whether it fits,
/// and the configured law if a study has one.
Table distinctions(const Report& report);

/// Sentences on the comparability of the studies.
std::string words_on_together(const Report& report);

/// The tables and sentences as text for a terminal. The report has studies side by side.
std::string together_text(const Report& report);

}  // namespace shardstream::report
