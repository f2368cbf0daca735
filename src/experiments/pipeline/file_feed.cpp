// The way of a file to the device: the readers of a run fill pinned slots, the slots are copied to
// the device, and a kernel adds up the data. Two stages are also measured alone: the readers
// without copies, and copies without readers. The slower one bounds the rate.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/pipeline/fed_sum.hpp"
#include "experiments/storage/data_file.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "runtime/runtime.hpp"

namespace shardstream::experiments::feeds {

constexpr OptionRow options[] = {
    {"file-feed.file", OptionKind::text, "", "",
     "The data set to read, FILE.h5:/PATH; shardstream generate writes one."},
};

Table file_feed(Bench& bench);

namespace {

/// The lower one of the two ceilings: the readers alone, and plain copies.
double expected_rate(const MeasuredRow& row) {
  const std::string name = row.text("case");
  const std::size_t end = name.find(", fed");
  if (end == std::string::npos) return std::nan("");
  const std::string readers = name.substr(0, end) + ", readers";
  return std::min(row.measured({{"case", readers}}, {"at_once"}),
                  row.measured({{"case", "plain copies"}}));
}

}  // namespace

extern const Experiment about_file_feed = {
    .name = "file-feed",
    .group = "pipeline",
    .summary =
        "A file is fed to a kernel at the rate of its readers or of copies, whichever is slower.",
    .explanation =
        {
            .question = "Do the readers or the copies limit how fast a file is fed to a kernel?",
            .varies =
                "A data set goes from a file to a kernel that adds it up, as in a run with "
                "pipeline.mode stream: threads read pieces into pinned slots, each slot is copied "
                "to the device, and the kernel reads batches. The file is read past the page cache "
                "(direct, by O_DIRECT) and through it (cached). Two ceilings are measured as well: "
                "the readers without copies, and plain copies without readers. A pass reads at "
                "most 4 GiB, with --quick 1 GiB. With several ranks, each rank first reads the "
                "beginning of the file alone; then all ranks read their own parts at once. The "
                "rate is that of each rank. To write a file: shardstream generate --input.count "
                "2^32 -o FILE.h5:/x. The experiment plain-reads shows the rate of simple code for "
                "the same file.",
            .expectation =
                "The lower one of the two ceilings bounds the rate, and the remark names it. "
                "Expect a share above 0.9.",
            .pitfalls =
                "A file may already be in the page cache. In the rows `direct, readers` and "
                "`cached, readers`, the remark tells whether it was; O_DIRECT bypasses that cache. "
                "`cached` is measured after an untimed pass that brings the data into the cache as "
                "far as it fits. The sum of the words of the data must equal that of the elements "
                "from H5Dread.",
        },
    .read_on = {{Guide::best_practices, "Pinned Memory"},
                {Guide::best_practices, "Asynchronous and Overlapping Transfers with Computation"},
                {Guide::project, "src/pipeline/README.md"}},
    .share = "of the lower one of two ceilings: the readers alone, and plain copies",
    .options = options,
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s at which a file is fed past the page cache and "
                         "from it, if the readers alone reach 1.8 and 42 GB/s, and plain copies 52 "
                         "GB/s.",
                 .rows = {{{"case", "direct, fed"}}, {{"case", "cached, fed"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "rate"},
    .needs = {.file = "file-feed.file"},
    .turns = Turns::both,
    .run = file_feed,
    .run_host = file_feed,
};

namespace {

using storage::DataFile;

/// The elements that a pass of this rank reads: at most 4 GiB, so that slow storage takes only
/// seconds.
Range elements_to_read(const Bench& bench, const io::Source& source) {
  const std::uint64_t max = std::uint64_t{bench.is_quick() ? 1U : 4U} << 30;
  const Range mine =
      shardstream::shard(source.count(), feed_unit, static_cast<std::uint64_t>(bench.rank()),
                         static_cast<std::uint64_t>(bench.at_once()));
  return intersection(mine, {mine.first, max / source.stored_size()});
}

/// The part of the data set that this rank reads.
class FileShard {
 public:
  FileShard(Bench& bench, std::unique_ptr<io::Source> source)
      : bench_(bench), source_(std::move(source)), shard_(elements_to_read(bench, *source_)) {
    if (shard_.count == 0) {
      throw NotAvailable(fmt::format("{} has too few elements: {}, less than 65536 for each rank",
                                     source_->name(), source_->count()));
    }
    source_->prepare(shard_);
    sizes_ = sizes_for(bench, "stream", *source_, shard_);
  }

  const io::Source& source() const { return *source_; }
  const shardstream::pipeline::Sizes& sizes() const { return sizes_; }
  Range shard() const { return shard_; }
  std::uint64_t bytes() const { return shard_.count * source_->stored_size(); }

  /// Times the readers with their slots, without copies.
  Timing time_readers() const {
    const std::uint64_t room = source_->slot_bytes(sizes_.slot);
    std::vector<io::AlignedBytes> slots;
    for (unsigned i = 0; i < sizes_.readers; ++i) {
      slots.emplace_back(io::DirectFile::block(), room);
      std::memset(slots.back().data(), 1, room);
    }
    const std::uint64_t pieces = ceil_div(shard_.count, sizes_.slot);
    const auto read = [&] {
      std::atomic<std::uint64_t> next = 0;
      parallel_for(sizes_.readers, sizes_.readers, [&](std::uint64_t reader) {
        for (std::uint64_t i = next++; i < pieces; i = next++) {
          const Range piece = intersection(shard_, {shard_.first + i * sizes_.slot, sizes_.slot});
          (void)source_->read_stored(piece.first, piece.count, slots[reader].data());
        }
      });
    };
    return time_passes(bench_, read, [] {});
  }

  /// Times the whole way. Every sum must equal the one of the elements from H5Dread.
  Timing time_feed(const io::Source& plain) const {
    FedSum fed(bench_, *source_, shard_, sizes_);
    std::vector<std::uint64_t> sums;  // checked last, as that reads the file
    const auto keep = [&] {
      fed.settle();
      sums.push_back(fed.sum());
    };
    const Timing timing = time_passes(
        bench_, [&] { fed.run(); }, keep);
    const std::uint64_t expected = reference_sum(plain, shard_, bench_.resources().threads);
    for (const std::uint64_t sum : sums) {
      bench_.verify(sum == expected,
                    fmt::format("{}: the sum of the data that was fed", source_->name()));
    }
    return timing;
  }

 private:
  Bench& bench_;
  std::unique_ptr<io::Source> source_;
  Range shard_;
  shardstream::pipeline::Sizes sizes_;
};

/// The table, with the rows of each way of reading.
class Rows {
 public:
  explicit Rows(Bench& bench) : bench_(bench) {}

  /// Measures the readers and the whole way; the first call also measures plain copies.
  void measure(const std::string& way, const FileShard& part, const io::Source& plain) {
    if (copies_ == 0) copies_ = plain_copies_of(part);
    const std::string cache = storage::page_cache_of(part.source());
    const double readers =
        add(way + ", readers", part, part.time_readers(), part.bytes(), std::nan(""), cache);
    add(way + ", fed", part, part.time_feed(plain), part.bytes(), std::min(readers, copies_),
        readers < copies_ ? "bound by the readers" : "bound by copies");
  }
  Table table() && { return std::move(rows_).table(); }

 private:
  double plain_copies_of(const FileShard& part) {
    const std::uint64_t bytes = std::min(part.bytes(), std::uint64_t{256} << 20);
    return add("plain copies", part, plain_copies(bench_, bytes), bytes, std::nan(""), "a ceiling");
  }

  double add(const std::string& name, const FileShard& part, const Timing& timing,
             std::uint64_t bytes, double ceiling, const std::string& remark) {
    const Measured rate = timing.rate(static_cast<double>(bytes));
    const std::uint64_t slot = part.sizes().slot * size_of(part.source().type());
    rows_.add({name, std::int64_t{bench_.at_once()}, std::int64_t{part.sizes().readers},
               static_cast<std::int64_t>(slot), static_cast<std::int64_t>(bytes)},
              rate, rate.value / ceiling,
              is_above_ceiling(rate.value / ceiling) ? above_ceiling : remark);
    return rate.value;
  }

  Bench& bench_;
  Measurements rows_{{{"case", ColumnType::text},
                      {"at_once", ColumnType::integer, "ranks"},
                      {"readers", ColumnType::integer},
                      {"slot", ColumnType::integer, "B"},
                      {"bytes", ColumnType::integer, "B"}},
                     {"rate", ColumnType::real, "GB/s"}};
  double copies_ = 0;  ///< GB/s
};

/// The data set, to be read past the page cache; null, with a note, if that is impossible.
std::unique_ptr<io::Source> open_direct(Bench& bench, const DataFile& file) {
  try {
    return file.open(io::ReadWay::direct);
  } catch (const UsageError& error) {
    bench.note(fmt::format("Not read past the page cache: {}.", error.what()));
    return nullptr;
  }
}

}  // namespace

Table file_feed(Bench& bench) {
  const DataFile file(bench, "file-feed.file");
  const auto plain = file.open(io::ReadWay::by_library);
  Rows rows(bench);
  // This comes first, because the other ways bring the data into the page cache.
  if (auto source = open_direct(bench, file)) {
    rows.measure("direct", FileShard(bench, std::move(source)), *plain);
  }
  rows.measure("cached", FileShard(bench, file.open(io::ReadWay::cached)), *plain);
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::feeds
