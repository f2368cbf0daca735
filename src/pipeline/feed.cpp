#include "pipeline/feed.hpp"

#include <algorithm>
#include <exception>

#include "core/parallel.hpp"

namespace shardstream::pipeline {
namespace {

using device::Buffer;
using device::Memory;
}  // namespace

Feed::Feed(device::Device& device, const io::Source& source, Range shard, const Sizes& sizes,
           launch::Heartbeat* heartbeat)
    : source_(source),
      shard_(shard),
      sizes_(sizes),
      element_(size_of(source.type())),
      heartbeat_(heartbeat) {
  upload_ = device.make_stream();
  compute_ = device.make_stream();
  if (shard.count == 0) return;
  for (std::uint64_t i = 0; i < sizes.batches; ++i) {
    buffers_.push_back({Buffer<std::byte>(device, Memory::device, sizes.batch * element_),
                        device.make_event(), device.make_event()});
  }
  if (sizes.mode == Mode::pinned) {
    pinned_ = Buffer<std::byte>(device, Memory::pinned, shard.count * element_);
  } else {
    staging_ = std::make_unique<Staging>(device, sizes.slot * element_, sizes.slots, sizes.readers);
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
  return [this, &on_read](Range elements, std::byte* to) {
    source_.read(elements.first, elements.count, to);
    on_read(elements, to);
  };
}

void Feed::load(const OnRead& on_read) {
  if (sizes_.mode == Mode::pinned || sizes_.mode == Mode::pageable) load_host_memory(on_read);
  if (sizes_.mode == Mode::resident) {
    stage(from_source(on_read), {});
    compute_->synchronize();
  }
}

void Feed::run(const OnBatch& on_batch, const OnRead& on_read) {
  switch (sizes_.mode) {
    case Mode::stream:
      return stage(from_source(on_read), on_batch);
    case Mode::pageable:
      return stage(
          [&](Range elements, std::byte* to) {
            const std::byte* from = pageable_.get() + (elements.first - shard_.first) * element_;
            std::copy_n(from, elements.count * element_, to);
          },
          on_batch);
    case Mode::pinned:
      return upload_pinned(on_batch);
    case Mode::resident:
      for (std::uint64_t number = 0; number < batches(); ++number) {
        tell("batch", number);
        on_batch(*compute_, {number, batch(number), buffer(number).memory.data()});
      }
  }
}

void Feed::load_host_memory(const OnRead& on_read) {
  std::byte* memory = sizes_.mode == Mode::pinned ? pinned_.data() : pageable_.get();
  const Read read = from_source(on_read);
  parallel_for(pieces(), sizes_.readers, [&](std::uint64_t number) {
    const Range elements = piece(number);
    read(elements, memory + (elements.first - shard_.first) * element_);
    tell("piece", number);
  });
}

void Feed::stage(const Read& read, const OnBatch& on_batch) {
  if (shard_.count == 0) return;
  // The readers use this frame: they are gone before it is.
  const struct Finish {
    Staging& staging;
    ~Finish() { staging.finish(); }
  } finish{*staging_};
  staging_->start(pieces(),
                  [&](std::uint64_t number, std::byte* slot) { read(piece(number), slot); });
  std::uint64_t number = 0;
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    await_free(current);
    const Range whole = batch(current);
    for (std::uint64_t done = 0; done < whole.count; ++number) {
      const Range elements = piece(number);
      const std::byte* slot = staging_->wait(number);
      upload_->upload(buffer(current).memory.data() + done * element_, slot,
                      elements.count * element_);
      staging_->release(number, *upload_);
      if (heartbeat_ != nullptr) heartbeat_->move();
      done += elements.count;
    }
    compute_batch(current, on_batch);
  }
}

void Feed::upload_pinned(const OnBatch& on_batch) {
  for (std::uint64_t current = 0; current < batches(); ++current) {
    tell("batch", current);
    await_free(current);
    const Range elements = batch(current);
    upload_->upload(buffer(current).memory.data(),
                    pinned_.data() + (elements.first - shard_.first) * element_,
                    elements.count * element_);
    compute_batch(current, on_batch);
  }
}

void Feed::tell(const char* what, std::uint64_t number) {
  if (heartbeat_ != nullptr) heartbeat_->step(what, number);
}

/// Uploads from now on come after the kernels of the batch that used this batch's buffer before.
void Feed::await_free(std::uint64_t batch) {
  upload_->wait(*buffer(batch).free);
}

/// The kernels of the batch come after its uploads.
void Feed::compute_batch(std::uint64_t number, const OnBatch& on_batch) {
  BatchBuffer& here = buffer(number);
  upload_->record(*here.filled);
  compute_->wait(*here.filled);
  if (on_batch) on_batch(*compute_, {number, batch(number), here.memory.data()});
  compute_->record(*here.free);
}

}  // namespace shardstream::pipeline
