// Results of `bench`: what an experiment has left in a file, and how a terminal shows it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::report {

/// One experiment. Texts may come from a file.
struct ExperimentResult {
  std::string name, group;
  std::string state;    ///< "measured", "not available", "wrong", "failed" or "not run"
  std::string message;  ///< why it is not measured; else empty
  std::string summary, reference;
  std::string share;  ///< the quantity that the column `share` refers to; empty if unknown
  std::vector<std::string> notes;
  /// How to draw the table: "bars", "lines", "steps" or "matrix"; columns (`series` and `panel` may
  /// be empty, `beside` names up to two with a blank between them); which axes are logarithmic ("",
  /// "x", "y" or "xy"); whether "more" or "less" of `y` is better.
  std::string look, x, y, series, panel, beside, log, better;
  /// `rows`: `rank` comes first, then what varies, the figure `y`, ci_lo, ci_hi, share and remark.
  Table table{"rows", {}};
  std::int64_t unconverged = 0;    ///< timings, of all ranks
  double sm_clock = 0, power = 0;  ///< MHz, W: medians of rank 0's GPU; NaN if unknown
  std::int64_t throttled = -1;     ///< ranks whose GPU was throttled; -1: unknown

  bool is_measured() const { return state == "measured"; }
};

/// One file of `bench`.
struct BenchFile {
  std::filesystem::path path;
  std::string command, created, device;
  std::size_t ranks = 0;
  std::vector<ExperimentResult> experiments;
};

/// Writes them below /bench. Throws Error.
void write_experiments(io::ResultFile& file, const std::vector<ExperimentResult>& experiments);

/// Whether `bench` has written the file.
bool is_bench_file(const io::ResultReader& file);
/// Throws UsageError naming the file if it is damaged.
BenchFile read_bench_file(const io::ResultReader& file, const std::filesystem::path& path);

/// The rows of rank 0 without their rank, reals with four significant digits.
Table of_first_rank(const Table& table);

/// "22 experiments: 20 measured, 2 not available".
std::string count_of_states(const std::vector<ExperimentResult>& experiments);

/// "share: of the rate of uploads"; empty if the table has no share or nothing is known of it.
std::string words_on_share(const ExperimentResult& experiment);

/// For a terminal: summary, table and notes, or why there is none.
std::string to_text(const ExperimentResult& experiment);
std::string to_text(const BenchFile& bench);

}  // namespace shardstream::report
