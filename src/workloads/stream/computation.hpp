// The interface of a workload that streams one source. Everything else that such a workload needs
// is in this folder.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/shard.hpp"
#include "device/device.hpp"
#include "io/description/origin.hpp"
#include "io/output/dataset_file.hpp"
#include "io/source/source.hpp"
#include "kernels/data/generate.hpp"
#include "pipeline/feed.hpp"
#include "pipeline/stream_limits.hpp"
#include "runtime/runtime.hpp"
#include "workloads/stream/samples.hpp"
#include "workloads/workload.hpp"

namespace shardstream::workloads::stream {

/// The bits of a result, to compare repetitions. All NaNs count as equal.
class Digest {
 public:
  /// A number of any type, of 16 bytes or less.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void add(T value) {
    if constexpr (std::floating_point<T>) {
      if (value != value) value = std::numeric_limits<T>::quiet_NaN();
    }
    std::uint64_t words[2] = {};
    static_assert(sizeof value <= sizeof words);
    std::memcpy(words, &value, sizeof value);
    for (const std::uint64_t word : words) state_ = mix(state_ ^ word);
  }
  bool operator==(const Digest&) const = default;

 private:
  std::uint64_t state_ = 0;
};

/// The division of all elements into the shards of the ranks. It decides which elements a rank has:
/// a computation that needs the shards of other ranks takes them from here.
struct Shards {
  std::uint64_t elements, unit, ranks;

  Range of(std::uint64_t rank) const { return shard(elements, unit, rank, ranks); }
};

/// The part of one rank in a run. The kit owns everything, and it outlives the computation's use.
struct ShardContext {
  runtime::Runtime& runtime;
  Shards shards;                             ///< of all ranks
  Range shard;                               ///< the elements of this rank
  const pipeline::Sizes& sizes;              ///< of the batches
  pipeline::Feed& feed;                      ///< its batches, and the compute stream
  const SampledRanges& samples;              ///< their elements are known after a pass
  std::span<const io::RangeWriter> outputs;  ///< of Computation::outputs(), in their order
};

/// The step after a pass over the data.
enum class Next { done, another_pass };

/// Runs one more pass and combines its results, in a phase of this name. Collective.
using ExtraPass = std::function<void(const char* phase)>;

/// The checks of the kit.
struct Checks {
  bool repeatable;        ///< all repetitions have the same bits
  std::uint64_t samples;  ///< number of sampled ranges of all ranks
  std::uint64_t missing;  ///< number of missing values of all ranks
};

/// One rank's part of a computation on all elements of a source. It is created for the element type
/// when the source is open. The first functions are also called in a dry run, without MPI and
/// without a device. A run calls the others in this order: allocate(); connect(); for each
/// repetition, for each pass, begin_pass(), enqueue() for each batch, end_pass(), combine();
/// conclude(); report().
class Computation {
 public:
  virtual ~Computation() = default;

  /// Announces the shards of all ranks, the device memory that the batches of each of them leave at
  /// least, and the elements that a batch has at most. Called before the others, besides
  /// shard_unit() and device_state({}). Throws UsageError if the memory is too small for any plan.
  virtual void plan(const pipeline::BatchMemory& /*memory*/, const Shards& /*shards*/) {}
  /// The device memory that it needs for a shard besides the batches, and the unit in which the
  /// data is divided, which must not depend on the shard.
  virtual pipeline::DeviceState device_state(Range shard) const = 0;
  /// Shards are multiples of this number of elements, which is a multiple of the unit. In a
  /// composite, they may be multiples of a larger number.
  virtual std::uint64_t shard_unit() const { return device_state({}).unit; }
  /// The word for several units of shards: "leaves". Empty if any element may begin a shard.
  virtual std::string_view unit_word() const { return {}; }
  /// The number of passes over the data of a repetition, as far as it is known before the run.
  virtual std::uint64_t passes() const { return 1; }
  /// The number of sampled ranges of a shard, if the state of a range is so large that all of them
  /// would take much memory.
  virtual std::uint64_t max_samples() const { return SampledRanges::max; }
  /// The word for several sampled ranges.
  virtual std::string_view sample_word() const {
    return unit_word().empty() ? "ranges" : unit_word();
  }
  /// The checks besides the samples, if report() has passed all of them: the end of a sentence,
  /// ", and ..."; may be empty.
  virtual std::string coverage() const { return {}; }
  /// Lines of a dry run, "name: words", on its own work.
  virtual std::vector<std::string> description() const { return {}; }
  /// The files of further inputs, such as weights.
  virtual io::Origin further_inputs() const { return {}; }
  /// A description of further inputs, which must be the same on all ranks; empty if there are none.
  virtual std::string identity() const { return {}; }
  /// The arrays of the result that the ranks write with ShardContext::outputs. All elements are
  /// written by some rank before report() returns; the kit syncs them. Their dimensions and
  /// attributes become a part of Outcome::labelled in report().
  virtual std::vector<OutputArray> outputs() const { return {}; }

  /// Allocates the state. Not collective. `context` stays valid.
  virtual void allocate(const ShardContext& context) = 0;
  /// Connects the ranks for its collectives (Communicator::connect), before timing begins.
  /// Collective.
  virtual void connect() {}
  /// Enqueues work before the first batch, such as clearing the state. Collective.
  virtual void begin_pass(device::Stream&) {}
  /// Enqueues the work on a batch. The data stays valid until the work is done. Parts of sampled
  /// ranges in the batch are found with SampledRanges::visit(batch.elements, ...).
  virtual void enqueue(device::Stream& compute, const pipeline::Batch& batch) = 0;
  /// Enqueues work after the last batch, such as downloads. The kit then waits for it.
  virtual void end_pass(device::Stream&) {}
  /// Combines the states of all ranks, in an order that does not depend on the number of ranks, and
  /// keeps the result on the host of every rank. Returns when the result is known. Collective; the
  /// answer is the same on all ranks.
  virtual Next combine(device::Stream& compute) = 0;
  /// Adds all bits of the result of the last repetition. Not timed.
  virtual void add_result(Digest& digest) const = 0;
  /// Called after the repetitions. It may run further passes, and throw AgreedError for data that
  /// has no result. Collective.
  virtual void conclude(const ExtraPass&) {}
  /// Compares the sampled ranges with a reference, and fills in `results`, `attributes`, `metrics`,
  /// `verified` and, unless all checks have passed, `verdict`. If !checks.repeatable, the verdict
  /// is set already, and nothing may be verified. Collective.
  virtual void report(const Checks& checks, Outcome& outcome) = 0;
  /// The largest element of this rank's results, or NaN if they do not show it. After report().
  virtual double largest() const { return std::numeric_limits<double>::quiet_NaN(); }
};

}  // namespace shardstream::workloads::stream
