#include "pipeline/feed.hpp"

#include <algorithm>

#include "core/parallel.hpp"

namespace shardstream::pipeline {
namespace {

RingSizes ring_sizes(const Sizes& sizes, const io::Source& source, Range shard) {
  if (shard.count == 0) return {};
  RingSizes ring;
  if (sizes.mode != Mode::mapped) {
    ring.batch_bytes = sizes.batch * size_of(source.type());
    ring.batches = sizes.batches;
  }
  if (is_staged(sizes.mode)) {
    ring.slot_bytes = source.slot_bytes(sizes.slot);
    ring.slots = sizes.slots;
    ring.readers = sizes.readers;
  }
  return ring;
}

device::Buffer<std::byte> host_buffer(device::Device& device, Mode mode, std::size_t bytes) {
  const auto kind = host_memory(mode);
  return kind ? device::Buffer<std::byte>(device, *kind, bytes) : device::Buffer<std::byte>();
}

}  // namespace

Feed::Feed(device::Device& device, measure::Recorder& recorder, const io::Source& source,
           Range shard, const Sizes& sizes, ranks::Heartbeat* heartbeat)
    : source_(source),
      shard_(shard),
      sizes_(sizes),
      element_(size_of(source.type())),
      heartbeat_(heartbeat),
      loaded_(host_buffer(device, sizes.mode, shard.count * element_)),
      ring_(device, recorder, ring_sizes(sizes, source, shard), heartbeat) {}

Range Feed::batch(std::uint64_t number) const {
  return intersection(shard_, {shard_.first + number * sizes_.batch, sizes_.batch});
}

Range Feed::piece(std::uint64_t number) const {
  const Range whole = batch(number / pieces_per_batch());
  const std::uint64_t offset = number % pieces_per_batch() * sizes_.slot;
  return intersection(whole, {whole.first + offset, sizes_.slot});
}

std::uint64_t Feed::pieces() const {
  if (shard_.count == 0) return 0;
  const std::uint64_t last = batches() - 1;
  return last * pieces_per_batch() + ceil_div(batch(last).count, sizes_.slot);
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
  stage(reads, from_source(on_read), {});
  compute().synchronize();
}

void Feed::run(const OnBatch& on_batch, const OnRead& on_read) {
  const UploadRing::OnBatch on_bytes = [&](device::Stream& compute, std::uint64_t number,
                                           const std::byte* data) {
    on_batch(compute, {number, batch(number), data});
  };
  switch (sizes_.mode) {
    case Mode::stream:
      return stage(reads, from_source(on_read), on_bytes);
    case Mode::pageable:
      return stage(
          copies,
          [&](Range elements, std::byte* to) {
            std::copy_n(loaded_data(elements), elements.count * element_, to);
            return to;
          },
          on_bytes);
    case Mode::pinned:
    case Mode::write_combined:
      return upload_loaded(on_bytes);
    case Mode::mapped:
    case Mode::resident:
      return run_in_place(on_bytes);
  }
}

void Feed::load_host_memory(const OnRead& on_read) {
  parallel_for(pieces(), sizes_.readers, [&](std::uint64_t number) {
    const Range elements = piece(number);
    std::byte* const to = loaded_data(elements);
    source_.read(elements.first, elements.count, to);
    on_read(elements, to);
    report_step("piece", number);
  });
}

void Feed::stage(const ReaderPhase& reader_phase, const Read& read,
                 const UploadRing::OnBatch& on_batch) {
  UploadRing::Job job;
  job.batches = batches();
  job.pieces = pieces();
  job.piece = [this](std::uint64_t number) {
    const Range elements = piece(number);
    const std::uint64_t in_batch = number / pieces_per_batch();
    return Piece{in_batch, (elements.first - batch(in_batch).first) * element_,
                 elements.count * element_};
  };
  job.reader_phase = reader_phase;
  job.read = [&](std::uint64_t number, std::byte* slot) { return read(piece(number), slot); };
  job.on_batch = on_batch;
  ring_.run(job);
}

/// Uploads each batch in one piece from the memory that it was loaded into.
void Feed::upload_loaded(const UploadRing::OnBatch& on_batch) {
  UploadRing::Job job;
  job.batches = job.pieces = batches();
  job.piece = [this](std::uint64_t number) {
    return Piece{number, 0, batch(number).count * element_};
  };
  job.read = [this](std::uint64_t number, std::byte*) { return loaded_data(batch(number)); };
  job.on_batch = on_batch;
  ring_.run(job);
}

void Feed::run_in_place(const UploadRing::OnBatch& on_batch) {
  for (std::uint64_t number = 0; number < batches(); ++number) {
    report_step("batch", number);
    const Range elements = batch(number);
    ring_.run_kernels(number,
                      sizes_.mode == Mode::mapped ? loaded_data(elements) : ring_.data(number),
                      elements.count * element_, on_batch);
  }
}

std::byte* Feed::loaded_data(Range elements) const {
  return loaded_.data() + (elements.first - shard_.first) * element_;
}

void Feed::report_step(const char* what, std::uint64_t number) {
  if (heartbeat_ != nullptr) heartbeat_->step(what, number);
}

}  // namespace shardstream::pipeline
