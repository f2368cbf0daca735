// All that the rest of the program knows of a workload. A workload is a folder beside this file
// with a function that returns its Workload, and a line in registry.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options.hpp"
#include "core/table.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "io/source/origin.hpp"
#include "kernels/data/element.hpp"
#include "measure/ceilings.hpp"
#include "measure/machine.hpp"
#include "measure/sample.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::workloads {

/// One line of standard output: key=value unit.
struct Metric {
  std::string key;
  Cell value;
  std::string unit = {};
  const char* format = "{}";  ///< of fmt: with how many digits a real is printed, "{}" all of them
};

/// What is told of the data that came in: GROUP is /input, or /input/NAME where there are several.
struct InputAttribute {
  std::string group, name;
  io::Attribute value;
};

/// What came of the verification of a result.
enum class Verification : std::uint8_t {
  failed,
  impossible,  ///< nothing of it could be checked
  partly,      ///< what could be checked has passed
  passed,      ///< all of it
};
/// What a user reads of it.
constexpr const char* word_of(Verification verification) {
  constexpr const char* words[] = {"false", "unchecked", "partly", "true"};
  return words[static_cast<std::size_t>(verification)];
}

/// What a rate counts: the work of one repetition, all ranks.
struct Work {
  double amount = 0;
  std::string unit = "GB";        ///< rates are in UNIT/s, energies in J/UNIT
  std::string name = "gigabyte";  ///< the unit as a word, for the key energy_per_NAME
};
/// Work that moves data.
inline Work moving(std::uint64_t bytes) {
  return {static_cast<double>(bytes) / 1e9, "GB", "gigabyte"};
}
/// Work that computes.
inline Work computing(double flops) {
  return {flops / 1e12, "Tflop", "teraflop"};
}

/// The same on every rank.
struct Outcome {
  std::vector<Table> results;                                     ///< become /results/NAME
  std::vector<std::pair<std::string, io::Attribute>> attributes;  ///< of /results
  std::vector<InputAttribute> input;                              ///< of /input and its groups
  /// What options came to where the program chose or rounded, by key: this rank's own.
  std::vector<std::pair<std::string, io::Attribute>> resolved;
  std::vector<Metric> metrics;
  measure::Samples samples;                ///< the timed repetitions
  std::uint64_t elements = 0, bytes = 0;   ///< of work in one repetition, all ranks
  Work work;                               ///< likewise, what rates count
  std::vector<measure::Ceiling> ceilings;  ///< this machine's limits, measured in this run
  Verification verified = Verification::failed;
  std::string verdict;  ///< one sentence on what was verified, or what failed
};

/// A problem of a weak scaling study: the options of a run with a multiple of its work.
struct Scaled {
  std::vector<std::pair<std::string, std::string>> options;  ///< the keys that change, and values
  double factor = 1;  ///< the counted work over the base's; sizes are whole numbers
};

/// The option `key`, a count, times `factor`.
Scaled scaled_count(const Options& options, std::string_view key, double factor);

/// `input.rows` times `factor`, if input.data names a file. Throws UsageError if input.rows is
/// auto: all rows of the file cannot grow.
Scaled scaled_rows(const Options& options, double factor);

/// The matrix that all ranks write together, as /results/NAME.
struct OutputMatrix {
  std::string name;
  ElementType type;
  std::uint64_t rows, columns;
};

/// What a resumable task needs to leave a checkpoint, and to resume from one.
struct Resume {
  io::Journal* journal;  ///< to be begun by every rank
  /// What earlier runs have finished, the same on all ranks; null: nothing.
  const io::Checkpoint* earlier;
  /// Collective, to be called if there is an earlier one, once every rank has written the tiles
  /// that it takes over and added them to its journal. Syncs both, then removes what the earlier
  /// runs have left. Throws AgreedError.
  std::function<void()> taken_over;
};

/// Where a run's products go. The run owns them; null is the same on all ranks.
struct Sinks {
  const io::RangeWriter* matrix = nullptr;  ///< for Task::output(); null if it has none
  const Resume* resume = nullptr;           ///< null if the task is not resumable
};

/// What a dry run says of a task.
struct Prediction {
  std::vector<std::string> lines;     ///< the plan, "name: words" each
  std::vector<std::string> warnings;  ///< such as ranks without work
  double seconds = 0;                 ///< of one repetition, at least
  /// The checkpoints of a resumable task.
  struct Checkpoints {
    std::string_view unit;  ///< "super-tile": a checkpoint follows each of them
    std::uint64_t units = 0;
    std::uint64_t journal_bytes = 0;  ///< of all ranks together
    /// How much of an earlier checkpoint this run would take over, in words. Throws UsageError if
    /// that is of another product.
    std::function<std::string(const io::Checkpoint& earlier)> kept;
  };
  std::optional<Checkpoints> checkpoints = {};
};

/// A workload with its inputs open. For one thread.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Every file that bytes come from, and what is to be warned of them. A result never replaces
  /// one of these files.
  virtual io::Origin inputs() const = 0;
  /// What the inputs are, in words: must be the same on all ranks.
  virtual std::string identity() const = 0;
  virtual std::optional<OutputMatrix> output() const { return std::nullopt; }
  /// Whether a run leaves checkpoints, and a later one resumes from them.
  virtual bool resumable() const { return false; }
  /// The plan and its time, without MPI and without a device. Throws UsageError where run() would
  /// throw AgreedError, as far as that shows without running.
  virtual Prediction predict(measure::Machine& machine) const = 0;
  /// Collective. Throws AgreedError if options and machine do not fit together, and Error if a
  /// rank's data cannot be read or written.
  virtual Outcome run(runtime::Runtime& runtime, const Sinks& sinks) = 0;
};

struct Workload {
  std::string_view name;     ///< as run.workload names it
  std::string_view summary;  ///< a few words for --help
  std::string_view example;  ///< what follows `shardstream run NAME` in an example, for --help
  /// The rows of its own sections, and of those that it shares with some other workloads.
  std::vector<std::span<const OptionRow>> options;
  /// Keys of common sections that it honours, but not every workload does.
  std::vector<std::string_view> honours;
  /// Whether it has or honours the option `key`.
  bool takes(std::string_view key) const;
  /// Of all these, the keys that name its data, and those that size generated data.
  std::vector<std::string_view> data, sizes;
  /// Opens the inputs. `options` must outlive the task. Throws UsageError.
  std::unique_ptr<Task> (*open)(const Options& options);
  /// The sizes that weak scaling can grow, one word each; the first is the default.
  std::vector<std::string_view> grows;
  /// The problem with `factor` times the counted work of `options`, in which `grow`, one of
  /// `grows`, has grown. Throws UsageError with the reason if it cannot grow.
  Scaled (*scaled)(const Options& options, double factor, std::string_view grow);
};

}  // namespace shardstream::workloads
