// Brings a rank's shard to its kernels: source -> readers -> staging ring -> batches -> on_batch.
// Knows elements and where the modes keep them; the schedule is UploadRing's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"
#include "io/source/source.hpp"
#include "launch/heartbeat.hpp"
#include "measure/track.hpp"
#include "pipeline/options.hpp"
#include "pipeline/upload_ring.hpp"

namespace shardstream::pipeline {

/// What a kernel gets: elements of the shard that stand in device memory.
struct Batch {
  std::uint64_t number;  ///< 0, 1, 2, ... in the shard
  Range elements;        ///< global indices
  const std::byte* data;
};

/// Allocates its rings once; run() may be repeated. The source, the device, the recorder and
/// the heartbeat must outlive it. It writes to the tracks "reader 0", "reader 1", ..., "upload" and
/// "compute": one feed of a recorder runs at a time.
class Feed {
 public:
  /// Called by the thread of run(), in the order of the batches: enqueues work on `compute` that
  /// reads the batch; the batch is valid until that work is done.
  using OnBatch = std::function<void(device::Stream& compute, const Batch& batch)>;
  /// Called by reader threads, several at once, with elements as they came from the source.
  using OnRead = std::function<void(Range elements, const std::byte* data)>;

  Feed(device::Device& device, measure::Recorder& recorder, const io::Source& source, Range shard,
       const Sizes& sizes, launch::Heartbeat* heartbeat = nullptr);

  /// Brings the data to where the mode wants it before timing starts; nothing to do for `stream`.
  void load(const OnRead& on_read);

  /// All batches of the shard, in order. When it returns all has been enqueued on compute() and the
  /// source has been read; the caller synchronises compute().
  void run(const OnBatch& on_batch, const OnRead& on_read);

  device::Stream& compute() { return ring_.compute(); }

  std::uint64_t batches() const { return ceil_div(shard_.count, sizes_.batch); }
  /// The elements of batch `number`.
  Range batch(std::uint64_t number) const;

 private:
  /// Returns where in the slot the elements begin.
  using Read = std::function<const std::byte*(Range elements, std::byte* slot)>;

  /// Part `number` of all that goes through the slots: slots do not cross batches.
  Range piece(std::uint64_t number) const;
  std::uint64_t pieces_a_batch() const { return ceil_div(sizes_.batch, sizes_.slot); }
  std::uint64_t pieces() const;

  /// Reads and tells `on_read`, which must outlive the result.
  Read from_source(const OnRead& on_read) const;
  void load_host_memory(const OnRead& on_read);
  /// Through the slots.
  void stage(const ReaderPhase& reading, const Read& read, const UploadRing::OnBatch& on_batch);
  void upload_loaded(const UploadRing::OnBatch& on_batch);
  void run_where_it_is(const UploadRing::OnBatch& on_batch);
  std::byte* loaded_data(Range elements) const;
  void tell(const char* what, std::uint64_t number);

  const io::Source& source_;
  Range shard_;
  Sizes sizes_;
  std::uint64_t element_;
  launch::Heartbeat* heartbeat_;
  device::Buffer<std::byte> loaded_;  // the shard, in the modes of host_memory()
  UploadRing ring_;                   // in mode resident with room for every batch
};

}  // namespace shardstream::pipeline
