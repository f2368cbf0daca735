// Predictions of a learner, beside the expected and the measured values of an experiment.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/table.hpp"
#include "experiments/experiment.hpp"
#include "report/experiments.hpp"

namespace shardstream::experiments {

/// The result of an experiment in a file.
struct FileResult {
  report::ExperimentResult result;  ///< with the expected values of this version
  /// "NVIDIA H200, 1980 MHz, device_copy 4283 GB/s": the GPU and the ceilings of the experiment.
  std::string basis;
};

/// The numbers of "120,60": one for each row of the experiment's exercise, in its unit. Throws
/// UsageError if there is no exercise, if a number is none or not finite, or if their count is
/// another one.
std::vector<double> predictions_of(const Experiment& experiment, std::string_view numbers);

/// Writes the question, the exercise and its rows to standard error, and reads as many numbers from
/// standard input, with commas, blanks or line breaks between them. `basis` is printed before, if
/// it is not empty. Throws UsageError as predictions_of() does, and if the input ends early.
std::vector<double> ask_for_predictions(const Experiment& experiment, std::string_view basis);

/// The table for a terminal. If there are predictions and the experiment was measured, a second
/// table follows: for each row of the exercise, the predicted, the expected and the measured value
/// of rank 0, and the first over the last. A value that does not exist is "-". If the experiment
/// was not measured, the text says how to compare with a file.
std::string text_of(const report::ExperimentResult& result, const Experiment& experiment,
                    const std::vector<double>& predictions);

/// Throws UsageError if the file is none of `bench`, or does not have the experiment.
FileResult result_in(const std::filesystem::path& file, const Experiment& experiment);

}  // namespace shardstream::experiments
