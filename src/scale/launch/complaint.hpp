// The cause of a failed launch, from its log.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace shardstream::scale {

/// The cause, quoted from the log, as one line of at most 600 printable characters: the last
/// "error: ..." of shardstream; else the last line of the program before the first line of dashes
/// of mpirun, also with the paragraph after it if this is about a signal; else this paragraph; else
/// the last line. Empty if the log is empty.
std::string complaint_of(const std::filesystem::path& log);

/// The remedy if the launcher has started nothing, since it has too few slots or CPUs for the
/// ranks, or since the Slurm job in the environment cannot be reached. Another attempt would end in
/// the same way. Empty for other failures.
std::string remedy_of(const std::filesystem::path& log);

/// Whether Slurm has started nothing since this job, whose number is `job`, is about to end.
bool is_rejected_step(const std::filesystem::path& log, std::string_view job);

}  // namespace shardstream::scale
