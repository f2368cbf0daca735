// From host memory to kernels through two rings: readers -> slots -> batches -> on_batch. It knows
// bytes, pieces and batches, not what they mean. The one schedule of uploads and kernels, for every
// backend and every workload.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "launch/heartbeat.hpp"
#include "measure/track.hpp"
#include "pipeline/crew.hpp"

namespace shardstream::pipeline {

/// The first ring: brings numbered pieces through small pinned slots. Each reader thread has slots
/// of its own; it fills one, enqueues its upload itself, and fills it again once that upload is
/// done. A single thread that enqueued for all would have to be woken for every piece, which costs
/// as much as a small piece's copy. The slots are allocated once; start() may be called
/// again after finish().
class Staging {
 public:
  /// Fills `slot` with piece number `piece` and returns where in the slot the data begin; called by
  /// the reader threads, several at once, each with its own track.
  using Read = std::function<const std::byte*(std::uint64_t piece, std::byte* slot,
                                              measure::HostTrack& reader)>;
  /// Enqueues the upload of the piece's data and records `emptied` behind it; called by the reader
  /// that has read the piece. Returns at once, whatever else it waits for, when `stop` is
  /// requested.
  using Upload =
      std::function<void(std::uint64_t piece, const std::byte* data, device::Event& emptied,
                         measure::HostTrack& reader, const std::stop_token& stop)>;

  /// The readers' tracks are "reader 0", "reader 1", ...; there are at least as many slots as
  /// readers.
  Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
          std::uint64_t slots, unsigned readers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Starts the readers on pieces 0..pieces-1, which they take in that order.
  void start(std::uint64_t pieces, Read read, Upload upload);
  /// Requested when a reader has thrown or finish() is called.
  std::stop_token stopping() const { return stop_.get_token(); }
  /// Throws what a reader has thrown, if one has.
  void rethrow();
  /// Waits for the readers, which take no more pieces. Throws nothing.
  void finish() noexcept;

 private:
  void read_pieces(unsigned reader);

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<std::unique_ptr<device::Event>> emptied_;  // one a slot, behind its last upload
  std::vector<measure::HostTrack*> tracks_;

  std::uint64_t pieces_ = 0;
  Read read_;
  Upload upload_;
  std::atomic<std::uint64_t> next_ = 0;
  std::stop_source stop_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  Crew crew_;  // last: its threads, the readers, use the rest
};

/// Where one upload goes: `bytes` > 0 of them, `offset` bytes behind the start of its batch; in as
/// many equal rows as it has, each `apart` bytes behind the one before.
struct Piece {
  std::uint64_t batch;
  std::size_t offset, bytes;
  std::size_t rows = 1, apart = 0;

  /// Bytes from its first place to behind its last one.
  std::size_t extent() const { return (rows - 1) * apart + bytes / rows; }
};

/// The phase of the readers' tracks.
struct ReaderPhase {
  const char* name;
  measure::Kind kind;
};
inline constexpr ReaderPhase reads{"read", measure::Kind::useful};
/// From host memory that holds the data already.
inline constexpr ReaderPhase copies{"copy", measure::Kind::transfer};

/// What an UploadRing allocates, once.
struct RingSizes {
  std::size_t slot_bytes = 0;  ///< pinned; the largest piece or more, as `read` needs
  std::uint64_t slots = 0;
  unsigned readers = 0;  ///< none: pieces are uploaded from where they are, and there are no slots
  std::size_t batch_bytes = 0;  ///< device memory of one batch
  std::uint64_t batches = 0;
  bool arrivals = false;  ///< whether there is a stage between uploads and compute
};

/// Allocates its rings once; run() may be repeated. The device, the recorder and the heartbeat must
/// outlive it. It writes to the tracks "reader 0", "reader 1", ..., "upload", "arrive" (with
/// arrivals) and "compute": one ring of a recorder runs at a time.
class UploadRing {
 public:
  /// Enqueues work on a stream for the batch that stands at `data`.
  using OnArrival =
      std::function<void(device::Stream& arrive, std::uint64_t batch, std::byte* data)>;
  using OnBatch =
      std::function<void(device::Stream& compute, std::uint64_t batch, const std::byte* data)>;

  struct Work {
    std::uint64_t batches = 0;
    std::uint64_t pieces = 0;
    /// Piece `number`; their batches never fall. A batch may have none. Cheap and thread-safe.
    std::function<Piece(std::uint64_t number)> piece;
    ReaderPhase reading = reads;  ///< what the readers do
    /// Brings a piece into `slot` and returns where in the slot it begins; called by readers,
    /// several at once. Without readers `slot` is null, the caller of run() calls it, and what it
    /// returns must stay until the batch's work on compute() is done. It may use all of the slot,
    /// also more than the piece's bytes, which are what is uploaded.
    std::function<const std::byte*(std::uint64_t piece, std::byte* slot)> read;
    measure::Kind arrival = measure::Kind::useful;  ///< of on_arrival's work
    /// Goes with `arrivals`: its work comes after the batch's uploads and before on_batch's, on a
    /// stream of its own, and may write to the batch.
    OnArrival on_arrival;
    /// Its work may read the batch, and those before that are still in use. None: nothing is
    /// computed.
    OnBatch on_batch;
    /// The batch whose on_batch is the last to enqueue work that uses this batch: itself, or one
    /// that is less than RingSizes::batches behind it. None: itself. Batches leave in their order.
    std::function<std::uint64_t(std::uint64_t batch)> last_use = nullptr;
    /// Called by the thread of run(), again and again while it waits for the readers of a batch, or
    /// for what on_arrival has enqueued: may give run_kernels() work of those before it. False:
    /// there is none until that batch is there.
    std::function<bool()> meanwhile = nullptr;
  };

  UploadRing(device::Device& device, measure::Recorder& recorder, const RingSizes& sizes,
             launch::Heartbeat* heartbeat = nullptr);
  /// Waits for its streams, whose work may use memory of the callers.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  /// All batches, in order; on_arrival and on_batch are called by this thread. When it returns all
  /// has been enqueued on compute() and all has been read; the caller synchronises compute().
  /// Throws what any of the functions throws; then the ring is of no more use.
  void run(const Work& work);

  /// Only the kernels, for a batch that is on the device already: `bytes` at `data`. By the thread
  /// of run(), or without one.
  void run_kernels(std::uint64_t batch, const std::byte* data, std::size_t bytes,
                   const OnBatch& on_batch);

  device::Stream& compute() { return *compute_; }
  device::Stream& arrivals() { return *arrive_; }  ///< of on_arrival, only with these
  /// Where batch `number` stands, or stood.
  std::byte* data(std::uint64_t number) { return buffer(number).memory.data(); }

 private:
  /// Room for one batch. `filled` is behind its last upload, `arrived` behind on_arrival's work,
  /// `free` behind the last kernels that use it.
  struct BatchBuffer {
    device::Buffer<std::byte> memory;
    std::unique_ptr<device::Event> filled, arrived, free;
    std::size_t bytes = 0;    ///< of its batch, in all
    std::size_t missing = 0;  ///< bytes of its batch whose upload is not enqueued yet
  };
  BatchBuffer& buffer(std::uint64_t batch) { return buffers_[batch % buffers_.size()]; }

  void start_readers();
  void upload_piece(std::uint64_t number, const std::byte* data, device::Event& emptied,
                    measure::HostTrack& reader, const std::stop_token& stop);
  void await_uploads(std::uint64_t batch);
  void pass_time(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until);
  void upload_next();
  bool next_is_empty() const;
  void open_next();
  void upload(const Piece& piece, const std::byte* data);
  bool count_in(const Piece& piece);
  void filled(std::uint64_t batch);
  void arrive_batch(std::uint64_t batch);
  void compute_batch(std::uint64_t batch);
  void release_batches(std::uint64_t computed);
  std::uint64_t last_use(std::uint64_t batch) const;

  RingSizes sizes_;
  launch::Heartbeat* heartbeat_;
  std::vector<BatchBuffer> buffers_;
  std::unique_ptr<Staging> staging_;  // none without readers
  measure::HostTrack& main_track_;
  measure::DeviceTrack& upload_track_;
  measure::DeviceTrack* arrive_track_;  // none without arrivals
  measure::DeviceTrack& compute_track_;
  std::unique_ptr<device::Stream> upload_, compute_;
  std::unique_ptr<device::Stream> arrive_;  // none without arrivals
  const Work* work_ = nullptr;              // of the run() under way

  // Readers enqueue uploads and the thread of run() all else. The lock is held by whoever gives
  // work to the upload stream or its track, and guards what follows and the buffers' counts.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t opened_ = 0;                ///< batches that uploads have begun for
  std::uint64_t released_ = 0;              ///< batches whose last use is enqueued
  std::uint64_t next_piece_ = 0;            ///< the first one of no opened batch
  std::optional<std::uint64_t> uploading_;  ///< the batch whose span on the upload track is open
};

}  // namespace shardstream::pipeline
