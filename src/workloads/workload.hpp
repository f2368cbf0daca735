// The interface between a workload and the rest of the program. A workload is a folder next to this
// file with a function that returns its Workload, and one line in registry.cpp.
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

#include "core/metric.hpp"
#include "core/options.hpp"
#include "core/shard.hpp"
#include "core/table.hpp"
#include "io/description/origin.hpp"
#include "io/hdf5/result_file.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/dataset_file.hpp"
#include "io/source/dimension_match.hpp"
#include "io/source/source.hpp"
#include "measure/ceilings.hpp"
#include "measure/machine.hpp"
#include "measure/sample.hpp"
#include "runtime/runtime.hpp"
#include "types/element.hpp"

namespace shardstream::workloads {

/// An attribute that describes the input. `group` is /input, or /input/NAME for several inputs.
struct InputAttribute {
  std::string group, name;
  io::AttributeValue value;
};

/// The outcome of the verification of a result.
enum class Verification : std::uint8_t {
  failed,
  unchecked,  ///< no check was possible
  partly,     ///< only some checks were possible, and they have passed
  passed,     ///< all checks have passed
};
/// The word for it in the output, `verified`.
constexpr const char* word_of(Verification verification) {
  constexpr const char* words[] = {"false", "unchecked", "partly", "true"};
  return words[static_cast<std::size_t>(verification)];
}

/// The work of one repetition of all ranks, which rates are based on.
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

/// The outcome of a run: the same on every rank, except `resolved`.
struct Outcome {
  std::vector<Table> results;                                          ///< become /results/NAME
  std::vector<std::pair<std::string, io::AttributeValue>> attributes;  ///< of /results
  io::LabelledData labelled;                                           ///< in /results
  std::vector<InputAttribute> input;                                   ///< of /input and its groups
  /// The values of options that the program chose or rounded, by key, on this rank.
  std::vector<std::pair<std::string, io::AttributeValue>> resolved;
  std::vector<Metric> metrics;            ///< the lines of standard output
  measure::Samples samples;               ///< the timed repetitions
  std::uint64_t elements = 0, bytes = 0;  ///< processed in one repetition by all ranks
  Work work;
  std::vector<measure::Ceiling> ceilings;  ///< this machine's limits, measured in this run
  Verification verified = Verification::failed;
  std::string verdict;  ///< one sentence on what was verified, or what failed

  /// Gives each table of `results` a column `validated`. If a table has none, its rows are 1 if the
  /// whole result has passed its verification, and 0 otherwise.
  void add_validated();
  /// Marks the result and all its rows as failed. `why` is a sentence.
  void invalidate(const std::string& why);
};

/// Adds attributes to `group` of the input: the dimensions, and the selection if there is one.
void describe_dimensions(const io::Source& source, const std::string& group, Outcome& outcome);

/// A point of a weak scaling study: the options of a run with a multiple of the work.
struct Scaled {
  std::vector<std::pair<std::string, std::string>> options;  ///< the keys that change, and values
  /// The actual ratio of the work to the base's work; it is not exactly the requested factor,
  /// because sizes are whole numbers.
  double factor = 1;
};

/// Adds the number of files, the first and the last one to the attributes of `group`, if the data
/// set is joined from several files.
void describe_join(const io::Origin& origin, const std::string& group, Outcome& outcome);

/// Adds to the metrics and the attributes which dimensions were paired by position,
/// `WHAT_by_position`, and which have another order, `WHAT_reordered`.
void describe(const io::PairedDimensions& paired, const std::string& what, Outcome& outcome);

/// Multiplies the option `key`, a count, by `factor`. Throws UsageError on overflow.
Scaled scaled_count(const Options& options, std::string_view key, double factor);

/// Multiplies the extent of dimension `dimension` of input.shape, which is not empty, by `factor`.
/// Throws UsageError if there is no such dimension, or on overflow.
Scaled scaled_shape(const Options& options, std::size_t dimension, double factor);

/// Multiplies input.rows by `factor`, for data in a file. Throws UsageError if input.rows is auto,
/// since the whole file cannot grow.
Scaled scaled_rows(const Options& options, double factor);

/// An array of the result that all ranks write together as /results/NAME.
struct OutputArray {
  std::string name;
  ElementType type;
  std::vector<std::uint64_t> shape;  ///< row-major; empty for a scalar, at most 32 extents
  /// An upper bound of the bytes of Outcome::labelled. One of several outputs has it, the others
  /// have 0.
  std::uint64_t labelled_bytes;

  std::uint64_t bytes() const {
    return saturating_product(size_of(type), saturating_product(shape));
  }
};

/// The means for a resumable task to write a checkpoint and to resume from one.
struct Resume {
  io::Journal* journal;  ///< either all ranks begin it, or none (a run that repeats)
  /// The checkpoint of earlier runs, the same on all ranks, or null.
  const io::Checkpoint* earlier;
  /// Collective. The task calls it if there is an earlier checkpoint, after every rank has written
  /// the tiles that it takes over and added them to its journal. It syncs the result matrix and the
  /// journal to the disk, and then removes the files of the earlier runs. Throws AgreedError.
  std::function<void()> taken_over;
};

/// The files of a run that a task itself writes or resumes from. The caller of Task::run owns them.
/// `resume` is null either on all ranks or on none.
struct RunFiles {
  std::span<const io::RangeWriter> outputs = {};  ///< of Task::outputs(), in their order
  const Resume* resume = nullptr;                 ///< null if the task is not resumable
};

/// A limit of a planned run, with the time that a repetition would take if nothing else limited it.
struct PredictedLimit {
  std::string name;
  double seconds = 0;
};
/// The device memory that a rank of a planned run needs and may use, in bytes.
struct PredictedMemory {
  std::uint64_t needed = 0, limit = 0;
};
/// A value of an option with which a run is predicted to be clearly faster.
struct FasterChoice {
  std::string option, value;
  double seconds = 0;  ///< of a repetition
};
/// "--product.precision fp64-int8 would take about 6.2 s"
std::string words_of(const FasterChoice& choice);

/// The description of a task in a dry run. Lines have the form "name: words".
struct Prediction {
  std::vector<std::string> answer;    ///< the time with its bound, and the memory; shown first
  std::vector<std::string> plan;      ///< how the ranks do the work
  std::vector<std::string> warnings;  ///< such as ranks without work
  double seconds = 0;                 ///< the time of one repetition
  bool is_minimum = false;            ///< a repetition may take longer than `seconds`
  std::vector<PredictedLimit> limits = {};  ///< the one with the longest time binds the run
  std::optional<PredictedMemory> device_memory = {};
  std::optional<FasterChoice> faster = {};
  /// The checkpoints of a resumable task.
  struct Checkpoints {
    std::string_view unit;  ///< "super-tile": a checkpoint follows each of them
    std::uint64_t units = 0;
    std::uint64_t journal_bytes = 0;  ///< of all ranks together
    /// Describes how much of an earlier checkpoint this run would take over. Throws UsageError if
    /// the checkpoint belongs to another product.
    std::function<std::string(const io::Checkpoint& earlier)> kept;
  };
  std::optional<Checkpoints> checkpoints = {};
};

/// A workload with its inputs open. Not thread-safe.
class Task {
 public:
  Task() = default;
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  /// Every file that input bytes come from, and warnings about them. A result never replaces one of
  /// these files.
  virtual io::Origin inputs() const = 0;
  /// A description of the inputs, which must be the same on all ranks.
  virtual std::string identity() const = 0;
  virtual std::vector<OutputArray> outputs() const { return {}; }
  /// Whether a run of this task can write checkpoints from which a later run resumes.
  virtual bool resumable() const { return false; }
  /// The plan and its predicted time, without MPI and without a device. Throws UsageError for
  /// problems that would make run() throw AgreedError, as far as they can be found without running.
  virtual Prediction predict(measure::Machine& machine) const = 0;
  /// Collective. Throws AgreedError if the options are not possible on this machine, and Error if a
  /// rank's data cannot be read or written.
  virtual Outcome run(runtime::Runtime& runtime, const RunFiles& files) = 0;
};

struct Workload {
  std::string_view name;     ///< the value of run.workload
  std::string_view summary;  ///< a few words for --help
  std::string_view example;  ///< options of an example `shardstream run NAME ...` for --help
  /// The rows of its own sections, and of sections that it shares with other workloads.
  std::vector<std::span<const OptionRow>> options;
  /// Keys of common sections that it honours although not every workload does.
  std::vector<std::string_view> honours;
  /// Whether it has or honours the option `key`.
  bool takes(std::string_view key) const;
  std::vector<std::string_view> data;   ///< the keys that name its data sets
  std::vector<std::string_view> sizes;  ///< the keys that set the size of generated data
  /// Opens the inputs. `options` must outlive the task. Throws UsageError.
  std::unique_ptr<Task> (*open)(const Options& options);
  /// The sizes that weak scaling can increase, one word each; the first is the default.
  std::vector<std::string_view> grows;
  /// A problem with `factor` times the work of `options`, in which the size `grow`, one of `grows`,
  /// is increased. Throws UsageError with the reason if that is not possible.
  Scaled (*scaled)(const Options& options, double factor, std::string_view grow);
};

}  // namespace shardstream::workloads
