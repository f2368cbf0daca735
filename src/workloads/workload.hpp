// All that the rest of the program knows of a workload. A workload is a folder beside this file
// with a function that returns its Workload, and a line in registry.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.hpp"
#include "io/checkpoint.hpp"
#include "io/dataset_file.hpp"
#include "io/origin.hpp"
#include "kernels/data/element.hpp"
#include "measure/machine.hpp"
#include "runtime/runtime.hpp"
#include "workloads/outcome.hpp"
#include "workloads/scaled.hpp"

namespace shardstream::workloads {

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
