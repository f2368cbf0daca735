// Moves a rank's shard to its kernels: source -> readers -> slots -> batches -> on_batch. Feed
// knows elements, their conversion, and their place in each pipeline.mode. UploadRing has the
// schedule.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "core/shard.hpp"
#include "device/buffer.hpp"
#include "device/device.hpp"
#include "io/source/source.hpp"
#include "measure/track.hpp"
#include "pipeline/stream_limits.hpp"
#include "pipeline/upload_ring.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::pipeline {

/// Elements of the shard for a kernel, in device memory (or in mapped host memory).
struct Batch {
  std::uint64_t number;  ///< within the shard, from 0
  Range elements;        ///< indices in the order of the source (io::ElementOrder)
  const std::byte* data;
};

/// Allocates its rings once; run() may be repeated. The source, the device, the recorder and the
/// heartbeat must outlive it. It writes to the tracks "reader 0", "reader 1", ..., "upload" and
/// "compute", so only one feed of a recorder may run at a time.
class Feed {
 public:
  /// Enqueues work on `compute` that reads the batch. The batch stays valid until that work is
  /// done. The thread of run() calls it, in the order of the batches.
  using OnBatch = std::function<void(device::Stream& compute, const Batch& batch)>;
  /// Gets elements that a reader has read from the source, as they are stored. Several reader
  /// threads may call it at a time.
  using OnRead = std::function<void(Range elements, const std::byte* data)>;

  Feed(device::Device& device, measure::Recorder& recorder, const io::Source& source, Range shard,
       const Sizes& sizes, ranks::Heartbeat* heartbeat = nullptr);

  /// Loads the data to its place for the mode, as elements or, in host memory of a device that
  /// converts, as they are stored. Call it before timing starts. Does nothing for `stream`.
  void load(const OnRead& on_read);

  /// Processes all batches of the shard in order. When it returns, the source has been read and all
  /// work is enqueued on compute(). The caller synchronises compute().
  void run(const OnBatch& on_batch, const OnRead& on_read);

  device::Stream& compute() { return ring_.compute(); }

  /// Writes elements of the shard to `out`, apart from a run(). They come from host memory after
  /// load(), if the mode keeps them there and hosts read it fast, otherwise from the source.
  /// Thread-safe. Throws like Source::read().
  void read(Range elements, std::byte* out) const;

  /// The elements of batch `number` after load(), if they are where kernels read them; otherwise
  /// null.
  const std::byte* in_place(std::uint64_t number);

  /// The number of missing values of the shard, after a run() and all work on compute().
  std::uint64_t missing() const;

  std::uint64_t batches() const { return ceil_div(shard_.count, sizes_.batch); }
  /// The elements of batch `number`.
  Range batch(std::uint64_t number) const;

 private:
  /// Reads elements into `slot` and returns the address at which they begin.
  using Read = std::function<const std::byte*(Range elements, std::byte* slot)>;

  /// The elements that go through a slot as piece `number`. Pieces do not cross batches.
  Range piece(std::uint64_t number) const;
  std::uint64_t pieces_per_batch() const { return ceil_div(sizes_.batch, sizes_.slot); }
  std::uint64_t pieces() const;

  /// A function that reads from the source, calls `on_read`, which must outlive it, and converts if
  /// readers do so.
  Read from_source(const OnRead& on_read);
  /// Calls on_batch for the bytes of the ring, after their conversion on the device if there is
  /// one. Without on_batch it only converts.
  UploadRing::OnBatch converted(const OnBatch& on_batch);
  void convert_on_device(device::Stream& compute, Range elements, const std::byte* stored);
  void load_host_memory(const OnRead& on_read);
  void load_piece(Range elements, std::byte* to, const OnRead& on_read);
  /// Uploads all pieces through the slots.
  void stage(const ReaderPhase& reader_phase, const Read& read,
             const UploadRing::OnBatch& on_batch);
  void upload_loaded(const UploadRing::OnBatch& on_batch);
  void run_in_place(const UploadRing::OnBatch& on_batch);
  bool converts_on_device() const { return sizes_.of.converter == Converter::device; }
  void begin_count();
  std::byte* loaded_data(Range elements) const;
  std::byte* converted_data(Range elements) const;
  const std::byte* data_in_place(std::uint64_t number);
  void report_step(const char* what, std::uint64_t number);

  const io::Source& source_;
  Range shard_;
  Sizes sizes_;
  std::uint64_t moved_;  // bytes of an element in slots and in the ring
  ranks::Heartbeat* heartbeat_;
  device::Buffer<std::byte> loaded_;     // the shard, in modes with host_memory()
  device::Buffer<std::byte> converted_;  // Sizes::converted elements
  std::atomic<std::uint64_t> missing_by_readers_ = 0;
  device::Buffer<std::uint64_t> missing_on_device_, downloaded_missing_, zero_;
  UploadRing ring_;  // has space for all batches in mode resident
};

}  // namespace shardstream::pipeline
