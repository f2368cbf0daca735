// Brings a rank's shard to its kernels: source -> readers -> staging ring -> batches -> on_batch.
// The one schedule of uploads and kernels, for every backend and every mode.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"
#include "io/source.hpp"
#include "launch/heartbeat.hpp"
#include "measure/recorder.hpp"
#include "pipeline/options.hpp"
#include "pipeline/staging.hpp"

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
  ~Feed();

  /// Brings the data to where the mode wants it before timing starts; nothing to do for `stream`.
  void load(const OnRead& on_read);

  /// All batches of the shard, in order. When it returns all has been enqueued on compute() and the
  /// source has been read; the caller synchronises compute().
  void run(const OnBatch& on_batch, const OnRead& on_read);

  device::Stream& compute() { return *compute_; }

  std::uint64_t batches() const { return ceil_div(shard_.count, sizes_.batch); }
  /// The elements of batch `number`.
  Range batch(std::uint64_t number) const;

 private:
  /// Room for one batch. `filled` is behind its last upload, `free` behind its kernels.
  struct BatchBuffer {
    device::Buffer<std::byte> memory;
    std::unique_ptr<device::Event> filled, free;
    std::uint64_t missing = 0;  ///< elements of its batch whose upload is not enqueued yet
  };
  /// Returns where in the slot the elements begin.
  using Read = std::function<const std::byte*(Range elements, std::byte* slot)>;

  /// Part `number` of all that goes through the slots: slots do not cross batches.
  Range piece(std::uint64_t number) const;
  std::uint64_t pieces_a_batch() const { return ceil_div(sizes_.batch, sizes_.slot); }
  std::uint64_t pieces() const;
  std::int64_t in_batch(std::uint64_t piece) const;  ///< the number of the piece's batch
  BatchBuffer& buffer(std::uint64_t batch) { return buffers_[batch % buffers_.size()]; }

  /// Reads and tells `on_read`, which must outlive the result.
  Read from_source(const OnRead& on_read) const;
  void load_host_memory(const OnRead& on_read);
  /// `phase` is what the readers' reading is called.
  void stage(const char* phase, const Read& read, const OnBatch& on_batch);
  void upload_piece(std::uint64_t number, const std::byte* data, device::Event& emptied,
                    measure::HostTrack& reader, const std::stop_token& stop);
  void await_uploads(std::uint64_t batch);
  void upload_pinned(const OnBatch& on_batch);
  std::byte* loaded_data(Range elements) const;
  void open(std::uint64_t batch);
  void filled(std::uint64_t batch);
  void compute_batch(std::uint64_t batch, const OnBatch& on_batch);
  void enqueue_kernels(std::uint64_t batch, const OnBatch& on_batch);
  void tell(const char* what, std::uint64_t number);

  const io::Source& source_;
  Range shard_;
  Sizes sizes_;
  std::uint64_t element_;
  launch::Heartbeat* heartbeat_;

  device::Buffer<std::byte> loaded_;  // the shard, in the modes of host_memory()
  std::vector<BatchBuffer> buffers_;  // in mode resident one for every batch
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<device::Stream> upload_, compute_;
  measure::HostTrack& main_track_;
  measure::DeviceTrack &upload_track_, &compute_track_;

  // Readers enqueue uploads and the thread of run() kernels. The lock is held by whoever gives work
  // to the upload stream or its track, and guards what follows and the buffers' `missing`.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t opened_ = 0, computed_ = 0;  ///< batches: begun to upload; kernels enqueued
  std::optional<std::uint64_t> uploading_;   ///< the batch whose span on the upload track is open
};

}  // namespace shardstream::pipeline
