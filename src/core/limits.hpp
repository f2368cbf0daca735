// The limits that the system has set this process (ulimit), for messages about what they prevented.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace shardstream {

// Each is "ulimit -X is N UNIT", as a shell prints it, or empty if there is no such limit.
std::string file_size_limit();      ///< -f, in KiB
std::string address_space_limit();  ///< -v, in KiB
/// Both limits of threads: -v, since each has a stack, and -u.
std::string thread_limits();

/// "REASON; LIMIT", or `reason` alone if `limit` is empty.
std::string with_limit(const std::string& reason, const std::string& limit);

/// Bytes that a file may have; without a limit UINT64_MAX.
std::uint64_t max_file_size();

/// Makes a write beyond the limit of file sizes an error (EFBIG) instead of a signal. To be called
/// once, before any file is written.
void ignore_file_size_signal();

/// error.what(); if memory or a thread could not be had, a sentence that names the limits instead.
std::string message_of(const std::exception& error);

}  // namespace shardstream
