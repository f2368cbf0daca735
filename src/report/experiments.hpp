// Results of `bench`: the results of experiments in a file, and as text for a terminal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"
#include "report/roofline_points.hpp"
#include "result/tables.hpp"

namespace shardstream::report {

/// The result of one experiment. Texts may come from a file, so they are not trusted.
struct ExperimentResult : result::Experiment {
  std::string summary, reference;
  std::string share;  ///< the quantity that the column `share` refers to; empty if unknown
  std::vector<std::string> notes;
  /// How to draw the table: "bars", "lines", "steps", "matrix" or "roofline"; columns (`series` and
  /// `panel` may be empty); which axes are logarithmic ("", "x", "y" or "xy"); whether "more",
  /// "less" or "neither" of `y` is better.
  std::string look, x, y, series, panel, log, better;
  std::vector<std::string> reference_lines;  ///< columns with which "lines" compares `y`
  /// `rows`: `rank`, the varied quantities, the measured value `y`, ci_lo, ci_hi, share and remark.
  Table table{"rows", {}};

  bool is_measured() const { return state == "measured"; }
};

/// One file of `bench`.
struct BenchFile {
  std::filesystem::path path;
  std::string command, created, device;
  std::size_t ranks = 0;
  std::vector<ExperimentResult> experiments;
  std::optional<Roofline> roofline = {};  ///< if the file has roofs (roofline_of)
};

/// Writes the results below /bench. Throws Error.
void write_experiments(io::ResultFile& file, const std::vector<ExperimentResult>& experiments);

/// Whether `bench` has written the file.
bool is_bench_file(const io::ResultReader& file);
/// Throws UsageError with the name of the file if it is damaged.
BenchFile read_bench_file(const io::ResultReader& file, const std::filesystem::path& path);

/// With four significant digits.
double rounded(double value);

/// The rows of rank 0 without the column `rank`, with four significant digits.
Table of_first_rank(const Table& table);

/// "22 experiments: 20 measured, 2 not available".
std::string count_of_states(const std::vector<ExperimentResult>& experiments);

/// "share: of the rate of uploads"; empty if the table has no share or its reference is unknown.
std::string words_on_share(const ExperimentResult& experiment);

/// "expected: 30 of 32 values are within 10 %"; empty if the table has no expected values.
std::string words_on_expected(const ExperimentResult& experiment);

/// "7 timings did not reach measure.precision."; empty if all did.
std::string words_on_precision(const ExperimentResult& experiment);

/// Text for a terminal: summary, table and notes, or the reason why there is no table.
std::string to_text(const ExperimentResult& experiment);
std::string to_text(const BenchFile& bench);

/// One JSON object, as described in README.md of this folder.
std::string to_json(const BenchFile& bench);

}  // namespace shardstream::report
