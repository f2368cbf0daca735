// Where a run's result goes, and what that place must be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/options.hpp"

namespace shardstream::cli {

/// Room for the tables of one run, in bytes; they take far less.
inline constexpr std::uint64_t reserved_bytes = std::uint64_t{4} << 20;

/// output.file, with values for the names in braces. Names by the time differ between ranks.
std::filesystem::path result_path(const Options& options, std::uint64_t ranks);

/// Beside the result, RESULT.trace.json.
std::filesystem::path trace_path(std::filesystem::path result);

/// The files that run.workload reads; empty paths for generators.
std::vector<std::filesystem::path> input_files(const Options& options);

/// Throws UsageError where `result` is meant for a data set and no file, or is one of `inputs`.
void refuse_result_path(const std::filesystem::path& result,
                        std::span<const std::filesystem::path> inputs);

/// Throws UsageError where a run could not write its result, `matrix_bytes` of it a matrix, or its
/// trace, as far as that can be seen while nothing is written.
void check_output(const Options& options, std::uint64_t ranks, std::uint64_t matrix_bytes);

}  // namespace shardstream::cli
