// Where a run's result goes, and what that place must be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "core/options.hpp"
#include "io/origin.hpp"

namespace shardstream::run {

/// Room for the tables of one run, in bytes; they take far less.
inline constexpr std::uint64_t reserved_bytes = std::uint64_t{4} << 20;
/// Room for a trace of some 30 000 spans. A larger one that does not fit is a warning.
inline constexpr std::uint64_t trace_bytes = std::uint64_t{4} << 20;

/// output.file, with values for the names in braces. Names by the time differ between ranks.
std::filesystem::path result_path(const Options& options, std::uint64_t ranks);

/// Beside the result, RESULT.trace.json.
std::filesystem::path trace_path(std::filesystem::path result);

/// Throws UsageError if `result` is meant for a data set and no file, or is one of `inputs`.
void refuse_result_path(const std::filesystem::path& result, std::span<const io::InputFile> inputs);

/// Throws UsageError if a run could not write its result, `matrix_bytes` of it a matrix, or its
/// trace, as far as that can be seen without writing.
void check_output(const Options& options, std::uint64_t ranks, std::uint64_t matrix_bytes,
                  std::span<const io::InputFile> inputs);

}  // namespace shardstream::run
