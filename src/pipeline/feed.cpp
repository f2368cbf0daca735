#include "pipeline/feed.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "core/parallel.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;

}  // namespace

Feed::Feed(device::Device& device, measure::Recorder& recorder, const io::Source& source,
           Range shard, const Sizes& sizes, launch::Heartbeat* heartbeat)
    : source_(source),
      shard_(shard),
      sizes_(sizes),
      element_(size_of(source.type())),
      heartbeat_(heartbeat),
      main_track_(recorder.main()),
      upload_track_(recorder.device_track("upload", device)),
      compute_track_(recorder.device_track("compute", device)) {
  upload_ = device.make_stream();
  compute_ = device.make_stream();
  if (shard.count == 0) return;
  for (std::uint64_t i = 0; i < sizes.batches && sizes.mode != Mode::mapped; ++i) {
    buffers_.push_back({Buffer<std::byte>(device, Memory::device, sizes.batch * element_),
                        device.make_event(), device.make_event()});
  }
  if (const auto kind = host_memory(sizes.mode)) {
    loaded_ = Buffer<std::byte>(device, *kind, shard.count * element_);
  }
  if (is_staged(sizes.mode)) {
    staging_ = std::make_unique<Staging>(device, recorder, source.slot_bytes(sizes.slot),
                                         sizes.slots, sizes.readers);
  }
}

Feed::~Feed() {
  // After an error work may still be under way in the memory that is about to go.
  for (auto* stream : {upload_.get(), compute_.get()}) {
    try {
      stream->synchronize();
    } catch (const std::exception&) {  // the error itself is on its way to the user
    }
  }
}

Range Feed::batch(std::uint64_t number) const {
  return intersection(shard_, {shard_.first + number * sizes_.batch, sizes_.batch});
}

std::int64_t Feed::in_batch(std::uint64_t piece) const {
  return static_cast<std::int64_t>(piece / pieces_a_batch());
}

Range Feed::piece(std::uint64_t number) const {
  const Range whole = batch(number / pieces_a_batch());
  const std::uint64_t offset = number % pieces_a_batch() * sizes_.slot;
  return intersection(whole, {whole.first + offset, sizes_.slot});
}

std::uint64_t Feed::pieces() const {
  if (shard_.count == 0) return 0;
  const std::uint64_t last = batches() - 1;
  return last * pieces_a_batch() + ceil_div(batch(last).count, sizes_.slot);
}

Feed::Read Feed::from_source(const OnRead& on_read) const {
  return [this, &on_read](Range elements, std::byte* slot) {
    const std::byte* const data = source_.read_into(elements.first, elements.count, slot);
    on_read(elements, data);
    return data;
  };
}

void Feed::load(const OnRead& on_read) {
  if (sizes_.mode == Mode::stream) return;
  if (sizes_.mode != Mode::resident) return load_host_memory(on_read);
  stage("read", from_source(on_read), {});
  compute_->synchronize();
}

void Feed::run(const OnBatch& on_batch, const OnRead& on_read) {
  switch (sizes_.mode) {
    case Mode::stream:
      return stage("read", from_source(on_read), on_batch);
    case Mode::pageable:
      return stage(
          "copy",
          [&](Range elements, std::byte* to) {
            std::copy_n(loaded_data(elements), elements.count * element_, to);
            return to;
          },
          on_batch);
    case Mode::pinned:
    case Mode::write_combined:
      return upload_pinned(on_batch);
    case Mode::mapped:
    case Mode::resident:
      for (std::uint64_t number = 0; number < batches(); ++number) {
        tell("batch", number);
        enqueue_kernels(number, on_batch);
      }
  }
}

void Feed::load_host_memory(const OnRead& on_read) {
  parallel_for(pieces(), sizes_.readers, [&](std::uint64_t number) {
    const Range elements = piece(number);
    std::byte* const to = loaded_data(elements);
    source_.read(elements.first, elements.count, to);
    on_read(elements, to);
    tell("piece", number);
  });
}

void Feed::stage(const char* phase, const Read& read, const OnBatch& on_batch) {
  if (shard_.count == 0) return;
  // The readers use this frame: they are gone before it is.
  const struct Finish {
    Staging& staging;
    ~Finish() { staging.finish(); }
  } finish{*staging_};
  opened_ = computed_ = 0;
  uploading_.reset();
  staging_->start(
      pieces(),
      [&](std::uint64_t number, std::byte* slot, measure::HostTrack& reader) {
        const Range elements = piece(number);
        const auto span = reader.phase(phase, elements.count * element_, in_batch(number));
        return read(elements, slot);
      },
      [this](std::uint64_t number, const std::byte* data, device::Event& emptied,
             measure::HostTrack& reader,
             const std::stop_token& stop) { upload_piece(number, data, emptied, reader, stop); });
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    await_uploads(current);
    compute_batch(current, on_batch);
    {
      const std::lock_guard lock(mutex_);
      ++computed_;
    }
    changed_.notify_all();
  }
}

/// By the reader of the piece. Readers overtake one another, so the pieces of neighbouring batches
/// may be mixed; a batch's buffer is taken once the kernels that used it before are enqueued.
void Feed::upload_piece(std::uint64_t number, const std::byte* data, device::Event& emptied,
                        measure::HostTrack& reader, const std::stop_token& stop) {
  const Range elements = piece(number);
  const std::uint64_t current = number / pieces_a_batch();
  std::unique_lock lock(mutex_, std::defer_lock);
  {
    const auto span = reader.phase("wait-for-batch", 0, in_batch(number));
    // Held for some 10 us, so that falling asleep for it and waking up would take longer.
    while (!lock.try_lock()) std::this_thread::yield();
    const bool may =
        changed_.wait(lock, stop, [&] { return current < computed_ + buffers_.size(); });
    if (!may) return;
  }
  BatchBuffer& here = buffer(current);
  {
    const auto span = reader.phase("enqueue", elements.count * element_, in_batch(number));
    while (opened_ <= current) open(opened_++);
    upload_->upload(here.memory.data() + (elements.first - batch(current).first) * element_, data,
                    elements.count * element_);
    upload_->record(emptied);
  }
  here.missing -= elements.count;
  const bool all = here.missing == 0;
  if (all) filled(current);
  lock.unlock();
  if (all) changed_.notify_all();
  if (heartbeat_ != nullptr) heartbeat_->move();
}

/// Until all pieces of the batch are enqueued.
void Feed::await_uploads(std::uint64_t batch) {
  const auto span = main_track_.phase("wait-for-readers", 0, static_cast<std::int64_t>(batch));
  std::unique_lock lock(mutex_);
  const bool all = changed_.wait(lock, staging_->stopping(),
                                 [&] { return batch < opened_ && buffer(batch).missing == 0; });
  if (!all) staging_->rethrow();
}

void Feed::upload_pinned(const OnBatch& on_batch) {
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    open(current);
    const Range elements = batch(current);
    upload_->upload(buffer(current).memory.data(), loaded_data(elements),
                    elements.count * element_);
    filled(current);
    compute_batch(current, on_batch);
  }
}

std::byte* Feed::loaded_data(Range elements) const {
  return loaded_.data() + (elements.first - shard_.first) * element_;
}

void Feed::tell(const char* what, std::uint64_t number) {
  if (heartbeat_ != nullptr) heartbeat_->step(what, number);
}

/// Uploads from now on come after the kernels of the batch that used this batch's buffer before.
void Feed::open(std::uint64_t number) {
  if (uploading_) upload_track_.end(*upload_);  // of the batch before; its last pieces may follow
  const Range elements = batch(number);
  buffer(number).missing = elements.count;
  upload_->wait(*buffer(number).free);
  upload_track_.begin(*upload_, "upload", elements.count * element_,
                      static_cast<std::int64_t>(number));
  uploading_ = number;
}

/// All uploads of the batch are enqueued.
void Feed::filled(std::uint64_t number) {
  if (uploading_ == number) {
    upload_track_.end(*upload_);
    uploading_.reset();
  }
  upload_->record(*buffer(number).filled);
}

/// The kernels of the batch come after its uploads.
void Feed::compute_batch(std::uint64_t number, const OnBatch& on_batch) {
  BatchBuffer& here = buffer(number);
  compute_->wait(*here.filled);
  if (on_batch) enqueue_kernels(number, on_batch);
  compute_->record(*here.free);
}

void Feed::enqueue_kernels(std::uint64_t number, const OnBatch& on_batch) {
  const Range elements = batch(number);
  compute_track_.begin(*compute_, "kernels", elements.count * element_,
                       static_cast<std::int64_t>(number));
  on_batch(*compute_,
           {number, elements,
            sizes_.mode == Mode::mapped ? loaded_data(elements) : buffer(number).memory.data()});
  compute_track_.end(*compute_);
}

}  // namespace shardstream::pipeline
