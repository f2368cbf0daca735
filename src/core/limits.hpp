// The resource limits of this process (ulimit), for messages about failures that they caused.
#pragma once

#include <cstdint>
#include <string>

namespace shardstream {

// Each function returns "ulimit -X is N UNIT", as a shell prints it, or "" without such a limit.
std::string file_size_limit();      ///< -f, in KiB
std::string address_space_limit();  ///< -v, in KiB
std::string open_files_limit();     ///< -n, without a unit
/// Both limits that can prevent a new thread: -v, since each thread has a stack, and -u.
std::string thread_limits();

/// "REASON; LIMIT", or `reason` alone if `limit` is empty.
std::string with_limit(const std::string& reason, const std::string& limit);

/// The maximum size of a file in bytes; UINT64_MAX without a limit.
std::uint64_t max_file_size();

/// Raises the soft limit of open files to the hard limit, but at most to 65 536.
void raise_open_files_limit();

/// The number of files that this process can still open; UINT64_MAX without a limit.
std::uint64_t openable_files();

/// Turns a write beyond the maximum file size into an error (EFBIG) instead of a signal. Call it
/// once, before any file is written.
void ignore_file_size_signal();

}  // namespace shardstream
