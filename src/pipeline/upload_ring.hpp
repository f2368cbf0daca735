// The schedule of uploads and kernels for every backend and every workload. Data goes through two
// rings: readers -> slots -> batches -> on_batch. The rings know bytes, pieces and batches, but not
// their meaning.
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
#include "measure/track.hpp"
#include "pipeline/crew.hpp"
#include "ranks/heartbeat.hpp"

namespace shardstream::pipeline {

/// The first ring: moves numbered pieces through small pinned slots. Each reader thread has its own
/// slots. A reader fills a slot, enqueues the upload itself, and fills the slot again after that
/// upload is done. If one thread enqueued for all readers, it would have to be woken for every
/// piece, which costs as much as copying a small piece. The slots are allocated once; start() may
/// be called again after finish().
class Staging {
 public:
  /// Fills `slot` with piece number `piece` and returns the address at which the data begins.
  /// Called by several reader threads at a time, each with its own track.
  using Read = std::function<const std::byte*(std::uint64_t piece, std::byte* slot,
                                              measure::HostTrack& reader)>;
  /// Enqueues the upload of the piece's data and records `emptied` after it. The reader that has
  /// read the piece calls it. It must return at once when `stop` is requested.
  using Upload =
      std::function<void(std::uint64_t piece, const std::byte* data, device::Event& emptied,
                         measure::HostTrack& reader, const std::stop_token& stop)>;

  /// The tracks of the readers are "reader 0", "reader 1", ... There must be at least as many slots
  /// as readers.
  Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
          std::uint64_t slots, unsigned readers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Starts the readers, which take pieces 0..pieces-1 in this order.
  void start(std::uint64_t pieces, Read read, Upload upload);
  /// Stop is requested when a reader has thrown or finish() is called.
  std::stop_token stopping() const { return stop_.get_token(); }
  /// Rethrows the exception of a reader, if there is one.
  void rethrow();
  /// Stops the readers after their current pieces, and waits for them.
  void finish() noexcept;

 private:
  void read_pieces(unsigned reader);

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<std::unique_ptr<device::Event>> emptied_;  // for each slot, after its last upload
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

/// The size and the destination of one upload: `bytes` > 0 bytes go to `offset` bytes after the
/// start of a batch. They are divided into `rows` equal rows with a pitch of `pitch` bytes.
struct UploadPiece {
  std::uint64_t batch;
  std::size_t offset, bytes;
  std::size_t rows = 1, pitch = 0;

  /// The number of bytes from the begin of the first row to the end of the last one.
  std::size_t extent() const { return (rows - 1) * pitch + bytes / rows; }
};

/// The phase of a piece on a reader's track.
struct ReaderPhase {
  const char* name;
  measure::PhaseKind kind;
};
inline constexpr ReaderPhase reads{"read", measure::PhaseKind::useful};
/// For data that is already in host memory.
inline constexpr ReaderPhase copies{"copy", measure::PhaseKind::transfer};

/// The sizes that an UploadRing allocates.
struct RingSizes {
  /// Pinned memory of a slot: at least the largest piece, and more if Job::read() needs it.
  std::size_t slot_bytes = 0;
  std::uint64_t slots = 0;
  /// If it is 0, there are no slots, and pieces are uploaded from the caller's memory.
  unsigned readers = 0;
  std::size_t batch_bytes = 0;  ///< device memory of one batch
  std::uint64_t batches = 0;    ///< number of batches in device memory
  bool arrivals = false;        ///< whether there is a stage between uploads and kernels
};

/// Both rings. Allocates them once; run() may be repeated. The device, the recorder and the
/// heartbeat must outlive it. It writes to the tracks "reader 0", "reader 1", ..., "upload",
/// "arrive" (with arrivals) and "compute", so only one UploadRing of a recorder may run at a time.
class UploadRing {
 public:
  /// Enqueues work on a stream for the batch at device address `data`.
  using OnArrival =
      std::function<void(device::Stream& arrive, std::uint64_t batch, std::byte* data)>;
  using OnBatch =
      std::function<void(device::Stream& compute, std::uint64_t batch, const std::byte* data)>;

  /// The batches of one run(), and the functions that process them.
  struct Job {
    std::uint64_t batches = 0;
    std::uint64_t pieces = 0;
    /// Returns piece `number`. Pieces are in the order of their batches; a batch may have none.
    /// Must be cheap and thread-safe.
    std::function<UploadPiece(std::uint64_t number)> piece;
    ReaderPhase reader_phase = reads;
    /// Reads a piece into `slot` and returns the address at which the bytes to upload begin. It may
    /// use the whole slot. Called by several readers at a time. Without readers, the thread of
    /// run() calls it with a null slot, for all batches whose buffers have been released, and the
    /// memory that it returns must stay unchanged until the batch's work on compute() is done.
    std::function<const std::byte*(std::uint64_t piece, std::byte* slot)> read;
    measure::PhaseKind arrival = measure::PhaseKind::useful;  ///< the kind of on_arrival's work
    /// Enqueues work on a separate stream, after the uploads of the batch and before the work of
    /// on_batch. The work may write to the batch. It is set if and only if RingSizes::arrivals is.
    OnArrival on_arrival;
    /// Enqueues work that may read this batch, and earlier batches whose last_use() has not passed.
    /// If it is not set, nothing is computed.
    OnBatch on_batch;
    /// Returns the last batch b for which on_batch(b) uses `batch`. Required: b is below `batches`,
    /// batch <= b < batch + RingSizes::batches, and b does not decrease from one batch to the next.
    /// If the function is not set, only on_batch(batch) uses `batch`.
    std::function<std::uint64_t(std::uint64_t batch)> last_use = nullptr;
    /// If this function is set, the thread of run() waits twice for each batch: for its readers,
    /// and for the work of on_arrival. During both waits it calls the function repeatedly, which
    /// may call run_kernels() for earlier batches. If the function returns false, it is not called
    /// again during that wait. The wait for the readers then continues; that for on_arrival ends.
    std::function<bool()> meanwhile = nullptr;
  };

  UploadRing(device::Device& device, measure::Recorder& recorder, const RingSizes& sizes,
             ranks::Heartbeat* heartbeat = nullptr);
  /// Waits for its streams, since their work may use memory of the caller.
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;

  /// Processes all batches in order. The calling thread calls on_arrival and on_batch. When run()
  /// returns, everything has been read, and all work is enqueued on compute(). The caller
  /// synchronises compute(). Exceptions of the functions are passed on; then the ring must not be
  /// used again.
  void run(const Job& job);

  /// Calls `on_batch` for `bytes` bytes at `data`, which kernels can read. The ring does not read
  /// them, so they may be null and 0 if `on_batch` does not need them. Call it from the thread of
  /// run(), or while run() is not active.
  void run_kernels(std::uint64_t batch, const std::byte* data, std::size_t bytes,
                   const OnBatch& on_batch);

  device::Stream& compute() { return *compute_; }
  device::Stream& arrivals() { return *arrive_; }  ///< the stream of on_arrival, if there is one
  /// The device memory of batch `number`.
  std::byte* data(std::uint64_t number) { return buffer(number).memory.data(); }

 private:
  /// The memory of one batch. `filled` is recorded after its last upload, `arrived` after the work
  /// of on_arrival, and `free` after the last kernels that use it.
  struct BatchBuffer {
    device::Buffer<std::byte> memory;
    std::unique_ptr<device::Event> filled, arrived, free;
    std::size_t bytes = 0;    ///< size of all uploads of the batch
    std::size_t missing = 0;  ///< bytes of the batch whose uploads are not enqueued yet
  };
  BatchBuffer& buffer(std::uint64_t batch) { return buffers_[batch % buffers_.size()]; }

  void start_readers();
  void upload_piece(std::uint64_t number, const std::byte* data, device::Event& emptied,
                    measure::HostTrack& reader, const std::stop_token& stop);
  void await_uploads(std::uint64_t batch);
  void call_meanwhile(std::unique_lock<std::mutex>& lock, const std::function<bool()>& until);
  void upload_ahead(std::uint64_t current);
  void upload_next();
  bool next_is_empty() const;
  void open_next();
  void upload(const UploadPiece& piece, const std::byte* data);
  bool count_upload(const UploadPiece& piece);
  void record_filled(std::uint64_t batch);
  void arrive_batch(std::uint64_t batch);
  void compute_batch(std::uint64_t batch);
  void release_batches(std::uint64_t computed);
  std::uint64_t last_use(std::uint64_t batch) const;

  RingSizes sizes_;
  ranks::Heartbeat* heartbeat_;
  std::vector<BatchBuffer> buffers_;
  std::unique_ptr<Staging> staging_;  // none without readers
  measure::HostTrack& main_track_;
  measure::DeviceTrack& upload_track_;
  measure::DeviceTrack* arrive_track_;  // none without arrivals
  measure::DeviceTrack& compute_track_;
  std::unique_ptr<device::Stream> upload_, compute_;
  std::unique_ptr<device::Stream> arrive_;  // none without arrivals
  const Job* job_ = nullptr;                // of the active run()

  // Readers enqueue uploads; the thread of run() enqueues everything else, and the uploads if there
  // are no readers. A thread holds the lock while it uses the upload stream or the upload track.
  // The lock also guards the members below, and `bytes` and `missing` of the buffers.
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t opened_ = 0;                ///< number of batches whose uploads have begun
  std::uint64_t released_ = 0;              ///< number of batches whose last use is enqueued
  std::uint64_t next_piece_ = 0;            ///< the first piece of the batches not opened yet
  std::optional<std::uint64_t> uploading_;  ///< the batch whose span on the upload track is open
};

}  // namespace shardstream::pipeline
