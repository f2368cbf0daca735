#include "measure/source_ceilings.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "core/parallel.hpp"
#include "device/host/process_memory.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "measure/sample.hpp"

namespace shardstream::measure {

namespace {

using Clock = std::chrono::steady_clock;

/// Host memory in huge pages, all of which are touched before the timed part.
class MappedMemory {
 public:
  MappedMemory(std::uint64_t bytes, unsigned threads)
      : bytes_(bytes), data_(static_cast<std::byte*>(device::host::map_pages(bytes))) {
    device::host::touch_pages(data_, bytes_, threads);
  }
  ~MappedMemory() { device::host::unmap_pages(data_, bytes_); }
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  std::uint64_t bytes_;
  std::byte* data_;
};

/// Special values of a rank's rate in GB/s.
constexpr double nothing_to_read = -1, cannot_read = 0;

/// The ceiling from the rates of all ranks. Nothing if any rank could not read, or if no rank had
/// anything to read.
std::optional<Ceiling> agree(const ranks::Session& session, std::string name, double mine) {
  auto rates = session.gather(std::vector<double>{mine});
  std::erase(rates, nothing_to_read);
  if (rates.empty() || std::ranges::find(rates, cannot_read) != rates.end()) return std::nullopt;
  return Ceiling{.name = std::move(name),
                 .min = *std::ranges::min_element(rates),
                 .aggregate = std::accumulate(rates.begin(), rates.end(), 0.0),
                 .unit = "GB/s"};
}

/// The numbered pieces of a shard.
struct Pieces {
  Range shard;
  std::uint64_t elements;  // of one

  std::uint64_t count() const { return ceil_div(shard.count, elements); }
  Range operator[](std::uint64_t number) const {
    return intersection(shard, {shard.first + number * elements, elements});
  }
  /// A permutation of the piece numbers in which the first few are spread over the shard.
  std::uint64_t spread(std::uint64_t place) const {
    const std::uint64_t pieces = count();
    auto step = std::max<std::uint64_t>(1, pieces / 8 * 5);
    while (std::gcd(step, pieces) != 1) ++step;
    return place % pieces * step % pieces;  // with more than 2^32 pieces, some repeat
  }
};

/// Opens files for direct reads and keeps the last ones open. Thread-safe.
class DirectFiles {
 public:
  std::shared_ptr<const io::DirectFile> at(const Descriptor& file) {
    struct stat status {};
    if (::fstat(file.get(), &status) != 0) return std::make_shared<const io::DirectFile>();
    const std::lock_guard lock(mutex_);
    if (files_.size() == max_files) files_.clear();
    auto& found = files_[{status.st_dev, status.st_ino}];
    if (!found) found = std::make_shared<const io::DirectFile>(file);
    return found;
  }

 private:
  static constexpr std::size_t max_files = 16;

  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<const io::DirectFile>> files_;
};

bool stores_exactly(const io::Source& source) {
  const auto reads = source.file_reads();
  return reads && reads->is_exact;
}

/// Reads the stored elements with read(file, bytes), which returns the number of bytes or -1.
/// Returns their number, or 0 on failure: the run itself reports errors of files.
template <class Read>
std::uint64_t read_stored_bytes(const io::Source& source, Range elements, const Read& read) {
  std::uint64_t sum = 0;
  bool has_all = true;
  source.visit_stored(elements, [&](const Descriptor& file, Range bytes) {
    has_all = has_all && read(file, bytes) == static_cast<std::int64_t>(bytes.count);
    sum += bytes.count;
  });
  return has_all ? sum : 0;
}

/// How long a rate is measured. The fastest pass counts: other work on the machine, and whatever
/// happens for the first time, can only lower a rate.
struct Passes {
  unsigned count;
  double seconds;  ///< of each pass
};

/// Calls read(place, room) for places below `places` on `threads` threads, and returns the rate in
/// GB/s. A pass ends when its time is over or all places were read, and begins with the place at
/// which the pass before it ended. read() returns the number of bytes, or 0 on failure. Each thread
/// has its own memory of `room` bytes.
template <class Read>
double rate_of(const ranks::Session& session, std::uint64_t places, unsigned threads,
               std::uint64_t room, Passes passes, const Read& read) {
  std::optional<MappedMemory> memory;
  session.collectively([&] {
    if (places > 0) memory.emplace(room * threads, threads);
  });
  double best = 0;
  std::uint64_t first = 0;
  for (unsigned pass = 0; pass < passes.count; ++pass) {
    std::atomic<std::uint64_t> next = 0, bytes = 0;
    double took = 0;
    const auto read_all = [&] {
      const auto begin = Clock::now();
      parallel_for(places > 0 ? threads : 0, threads, [&](std::uint64_t thread) {
        for (std::uint64_t i = next++; i < places; i = next++) {
          const std::uint64_t got = read((first + i) % places, memory->data() + thread * room);
          bytes += got;
          if (got == 0 || TimeInterval{begin, Clock::now()}.seconds() > passes.seconds) return;
        }
      });
    };
    session.collectively([&] { took = time_in_step(session, read_all).seconds(); });
    best = std::max(best, static_cast<double>(bytes) / took / 1e9);
    if (places > 0) first = (first + std::min<std::uint64_t>(next, places)) % places;
  }
  return places == 0 ? nothing_to_read : best;
}

/// The rate of `pass(thread, number, piece)` over all pieces of `bytes` bytes, which `threads`
/// threads process in turn. The best of a few passes counts, since other work on the machine can
/// only lower the rate.
template <class Pass>
Ceiling memory_rate(const ranks::Session& session, std::string name, unsigned threads,
                    std::uint64_t bytes, std::uint64_t piece, const Pass& pass) {
  const auto whole_pass = [&](bool) {
    std::atomic<std::uint64_t> next = 0;
    parallel_for(threads, threads, [&](std::uint64_t thread) {
      for (std::uint64_t number = next++; number * piece < bytes; number = next++) {
        pass(thread, number, intersection({number * piece, piece}, {0, bytes}));
      }
    });
  };
  const auto rank = static_cast<std::size_t>(session.rank());
  const Samples passes = sample(session, {.warmup = 0, .repetitions = 4}, whole_pass);
  double best = cannot_read;
  for (const Repetition& once : passes.repetitions) {
    best = std::max(best, static_cast<double>(bytes) / once.ranks[rank] / 1e9);
  }
  return *agree(session, std::move(name), best);
}

/// Reads [data, end), whole lines of 64 bytes, with almost no arithmetic.
std::uint64_t sum(const std::byte* data, const std::byte* end) {
  using Vector [[gnu::vector_size(64)]] = std::uint64_t;
  Vector a{}, b{};
  for (; data + 2 * sizeof(Vector) <= end; data += 2 * sizeof(Vector)) {
    a += *reinterpret_cast<const Vector*>(data);
    b += *reinterpret_cast<const Vector*>(data + sizeof(Vector));
  }
  a += b;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < sizeof(Vector) / sizeof(total); ++i) total += a[i];
  return total;
}

}  // namespace

PageCache page_cache(const ranks::Session& session, const io::Source& source, Range shard) {
  const bool any = source.file_reads() && shard.count > 0;
  std::optional<double> share;
  session.collectively([&] {
    if (any) share = io::cached_share(source, shard);
  });
  const auto weight = static_cast<double>(any ? shard.count : 0);
  const auto all = session.gather(std::vector<double>{weight, share.value_or(-1)});
  double total = 0, cached = 0;
  bool known = true;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    total += all[i];
    cached += all[i] * all[i + 1];
    known = known && (all[i] == 0 || all[i + 1] >= 0);
  }
  if (total == 0) return {};
  PageCache result;
  if (known) result.share = cached / total;
  result.state = io::page_cache_state(result.share);
  return result;
}

std::optional<Ceiling> storage_read(const ranks::Session& session, const io::Source& source,
                                    Range shard, Readers readers) {
  const Pieces pieces{shard, readers.piece};
  DirectFiles files;
  bool is_readable = false;
  session.collectively([&] {
    if (shard.count == 0 || !stores_exactly(source)) return;
    source.visit_stored({shard.first, 1}, [&](const Descriptor& file, Range) {
      is_readable = files.at(file)->valid();
    });
  });
  const std::uint64_t max_bytes = readers.piece * source.stored_size();
  const double rate = rate_of(
      session, is_readable ? pieces.count() : 0, readers.threads, io::DirectFile::room(max_bytes),
      Passes{.count = 1, .seconds = 0.3}, [&](std::uint64_t place, std::byte* room) {
        return read_stored_bytes(source, pieces[pieces.spread(place)],
                                 [&](const Descriptor& file, Range bytes) {
                                   return files.at(file)->read_at(bytes.first, room, bytes.count);
                                 });
      });
  return agree(session, "storage_read", shard.count > 0 && !is_readable ? cannot_read : rate);
}

std::optional<Ceiling> page_cache_read(const ranks::Session& session, const io::Source& source,
                                       Range shard, Readers readers) {
  constexpr std::uint64_t max_pieces = 256, sampled_pages = 32;
  const Pieces pieces{shard, readers.piece};
  std::vector<Range> cached;
  session.collectively([&] {
    const std::uint64_t count = stores_exactly(source) ? std::min(pieces.count(), max_pieces) : 0;
    for (std::uint64_t place = 0; place < count; ++place) {
      const Range piece = pieces[pieces.spread(place)];
      if (io::cached_share(source, piece, sampled_pages) == 1.0) cached.push_back(piece);
    }
  });
  const std::uint64_t max_bytes = readers.piece * source.stored_size();
  const double rate = rate_of(
      session, cached.size(), readers.threads, max_bytes, Passes{.count = 3, .seconds = 0.05},
      [&](std::uint64_t place, std::byte* room) {
        return read_stored_bytes(source, cached[place], [&](const Descriptor& file, Range bytes) {
          return file.read_at(bytes.first, room, bytes.count);
        });
      });
  return agree(session, "page_cache_read", shard.count > 0 && cached.empty() ? cannot_read : rate);
}

std::optional<Ceiling> decode(const ranks::Session& session, const io::Source& source, Range shard,
                              Readers readers) {
  const Pieces pieces{shard, readers.piece};
  // Chunks that are still decoded ahead at the end of a pass are not counted, so the time must
  // suffice for many more chunks.
  const auto decoding = source.decoding();
  const double chunks = decoding ? 4 * static_cast<double>(decoding->per_reader) / 5e8 : 0;
  // The measurement takes a small part of the time of a shard.
  const auto bytes = static_cast<double>(shard.count * source.stored_size());
  const double enough = std::clamp(session.max(bytes) / 50e9, 0.01, 0.07);
  const Passes passes{.count = 3, .seconds = std::clamp(chunks, enough, 0.7)};
  const std::uint64_t elements_room =
      readers.convert ? io::DirectFile::room(readers.piece * size_of(source.type())) : 0;
  const double rate = rate_of(
      session, pieces.count(), readers.threads, elements_room + source.slot_bytes(readers.piece),
      passes, [&](std::uint64_t place, std::byte* room) {
        const Range piece = pieces[place];
        const std::byte* const stored =
            source.read_stored(piece.first, piece.count, room + elements_room);
        if (readers.convert) source.convert(piece.first, piece.count, stored, room);
        return piece.count * source.stored_size();
      });
  return agree(session, "decode", rate);
}

Ceiling read_rate(const ranks::Session& session, const std::string& name, unsigned threads,
                  std::uint64_t room, double seconds,
                  const std::function<std::uint64_t(std::uint64_t place, std::byte* room)>& read) {
  return *agree(
      session, name,
      rate_of(session, UINT64_MAX, threads, room, {.count = 4, .seconds = seconds}, read));
}

std::vector<Ceiling> source_ceilings(const ranks::Session& session, const io::Source& source,
                                     Range shard, Readers readers, const PageCache& cache) {
  const auto reads = source.file_reads();
  const bool only_read = session.max(stores_exactly(source) && !readers.convert ? 1 : 0) > 0;
  const bool past_cache = session.max(reads && reads->past_cache && shard.count > 0 ? 1 : 0) > 0;
  std::vector<Ceiling> ceilings;
  const auto add = [&](std::optional<Ceiling> ceiling) {
    if (!ceiling) return;
    ceilings.push_back(std::move(*ceiling));
    ceilings.back().on_path = true;
  };
  if (!only_read) {
    add(decode(session, source, shard, readers));
    for (auto& ceiling : ceilings) ceiling.conditions = read_conditions(source, readers.convert);
  } else {
    if (past_cache || cache.state == "cold" || cache.state == "partly") {
      add(storage_read(session, source, shard, readers));
    }
    if (!past_cache && (cache.state == "warm" || cache.state == "partly")) {
      for (auto& storage : ceilings) storage.on_path = false;  // cached data does not pass it
      add(page_cache_read(session, source, shard, readers));
    }
  }
  return ceilings;
}

std::string read_conditions(const io::Source& source, bool convert) {
  const std::string& access = source.access();
  const io::Conversions& conversions = source.conversions();
  const std::string type(conversions.empty() ? word_of(source.type())
                                             : word_of(conversions.front().from));
  const bool has_details = access.starts_with("contiguous") || access.starts_with("generated");
  return fmt::format("{}, {}", convert && !conversions.empty() ? io::text_of(conversions) : type,
                     has_details ? access.substr(0, access.find(',')) : access);
}

std::uint64_t host_memory_sample(std::uint64_t cache, std::uint64_t free, unsigned ranks_on_host) {
  constexpr std::uint64_t MiB = std::uint64_t{1} << 20;
  const std::uint64_t wanted = std::clamp(4 * cache / ranks_on_host, 256 * MiB, 2048 * MiB);
  return std::min(wanted, free / 8 / ranks_on_host) / MiB * MiB;
}

struct HostMemory::Pages : MappedMemory {
  using MappedMemory::MappedMemory;
};

HostMemory::HostMemory(const ranks::Session& session, unsigned threads, std::uint64_t bytes)
    : session_(session), threads_(threads), bytes_(bytes) {
  session.collectively([&] { pages_ = std::make_unique<const Pages>(bytes, threads); });
}

HostMemory::~HostMemory() = default;

Ceiling HostMemory::read() const {
  constexpr std::uint64_t piece = std::uint64_t{4} << 20;
  std::atomic<std::uint64_t> total = 0;  // keeps the compiler from removing the reads
  return memory_rate(session_, "host_memory_read", threads_, bytes_, piece,
                     [&](std::uint64_t, std::uint64_t, Range bytes) {
                       const std::byte* const data = pages_->data() + bytes.first;
                       total += sum(data, data + bytes.count);
                     });
}

Ceiling HostMemory::copy(const Ring& ring) const {
  // Each reader has its own slots and fills them in turn.
  const std::uint64_t own = std::max<std::uint64_t>(1, ring.slots / ring.readers);
  std::optional<MappedMemory> slots;
  session_.collectively([&] { slots.emplace(own * ring.readers * ring.slot_bytes, ring.readers); });
  return memory_rate(session_, "host_memory_copy", ring.readers, bytes_, ring.slot_bytes,
                     [&](std::uint64_t reader, std::uint64_t number, Range bytes) {
                       const std::uint64_t slot = reader * own + number / ring.readers % own;
                       std::memcpy(slots->data() + slot * ring.slot_bytes,
                                   pages_->data() + bytes.first, bytes.count);
                     });
}

}  // namespace shardstream::measure
