// The rate at which plain code reads a file. One thread reads large blocks into ordinary memory by
// H5Dread, from storage and from the page cache; many threads read small pieces past the page
// cache. All must read the same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>

#include "core/parallel.hpp"
#include "experiments/bench.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/storage/data_file.hpp"
#include "experiments/storage/pieces.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "io/source/dataset/page_cache.hpp"

namespace shardstream::experiments::storage {

constexpr OptionRow options[] = {
    {"plain-reads.file", OptionKind::text, "", "",
     "The data set to read, FILE.h5:/PATH; shardstream generate writes one."},
};

Table plain_reads(Bench& bench);
Table plain_reads_on_host(Bench& bench);

extern const Experiment about_plain_reads = {
    .name = "plain-reads",
    .group = "storage",
    .summary = "The rate of plain code that reads a file, with H5Dread and with O_DIRECT.",
    .explanation =
        {
            .question = "How fast does plain code read a file, and what limits it?",
            .varies =
                "A data set is read past the page cache (O_DIRECT) by 32 threads, 4 MiB at a time, "
                "and by H5Dread into ordinary memory, 256 MiB at a time: `cold` from storage, "
                "after the system has dropped the file from its page cache, and then from the page "
                "cache. On a GPU there is another way: H5Dread from the page cache, followed by "
                "cudaMemcpy, as in most programs. All ranks read the same file at once. To write a "
                "file: shardstream generate --input.count 2^32 -o FILE.h5:/x. The experiment "
                "file-feed shows the rate of this program for the same file.",
            .expectation =
                "H5Dread is limited by one thread that copies from the page cache; expect a few "
                "GB/s. O_DIRECT shows the rate of the storage. Cold, H5Dread reaches at most the "
                "lower one of both rates. With a copy, the time is the sum of reading and "
                "uploading.",
            .pitfalls =
                "Data in the page cache hides the storage. The remark states how much of the data "
                "was there before, if the system reports it. A file system in memory cannot drop "
                "a file, and a server of files may keep it in its own memory. With several ranks, "
                "one of them may read again what another one has dropped. All ways must read the "
                "same bytes. The upload is expected at the rate of the link, but ordinary memory "
                "is pageable, so it is slower (see `transfer`).",
        },
    .read_on = {{Guide::project, "src/experiments/MEASUREMENTS.md"}},
    .share = "of the rate of uploads",
    .options = options,
    .expected =
        [](const MeasuredRow& row) {
          const std::string way = row.text("way");
          const double cached = row.measured({{"way", "H5Dread"}});
          if (way == "H5Dread, cold") return std::min(cached, row.measured({{"way", "O_DIRECT"}}));
          return way == "H5Dread, copy" ? 1 / (1 / cached + 1 / row.ceiling("link_up"))
                                        : std::numeric_limits<double>::quiet_NaN();
        },
    .exercise = {.task = "Predict the rate in GB/s of H5Dread by one thread, and of H5Dread "
                         "followed by cudaMemcpy, if one thread copies 5 GB/s from the page cache, "
                         "and the upload of pageable memory reaches 10 GB/s.",
                 .rows = {{{"way", "H5Dread"}}, {{"way", "H5Dread, copy"}}}},
    .figure = {.look = Look::bars, .x = "way", .y = "rate"},
    .needs = {.ceilings = {"link_up"}, .file = "plain-reads.file"},
    .run = with_cuda<plain_reads>(),
    .run_host = plain_reads_on_host,
};

namespace {

constexpr unsigned threads = 32;
constexpr std::uint64_t plain_block = std::uint64_t{256} << 20;  // bytes of one H5Dread

/// A copy of the data that was read to another memory.
struct Copy {
  /// Copies at most plain_block bytes and returns when they have arrived.
  std::function<void(const std::byte* from, std::uint64_t bytes)> copy;
  /// Whether the last copy equals the data at `from`.
  std::function<bool(const std::byte* from, std::uint64_t bytes)> is_right;
};

/// Reads one data set and adds the rows.
class Reader {
 public:
  /// `link_up` is the rate of uploads in GB/s; NaN without a GPU.
  Reader(Bench& bench, DataFile file, double link_up)
      : bench_(bench),
        link_up_(link_up),
        file_(std::move(file)),
        source_(file_.open(io::ReadWay::by_library)),
        element_(size_of(source_->type())),
        bytes_(source_->count() * element_),
        pieces_(bytes_),
        rows_({{"way", ColumnType::text},
               {"threads", ColumnType::integer},
               {"request", ColumnType::integer, "B"}},
              {"rate", ColumnType::real, "GB/s"}) {}

  void direct();
  void cold();
  void by_hdf5(const Copy* to_gpu);
  Table table() && { return std::move(rows_).table(); }

 private:
  void read_stretch(const io::Source& source, std::uint64_t first, std::uint64_t count,
                    const std::vector<io::AlignedBytes>& slots);
  /// Reads blocks, each after `prepare` and before `finish`, which is timed, too.
  Timing time_blocks(std::uint64_t block, std::byte* memory,
                     const std::function<void(std::uint64_t first)>& prepare,
                     const std::function<void()>& finish);
  void add(const char* way, unsigned readers, std::uint64_t request, const Timing& timing,
           std::uint64_t bytes, const std::string& remark);

  Bench& bench_;
  double link_up_;
  DataFile file_;
  std::unique_ptr<io::Source> source_;
  std::uint64_t element_, bytes_;
  Pieces pieces_;
  Measurements rows_;
};

void Reader::add(const char* way, unsigned readers, std::uint64_t request, const Timing& timing,
                 std::uint64_t bytes, const std::string& remark) {
  const Measured rate = timing.rate(static_cast<double>(bytes));
  rows_.add({way, std::int64_t{readers}, static_cast<std::int64_t>(request)}, rate,
            rate.value / link_up_, remark);
}

/// A sample is a block. Blocks follow each other through the data and start over at its end.
Timing Reader::time_blocks(std::uint64_t block, std::byte* memory,
                           const std::function<void(std::uint64_t first)>& prepare,
                           const std::function<void()>& finish) {
  std::uint64_t next = 0;
  const Timing timing = bench_.sample([&] {
    const std::uint64_t first = next;
    next = first + 2 * block <= bytes_ ? first + block : 0;
    prepare(first);
    const auto begin = Clock::now();
    source_->read(first / element_, block / element_, memory);
    finish();
    const double seconds = seconds_since(begin);
    for (std::uint64_t at = 0; at < block; at += piece_bytes) {
      const std::uint64_t piece = (first + at) / piece_bytes;
      if (at + pieces_.bytes_of(piece) <= block) pieces_.note(piece, memory + at);
    }
    return seconds;
  });
  bench_.verify(pieces_.agree(), file_.file() + ": the data that H5Dread has read");
  return timing;
}

/// Each block from storage. No row if the system keeps the file in its page cache.
void Reader::cold() {
  std::vector<std::filesystem::path> files;
  for (const io::InputFile& each : source_->origin().files) files.push_back(each.path);
  const auto drop = [&] { io::prepare_cache(files, true); };
  drop();
  const auto share = io::cached_share(*source_, {0, source_->count()});
  if (io::page_cache_state(share) != "cold") {
    return bench_.note(
        fmt::format("Not read cold: after the request to drop the file, the page cache is {}.",
                    io::page_cache_state(share)));
  }
  const std::uint64_t block = std::min(plain_block, bytes_);
  const auto memory = std::make_unique<std::byte[]>(block);
  const Timing timing = time_blocks(
      block, memory.get(), [&](std::uint64_t) { drop(); }, [] {});
  add("H5Dread, cold", 1, block, timing, block, "page cache cold before");
}

/// Each block from the page cache, into which it is read before the time begins.
void Reader::by_hdf5(const Copy* to_gpu) {
  const std::uint64_t block = std::min(plain_block, bytes_);
  const auto memory = std::make_unique<std::byte[]>(block);
  const Timing timing = time_blocks(
      block, memory.get(),
      [&](std::uint64_t first) { source_->read(first / element_, block / element_, memory.get()); },
      [&] {
        if (to_gpu != nullptr) to_gpu->copy(memory.get(), block);
      });
  if (to_gpu == nullptr)
    return add("H5Dread", 1, block, timing, block, "each block was read before");
  bench_.verify(to_gpu->is_right(memory.get(), block), file_.file() + ": its copy on the GPU");
  add("H5Dread, copy", 1, block, timing, block, "each block was read before; then cudaMemcpy");
}

/// Pieces [first, first + count), by all threads.
void Reader::read_stretch(const io::Source& source, std::uint64_t first, std::uint64_t count,
                          const std::vector<io::AlignedBytes>& slots) {
  std::atomic<std::uint64_t> next = first;
  parallel_for(threads, threads, [&](std::uint64_t thread) {
    for (std::uint64_t piece = next++; piece < first + count; piece = next++) {
      const std::byte* const data = source.read_stored(
          piece * piece_bytes / element_, pieces_.bytes_of(piece) / element_, slots[thread].data());
      pieces_.note(piece, data);
    }
  });
}

/// A sample has many pieces, so that the end, when some threads have no piece left, does not
/// matter.
void Reader::direct() {
  std::unique_ptr<io::Source> source;
  try {
    source = file_.open(io::ReadWay::direct);
  } catch (const UsageError& error) {
    return bench_.note(fmt::format("Not read past the page cache: {}.", error.what()));
  }
  const std::string cache = page_cache_of(*source);
  std::vector<io::AlignedBytes> slots;
  for (unsigned i = 0; i < threads; ++i) {
    slots.emplace_back(io::DirectFile::block(), io::DirectFile::room(piece_bytes));
    std::memset(slots.back().data(), 1, io::DirectFile::room(piece_bytes));
  }
  const std::uint64_t usual = (std::uint64_t{bench_.is_quick() ? 1U : 4U} << 30) / piece_bytes;
  const std::uint64_t stretch = std::min(usual, pieces_.count());
  const std::uint64_t bytes = std::min(stretch * piece_bytes, bytes_);
  std::uint64_t next = 0;
  const Timing timing = bench_.sample([&] {
    const std::uint64_t first = next;
    next = (first + 2 * stretch) * piece_bytes <= bytes_ ? first + stretch : 0;
    const auto begin = Clock::now();
    read_stretch(*source, first, stretch, slots);
    return seconds_since(begin);
  });
  bench_.verify(pieces_.agree(), file_.file() + ": the data that was read past the page cache");
  add("O_DIRECT", threads, piece_bytes, timing, bytes, cache);
}

/// With `to_gpu`, also measures H5Dread followed by that copy, and compares with uploads.
Table read_in_all_ways(Bench& bench, const Copy* to_gpu) {
  const double link_up =
      to_gpu != nullptr ? bench.ceiling("link_up") : std::numeric_limits<double>::quiet_NaN();
  Reader reader(bench, DataFile(bench, "plain-reads.file"), link_up);
  // First, because H5Dread brings the data into the page cache.
  reader.direct();
  reader.cold();
  reader.by_hdf5(nullptr);
  if (to_gpu != nullptr) reader.by_hdf5(to_gpu);
  return std::move(reader).table();
}

}  // namespace

Table plain_reads_on_host(Bench& bench) {
  return read_in_all_ways(bench, nullptr);
}

}  // namespace shardstream::experiments::storage

#if SHARDSTREAM_HAS_CUDA
#include "experiments/gpu.hpp"

namespace shardstream::experiments::storage {

Table plain_reads(Bench& bench) {
  const DeviceArray<std::byte> memory(plain_block);
  const Copy to_gpu{.copy =
                        [&](const std::byte* from, std::uint64_t bytes) {
                          check(cudaMemcpy(memory.data(), from, bytes, cudaMemcpyHostToDevice),
                                "cudaMemcpy");
                          // From pageable memory it may return while the last part is still on its
                          // way.
                          check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
                        },
                    .is_right =
                        [&](const std::byte* from, std::uint64_t bytes) {
                          const std::vector<std::byte> back = memory.read(0, bytes);
                          return std::memcmp(back.data(), from, bytes) == 0;
                        }};
  return read_in_all_ways(bench, &to_gpu);
}

}  // namespace shardstream::experiments::storage
#endif  // SHARDSTREAM_HAS_CUDA
