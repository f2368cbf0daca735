// The starts that the experiment `startup` measures: the stages of each one, its settings, and the
// sentences that follow from the times. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/statistics.hpp"

namespace shardstream::experiments::machine {

/// A stage of the start of a process, in their order.
enum class Stage { process, mpi, driver, context, modules, kernel, communicator };
inline constexpr std::array<std::string_view, 7> stage_words = {
    "process", "mpi", "driver", "context", "modules", "kernel", "communicator"};
constexpr std::string_view word_of(Stage stage) {
  return stage_words[static_cast<std::size_t>(stage)];
}
/// Throws Error for any other word.
Stage stage_named(std::string_view word);

/// The settings of a start, and what it is compared with.
struct Start {
  std::string_view part;     ///< of a start: "all", "MPI", "GPU" or "NCCL"
  std::string_view setting;  ///< unique within the part
  /// The setting of the same part that it is compared with; empty if there is none.
  std::string_view compared_with = {};
  std::vector<std::string> environment = {};  ///< NAME=value
  bool in_quick = false;                      ///< whether --quick measures it, too
  bool own_gpu_only = false;                  ///< CUDA shows only the GPU of the rank
  bool cached = false;                        ///< with a JIT cache that an earlier start has filled
};

/// The machine of the starts.
struct StartFacts {
  bool has_open_mpi, has_gpu, has_nccl;
  int visible_gpus;
};

/// The starts that are possible there, in the order of the table. A start follows the one that it
/// is compared with.
std::vector<Start> possible_starts(const StartFacts& facts, bool quick);

/// The stages of a start, from `process` on. Without a GPU, there are no later ones than `mpi`.
std::vector<Stage> stages_of(const Start& start, const StartFacts& facts);

/// Whether `start`, one of `starts`, equals the start that it is compared with, since `environment`
/// (NAME=value) already has its settings.
bool changes_nothing(const Start& start, const std::vector<Start>& starts,
                     std::vector<std::string> environment);

/// Milliseconds of each stage; NaN for a stage that was not measured.
using StageTimes = std::array<double, stage_words.size()>;
/// The times of `stages`, the first of which is `process`. All numbers are nanoseconds of the same
/// clock: `begin` before the process was requested, in `answer` the time at which its code ran,
/// and the times before and after each stage.
StageTimes times_of(std::uint64_t begin, const std::vector<Stage>& stages,
                    const std::vector<std::uint64_t>& answer);
/// The median of each stage over several processes.
StageTimes medians(const std::vector<StageTimes>& processes);
double total(const StageTimes& times);

/// "saves 120 ms of 480 ms (eager loading)": `own` against the start with the setting `other_name`,
/// in milliseconds. There is no difference if the ranges of the processes overlap, or if the
/// medians differ by less than 3 %.
std::string words_on_saving(const Summary& own, const Summary& other, std::string_view other_name);
/// "most of it: context, 45 %".
std::string words_on_longest(const StageTimes& times);
/// The consequence of a start of `milliseconds` by Amdahl's law, as a sentence.
std::string words_on_serial_part(double milliseconds);
/// A sentence on persistence mode: "on", "off", or empty if it is unknown.
std::string words_on_persistence(std::string_view mode);

}  // namespace shardstream::experiments::machine
