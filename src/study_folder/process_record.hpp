// The record that each process of a launch leaves before it becomes the user's program: the facts
// that only the process itself sees. `shardstream exec` writes it, and the study reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace shardstream::study_folder {

struct ProcessRecord {
  std::uint64_t rank = 0;
  std::string host, processor;  ///< the names of the host and of its processor
  std::int64_t pid = 0;
  std::string cpus, cpu_nodes;    ///< that the process may run on, and their NUMA nodes
  std::int64_t cpu_count = 0;     ///< 0: unknown
  std::filesystem::path program;  ///< absolute
  std::uint64_t bytes = 0;        ///< of the program
  std::string checksum;           ///< of the program (core/digest.hpp)
  std::string operating_system, environment;
  double utc_start = 0;  ///< seconds since 1970
};

/// The name of this host; "an unknown host" if the system does not tell.
std::string host_name();

/// Writes FOLDER/rank-N.json, which must not exist. Throws Error.
void write_record(const std::filesystem::path& folder, const ProcessRecord& record);

/// The records of ranks 0 to `ranks` - 1 in `folder`. Throws Error if one is missing or cannot be
/// read.
std::vector<ProcessRecord> read_records(const std::filesystem::path& folder, std::uint64_t ranks);

/// Removes these records and the folder, if it has no other files.
void remove_records(const std::filesystem::path& folder, std::uint64_t ranks);

}  // namespace shardstream::study_folder
