#include "pipeline/feed.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "kernels/data/convert.hpp"

namespace shardstream::pipeline {
namespace {

/// Bytes at the beginning of a slot for elements that a reader converts.
std::uint64_t converted_in_slot(const Sizes& sizes) {
  return sizes.of.converter == Converter::readers
             ? io::DirectFile::room(sizes.slot * sizes.of.element)
             : 0;
}

RingSizes ring_sizes(const Sizes& sizes, const io::Source& source, Range shard) {
  if (shard.count == 0) return {};
  RingSizes ring;
  if (sizes.mode != Mode::mapped) {
    ring.batch_bytes = sizes.batch * sizes.of.moved();
    ring.batches = sizes.batches;
  }
  if (is_staged(sizes.mode)) {
    ring.slot_bytes = converted_in_slot(sizes) + source.slot_bytes(sizes.slot);
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
      moved_(sizes.of.moved()),
      heartbeat_(heartbeat),
      loaded_(host_buffer(device, sizes.mode, shard.count * moved_)),
      converted_(device, device::Memory::device, sizes.converted * sizes.of.element),
      ring_(device, recorder, ring_sizes(sizes, source, shard), heartbeat) {
  expect(sizes.of.stored == source.stored_size() && sizes.of.element == size_of(source.type()),
         "the sizes of a feed are those of its source");
  if (!converts_on_device()) return;
  missing_on_device_ = {device, device::Memory::device, 1};
  downloaded_missing_ = {device, device::Memory::pinned, 1};
  zero_ = {device, device::Memory::pinned, 1};
  zero_[0] = 0;
}

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

Feed::Read Feed::from_source(const OnRead& on_read) {
  return [this, &on_read](Range elements, std::byte* slot) {
    const std::byte* const data =
        source_.read_stored(elements.first, elements.count, slot + converted_in_slot(sizes_));
    on_read(elements, data);
    if (sizes_.of.converter != Converter::readers) return data;
    missing_by_readers_ += source_.convert(elements.first, elements.count, data, slot);
    return static_cast<const std::byte*>(slot);
  };
}

UploadRing::OnBatch Feed::converted(const OnBatch& on_batch) {
  return [this, &on_batch](device::Stream& compute, std::uint64_t number, const std::byte* data) {
    const Range elements = batch(number);
    if (converts_on_device() && data != converted_data(elements)) {
      convert_on_device(compute, elements, data);
      data = converted_data(elements);
    }
    if (on_batch) on_batch(compute, {number, elements, data});
  };
}

/// Launches one kernel for each conversion, such as that of each file.
void Feed::convert_on_device(device::Stream& compute, Range elements, const std::byte* stored) {
  source_.conversions().visit(elements, [&](Range part, const Conversion& conversion) {
    const std::uint64_t offset = part.first - elements.first;
    compute.launch(convert_kernel(),
                   {.conversion = conversion,
                    .stored = stored + offset * sizes_.of.stored,
                    .elements = converted_data(elements) + offset * sizes_.of.element,
                    .count = part.count,
                    .missing = missing_on_device_.data()});
  });
}

/// Clears the number of missing values, before elements are converted.
void Feed::begin_count() {
  missing_by_readers_ = 0;
  if (!converts_on_device()) return;
  compute().upload(missing_on_device_.data(), zero_.data(), zero_.bytes());
}

std::uint64_t Feed::missing() const {
  return converts_on_device() ? downloaded_missing_[0] : missing_by_readers_.load();
}

void Feed::load(const OnRead& on_read) {
  if (sizes_.mode == Mode::stream) return;
  begin_count();
  if (sizes_.mode != Mode::resident) return load_host_memory(on_read);
  const OnBatch nothing;
  stage(reads, from_source(on_read), converts_on_device() ? converted(nothing) : nullptr);
  compute().synchronize();
}

void Feed::run(const OnBatch& on_batch, const OnRead& on_read) {
  const UploadRing::OnBatch on_bytes = converted(on_batch);
  const bool converts =
      sizes_.mode == Mode::stream || (converts_on_device() && sizes_.mode != Mode::resident);
  if (converts) begin_count();
  switch (sizes_.mode) {
    case Mode::stream:
      stage(reads, from_source(on_read), on_bytes);
      break;
    case Mode::pageable:
      stage(
          copies,
          [&](Range elements, std::byte* to) {
            std::copy_n(loaded_data(elements), elements.count * moved_, to);
            return to;
          },
          on_bytes);
      break;
    case Mode::pinned:
    case Mode::write_combined:
      upload_loaded(on_bytes);
      break;
    case Mode::mapped:
    case Mode::resident:
      run_in_place(on_bytes);
  }
  if (!converts_on_device()) return;
  compute().download(downloaded_missing_.data(), missing_on_device_.data(),
                     downloaded_missing_.bytes());
}

void Feed::load_host_memory(const OnRead& on_read) {
  parallel_for(pieces(), sizes_.readers, [&](std::uint64_t number) {
    const Range elements = piece(number);
    load_piece(elements, loaded_data(elements), on_read);
    report_step("piece", number);
  });
}

void Feed::load_piece(Range elements, std::byte* to, const OnRead& on_read) {
  if (sizes_.of.converter == Converter::none) {
    source_.read(elements.first, elements.count, to);
    return on_read(elements, to);
  }
  const io::AlignedBytes slot(io::DirectFile::block(),
                              io::DirectFile::room(source_.slot_bytes(elements.count)));
  const std::byte* const stored = source_.read_stored(elements.first, elements.count, slot.data());
  on_read(elements, stored);
  if (converts_on_device()) {
    std::copy_n(stored, elements.count * moved_, to);
  } else {
    missing_by_readers_ += source_.convert(elements.first, elements.count, stored, to);
  }
}

std::byte* Feed::converted_data(Range elements) const {
  const bool keeps_all = sizes_.mode == Mode::resident;
  return converted_.data() + (keeps_all ? (elements.first - shard_.first) * sizes_.of.element : 0);
}

void Feed::stage(const ReaderPhase& reader_phase, const Read& read,
                 const UploadRing::OnBatch& on_batch) {
  UploadRing::Job job;
  job.batches = batches();
  job.pieces = pieces();
  job.piece = [this](std::uint64_t number) {
    const Range elements = piece(number);
    const std::uint64_t in_batch = number / pieces_per_batch();
    return UploadPiece{in_batch, (elements.first - batch(in_batch).first) * moved_,
                       elements.count * moved_};
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
    return UploadPiece{number, 0, batch(number).count * moved_};
  };
  job.read = [this](std::uint64_t number, std::byte*) { return loaded_data(batch(number)); };
  job.on_batch = on_batch;
  ring_.run(job);
}

void Feed::run_in_place(const UploadRing::OnBatch& on_batch) {
  for (std::uint64_t number = 0; number < batches(); ++number) {
    report_step("batch", number);
    const Range elements = batch(number);
    const bool is_converted = sizes_.mode == Mode::resident;
    ring_.run_kernels(number, data_in_place(number),
                      elements.count * (is_converted ? sizes_.of.element : moved_), on_batch);
  }
}

/// The data of a batch in mode mapped or resident.
const std::byte* Feed::data_in_place(std::uint64_t number) {
  if (sizes_.mode == Mode::mapped) return loaded_data(batch(number));
  return converts_on_device() ? converted_data(batch(number)) : ring_.data(number);
}

void Feed::read(Range elements, std::byte* out) const {
  if (loaded_.size() == 0 || sizes_.mode == Mode::write_combined) {
    return source_.read(elements.first, elements.count, out);
  }
  const std::byte* const loaded = loaded_data(elements);
  if (converts_on_device()) {
    source_.convert(elements.first, elements.count, loaded, out);
  } else {
    std::copy_n(loaded, elements.count * sizes_.of.element, out);
  }
}

const std::byte* Feed::in_place(std::uint64_t number) {
  const bool is_mapped = sizes_.mode == Mode::mapped && !converts_on_device();
  return is_mapped || sizes_.mode == Mode::resident ? data_in_place(number) : nullptr;
}

std::byte* Feed::loaded_data(Range elements) const {
  return loaded_.data() + (elements.first - shard_.first) * moved_;
}

void Feed::report_step(const char* what, std::uint64_t number) {
  if (heartbeat_ != nullptr) heartbeat_->step(what, number);
}

}  // namespace shardstream::pipeline
