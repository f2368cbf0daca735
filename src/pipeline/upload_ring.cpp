#include "pipeline/upload_ring.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>

#include "core/error.hpp"

namespace shardstream::pipeline {

using device::Buffer;
using device::Memory;
using measure::PhaseKind;

UploadRing::UploadRing(device::Device& device, measure::Recorder& recorder, const RingSizes& sizes,
                       ranks::Heartbeat* heartbeat)
    : sizes_(sizes),
      heartbeat_(heartbeat),
      main_track_(recorder.main()),
      upload_track_(recorder.device_track("upload", device)),
      arrive_track_(sizes.arrivals ? &recorder.device_track("arrive", device) : nullptr),
      compute_track_(recorder.device_track("compute", device)) {
  upload_ = device.make_stream();
  compute_ = device.make_stream();
  if (sizes.arrivals) arrive_ = device.make_stream(device::Priority::urgent);
  for (std::uint64_t i = 0; i < sizes.batches; ++i) {
    buffers_.push_back({Buffer<std::byte>(device, Memory::device, sizes.batch_bytes),
                        device.make_event(), sizes.arrivals ? device.make_event() : nullptr,
                        device.make_event()});
  }
  if (sizes.readers > 0) {
    staging_ =
        std::make_unique<Staging>(device, recorder, sizes.slot_bytes, sizes.slots, sizes.readers);
  }
}

UploadRing::~UploadRing() {
  // After an error, running work may still use the memory that is about to be freed.
  for (auto* stream : {upload_.get(), arrive_.get(), compute_.get()}) {
    try {
      if (stream != nullptr) stream->synchronize();
    } catch (const std::exception&) {
      // The original error is already being reported.
    }
  }
}

void UploadRing::run(const Job& job) {
  if (job.batches == 0) return;
  expect(!buffers_.empty(), "a ring that runs has memory for a batch");
  expect(job.pieces == 0 || job.piece(job.pieces - 1).batch < job.batches,
         "every piece belongs to a batch");
  expect((job.on_arrival != nullptr) == sizes_.arrivals, "on_arrival goes with arrivals");
  // The readers use `job`, so they must end before it does.
  const struct Finish {
    Staging* staging;
    ~Finish() {
      if (staging != nullptr) staging->finish();
    }
  } finish{staging_.get()};
  job_ = &job;
  opened_ = released_ = next_piece_ = 0;
  uploading_.reset();
  if (staging_) start_readers();
  for (std::uint64_t current = 0; current < job.batches; ++current) {
    if (heartbeat_ != nullptr) heartbeat_->step("batch", current);
    if (staging_) {
      await_uploads(current);
    } else {
      upload_ahead(current);
    }
    if (arrive_) arrive_batch(current);
    compute_batch(current);
    release_batches(current);
  }
}

void UploadRing::start_readers() {
  staging_->start(
      job_->pieces,
      [this](std::uint64_t number, std::byte* slot, measure::HostTrack& reader) {
        const UploadPiece piece = job_->piece(number);
        expect(piece.bytes <= sizes_.slot_bytes, "a piece fits into a slot");
        const auto span = reader.phase(job_->reader_phase.name, job_->reader_phase.kind,
                                       piece.bytes, static_cast<std::int64_t>(piece.batch));
        return job_->read(number, slot);
      },
      [this](std::uint64_t number, const std::byte* data, device::Event& emptied,
             measure::HostTrack& reader,
             const std::stop_token& stop) { upload_piece(number, data, emptied, reader, stop); });
}

/// The reader of the piece calls it. Readers overtake one another, so uploads of neighbouring
/// batches may alternate. A reader may use the buffer of a batch as soon as the kernels that use
/// its old contents are enqueued.
void UploadRing::upload_piece(std::uint64_t number, const std::byte* data, device::Event& emptied,
                              measure::HostTrack& reader, const std::stop_token& stop) {
  const UploadPiece piece = job_->piece(number);
  const auto in_batch = static_cast<std::int64_t>(piece.batch);
  std::unique_lock lock(mutex_, std::defer_lock);
  {
    const auto span = reader.phase("wait-for-batch", PhaseKind::waiting, 0, in_batch);
    // The lock is held for about 10 us; sleeping and waking up would take longer.
    while (!lock.try_lock()) std::this_thread::yield();
    const bool may =
        changed_.wait(lock, stop, [&] { return piece.batch < released_ + buffers_.size(); });
    if (!may) return;
  }
  {
    const auto span = reader.phase("enqueue", PhaseKind::transfer, piece.bytes, in_batch);
    while (opened_ <= piece.batch) open_next();
    upload(piece, data);
    upload_->record(emptied);
  }
  const bool all = count_upload(piece);
  lock.unlock();
  if (all) changed_.notify_all();
  if (heartbeat_ != nullptr) heartbeat_->move();
}

/// Blocks until the uploads of all pieces of the batch are enqueued. If the batch has no pieces,
/// possibly no reader opens it, so it is opened here.
void UploadRing::await_uploads(std::uint64_t batch) {
  const auto span = main_track_.phase("wait-for-readers", PhaseKind::waiting, 0,
                                      static_cast<std::int64_t>(batch));
  std::unique_lock lock(mutex_);
  if (opened_ == batch && next_is_empty()) open_next();
  const auto all = [&] { return batch < opened_ && buffer(batch).missing == 0; };
  if (job_->meanwhile) call_meanwhile(lock, all);
  if (!changed_.wait(lock, staging_->stopping(), all)) staging_->rethrow();
}

/// Calls `meanwhile` until it returns false, a reader has failed, or until() is true. The calls are
/// made without the lock, since readers need it.
void UploadRing::call_meanwhile(std::unique_lock<std::mutex>& lock,
                                const std::function<bool()>& until) {
  constexpr std::chrono::microseconds pause{100};  // short compared with the work of a call
  const std::stop_token stopping = staging_ ? staging_->stopping() : std::stop_token{};
  for (bool more = true; more && !until();) {
    lock.unlock();
    more = job_->meanwhile();
    lock.lock();
    if (more) changed_.wait_for(lock, stopping, pause, until);
    if (stopping.stop_requested()) return;
  }
}

/// Without readers: enqueues the uploads of batch `current`, and of all later ones whose buffers
/// have been released. The first batch comes alone, since its kernels wait for this thread.
void UploadRing::upload_ahead(std::uint64_t current) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t end = current == 0 ? 1 : std::min(job_->batches, released_ + buffers_.size());
  while (opened_ < end) upload_next();
}

/// Uploads the next batch from the thread of run(). Call it with the lock.
void UploadRing::upload_next() {
  const std::uint64_t first = next_piece_;
  open_next();
  for (std::uint64_t number = first; number < next_piece_; ++number) {
    const UploadPiece piece = job_->piece(number);
    upload(piece, job_->read(number, nullptr));
    count_upload(piece);
  }
}

/// Whether the next batch to open has no pieces.
bool UploadRing::next_is_empty() const {
  return next_piece_ == job_->pieces || job_->piece(next_piece_).batch > opened_;
}

/// Begins the uploads of the next batch: the upload stream waits for the kernels that use the old
/// contents of the buffer.
void UploadRing::open_next() {
  if (uploading_) upload_track_.end(*upload_);  // the previous batch; its last pieces may follow
  uploading_.reset();
  const std::uint64_t number = opened_++;
  BatchBuffer& here = buffer(number);
  here.bytes = 0;
  for (; next_piece_ < job_->pieces; ++next_piece_) {
    const UploadPiece piece = job_->piece(next_piece_);
    if (piece.batch > number) break;
    expect(piece.batch == number, "pieces come in the order of their batches");
    expect(piece.rows > 0 && piece.bytes % piece.rows == 0, "a piece has equal rows");
    expect(piece.bytes > 0 && piece.offset <= sizes_.batch_bytes &&
               piece.extent() <= sizes_.batch_bytes - piece.offset,
           "a piece lies within its batch");
    here.bytes += piece.bytes;
  }
  here.missing = here.bytes;
  upload_->wait(*here.free);
  if (here.missing == 0) return record_filled(number);
  upload_track_.begin(*upload_, "upload", PhaseKind::transfer, here.bytes,
                      static_cast<std::int64_t>(number));
  uploading_ = number;
}

void UploadRing::upload(const UploadPiece& piece, const std::byte* data) {
  std::byte* const to = buffer(piece.batch).memory.data() + piece.offset;
  if (piece.rows == 1) {
    upload_->upload(to, data, piece.bytes);
  } else {
    upload_->upload_rows(to, piece.pitch, data, piece.bytes / piece.rows, piece.rows);
  }
}

/// Counts a piece whose upload is enqueued. Returns true if it was the last one of its batch.
bool UploadRing::count_upload(const UploadPiece& piece) {
  BatchBuffer& here = buffer(piece.batch);
  here.missing -= piece.bytes;
  if (here.missing > 0) return false;
  record_filled(piece.batch);
  return true;
}

/// Call it when all uploads of the batch are enqueued. Records the event that is reached when they
/// are done.
void UploadRing::record_filled(std::uint64_t batch) {
  if (uploading_ == batch) {
    upload_track_.end(*upload_);
    uploading_.reset();
  }
  upload_->record(*buffer(batch).filled);
}

/// Enqueues the work of on_arrival after the uploads of the batch. That work may wait for other
/// ranks, and the kernels of the batch wait for it. So the workload may first enqueue kernels of
/// earlier batches (`meanwhile`).
void UploadRing::arrive_batch(std::uint64_t batch) {
  BatchBuffer& here = buffer(batch);
  arrive_->wait(*here.filled);
  arrive_track_->begin(*arrive_, "arrive", job_->arrival, here.bytes,
                       static_cast<std::int64_t>(batch));
  job_->on_arrival(*arrive_, batch, here.memory.data());
  arrive_track_->end(*arrive_);
  arrive_->record(*here.arrived);
  if (!job_->meanwhile) return;
  const auto span = main_track_.phase("wait-for-arrival", PhaseKind::waiting, 0,
                                      static_cast<std::int64_t>(batch));
  std::unique_lock lock(mutex_);
  call_meanwhile(lock, [&] { return here.arrived->reached(); });
}

/// Enqueues the kernels of the batch after its uploads or its arrival.
void UploadRing::compute_batch(std::uint64_t batch) {
  BatchBuffer& here = buffer(batch);
  compute_->wait(arrive_ ? *here.arrived : *here.filled);
  if (job_->on_batch) run_kernels(batch, here.memory.data(), here.bytes, job_->on_batch);
}

/// Releases the batches whose last use was on_batch(computed). The buffer that the next batch needs
/// is always among the released ones, because of the bound on last_use. So there is no deadlock.
void UploadRing::release_batches(std::uint64_t computed) {
  {
    const std::lock_guard lock(mutex_);
    while (released_ <= computed && last_use(released_) <= computed) {
      compute_->record(*buffer(released_).free);
      ++released_;
    }
  }
  changed_.notify_all();
}

std::uint64_t UploadRing::last_use(std::uint64_t batch) const {
  if (!job_->last_use) return batch;
  const std::uint64_t last = job_->last_use(batch);
  expect(batch <= last && last < job_->batches && last - batch < buffers_.size(),
         "a batch is used last before its buffer is used again");
  return last;
}

void UploadRing::run_kernels(std::uint64_t batch, const std::byte* data, std::size_t bytes,
                             const OnBatch& on_batch) {
  compute_track_.begin(*compute_, "kernels", PhaseKind::useful, bytes,
                       static_cast<std::int64_t>(batch));
  on_batch(*compute_, batch, data);
  compute_track_.end(*compute_);
}

Staging::Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
                 std::uint64_t slots, unsigned readers)
    : memory_(device, device::Memory::pinned, slot_bytes * slots),
      slot_bytes_(slot_bytes),
      crew_(readers, [this](unsigned reader) { read_pieces(reader); }) {
  expect(readers <= slots, "each reader has a slot");
  for (std::uint64_t i = 0; i < slots; ++i) emptied_.push_back(device.make_event());
  for (unsigned i = 0; i < readers; ++i) {
    tracks_.push_back(&recorder.host_track(fmt::format("reader {}", i)));
  }
}

Staging::~Staging() {
  finish();
}

void Staging::start(std::uint64_t pieces, Read read, Upload upload) {
  finish();
  pieces_ = pieces;
  read_ = std::move(read);
  upload_ = std::move(upload);
  next_ = 0;
  stop_ = {};
  error_ = nullptr;
  crew_.start();
}

void Staging::rethrow() {
  std::lock_guard lock(error_mutex_);
  if (error_) std::rethrow_exception(error_);
}

void Staging::finish() noexcept {
  stop_.request_stop();
  crew_.wait();
}

/// The loop of one reader thread, whose slots are `reader`, `reader` + readers, ...
void Staging::read_pieces(unsigned reader) {
  const std::stop_token stop = stop_.get_token();
  measure::HostTrack& track = *tracks_[reader];
  try {
    std::uint64_t slot = reader;
    for (std::uint64_t piece = next_++; piece < pieces_ && !stop.stop_requested();
         piece = next_++) {
      std::byte* const memory = memory_.data() + slot * slot_bytes_;
      {
        const auto span = track.phase("wait-for-slot", measure::PhaseKind::waiting);
        emptied_[slot]->synchronize();
      }
      const std::byte* const data = read_(piece, memory, track);
      upload_(piece, data, *emptied_[slot], track, stop);
      slot += tracks_.size();
      if (slot >= emptied_.size()) slot = reader;
    }
  } catch (...) {
    {
      std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    stop_.request_stop();
  }
}

}  // namespace shardstream::pipeline
