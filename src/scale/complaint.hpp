// The cause of a failed launch, from its log.
#pragma once

#include <filesystem>
#include <string>

namespace shardstream::scale {

/// The cause in the words of the log, in one line of printable text of at most 600 characters: the
/// last "error: ..." of shardstream; else the first paragraph that mpirun prints between lines
/// of dashes; else the last line. Empty if the log says nothing.
std::string complaint_of(const std::filesystem::path& log);

}  // namespace shardstream::scale
