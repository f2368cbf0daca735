#include "pipeline/feed.hpp"

#include <algorithm>
#include <exception>

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
  if (const auto kind = pinned_memory(sizes.mode)) {
    pinned_ = Buffer<std::byte>(device, *kind, shard.count * element_);
  } else {
    staging_ = std::make_unique<Staging>(device, recorder, source.slot_bytes(sizes.slot),
                                         sizes.slots, sizes.readers);
  }
  if (sizes.mode == Mode::pageable) {
    pageable_ = std::make_unique_for_overwrite<std::byte[]>(shard.count * element_);
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
            const std::byte* from = pageable_.get() + (elements.first - shard_.first) * element_;
            std::copy_n(from, elements.count * element_, to);
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
  std::byte* memory = pinned_.size() > 0 ? pinned_.data() : pageable_.get();
  parallel_for(pieces(), sizes_.readers, [&](std::uint64_t number) {
    const Range elements = piece(number);
    std::byte* const to = memory + (elements.first - shard_.first) * element_;
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
  staging_->start(pieces(), [&](std::uint64_t number, std::byte* slot, measure::HostTrack& track) {
    const Range elements = piece(number);
    const auto span = track.phase(phase, elements.count * element_,
                                  static_cast<std::int64_t>(number / pieces_a_batch()));
    return read(elements, slot);
  });
  std::uint64_t number = 0;
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    await_free(current);
    const Range whole = batch(current);
    for (std::uint64_t done = 0; done < whole.count; ++number) {
      const Range elements = piece(number);
      const std::byte* slot = wait_for(number);
      if (done == 0) begin_upload(current);
      upload_->upload(buffer(current).memory.data() + done * element_, slot,
                      elements.count * element_);
      staging_->release(number, *upload_);
      if (heartbeat_ != nullptr) heartbeat_->move();
      done += elements.count;
    }
    compute_batch(current, on_batch);
  }
}

const std::byte* Feed::wait_for(std::uint64_t piece) {
  const auto span =
      main_track_.phase("wait-for-piece", 0, static_cast<std::int64_t>(piece / pieces_a_batch()));
  return staging_->wait(piece);
}

void Feed::upload_pinned(const OnBatch& on_batch) {
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    await_free(current);
    begin_upload(current);
    const Range elements = batch(current);
    upload_->upload(buffer(current).memory.data(), pinned_data(elements),
                    elements.count * element_);
    compute_batch(current, on_batch);
  }
}

const std::byte* Feed::pinned_data(Range elements) const {
  return pinned_.data() + (elements.first - shard_.first) * element_;
}

void Feed::tell(const char* what, std::uint64_t number) {
  if (heartbeat_ != nullptr) heartbeat_->step(what, number);
}

/// Uploads from now on come after the kernels of the batch that used this batch's buffer before.
void Feed::await_free(std::uint64_t batch) {
  upload_->wait(*buffer(batch).free);
}

void Feed::begin_upload(std::uint64_t number) {
  upload_track_.begin(*upload_, "upload", batch(number).count * element_,
                      static_cast<std::int64_t>(number));
}

/// The kernels of the batch come after its uploads.
void Feed::compute_batch(std::uint64_t number, const OnBatch& on_batch) {
  BatchBuffer& here = buffer(number);
  upload_track_.end(*upload_);
  upload_->record(*here.filled);
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
            sizes_.mode == Mode::mapped ? pinned_data(elements) : buffer(number).memory.data()});
  compute_track_.end(*compute_);
}

}  // namespace shardstream::pipeline
