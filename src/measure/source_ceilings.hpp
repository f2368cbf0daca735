// What limits the way of data from its source into host memory: storage, page cache, decoding, and
// the memory itself. All functions are collective and measure with all ranks at once, each for a
// fraction of a second; rates are in GB/s of data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/shard.hpp"
#include "io/source/source.hpp"
#include "launch/session.hpp"
#include "measure/ceilings.hpp"

namespace shardstream::measure {

/// How much of what all ranks read is in the page cache.
struct PageCache {
  std::string state;            ///< warm, partly, cold, unknown; empty when no file is read
  std::optional<double> share;  ///< of the bytes; nothing if a rank's system does not tell
};
PageCache page_cache(const launch::Session& session, const io::Source& source, Range shard);

/// How a run reads its source.
struct Readers {
  unsigned threads;     ///< of one rank
  std::uint64_t piece;  ///< elements that one of them reads at a time
};

/// Reads past the page cache of pieces spread over the shard, which stay as cold as they were.
/// Nothing where a rank's elements are not in a file as they are wanted, or its file system cannot
/// read so.
std::optional<Ceiling> storage_read(const launch::Session& session, const io::Source& source,
                                    Range shard, Readers readers);

/// Reads of pieces of the shard that are in the page cache, each reader into one piece of memory
/// of its own that stays in the processor's cache. Nothing where a rank has no such pieces.
std::optional<Ceiling> page_cache_read(const launch::Session& session, const io::Source& source,
                                       Range shard, Readers readers);

/// What the readers bring from the source, from the beginning of the shard on, when nothing is
/// uploaded: a generator's arithmetic, chunks that the readers decode, or H5Dread with all that it
/// does, storage included. What is read through the page cache is in it afterwards. Throws
/// AgreedError when a read fails.
std::optional<Ceiling> decode(const launch::Session& session, const io::Source& source, Range shard,
                              Readers readers);

/// What `threads` threads of each rank bring with read(place, room) in `seconds`, each into `room`
/// bytes of its own: read() returns how many bytes it brought, above 0, for any place. Throws
/// AgreedError when a read fails.
Ceiling reading(const launch::Session& session, const std::string& name, unsigned threads,
                std::uint64_t room, double seconds,
                const std::function<std::uint64_t(std::uint64_t place, std::byte* room)>& read);

/// What readers do for elements of this type, with access() of their source, in words: "f32,
/// contiguous". Rates of the same words are comparable. Neither the seed of a generator nor the
/// page cache is in them.
std::string reading_of(ElementType type, const std::string& access);

/// Those of the three that limit a run which reads the source as it is prepared.
std::vector<Ceiling> source_ceilings(const launch::Session& session, const io::Source& source,
                                     Range shard, Readers readers, const PageCache& cache);

/// Bytes for HostMemory: more than the last-level cache of `cache` bytes holds, which the ranks of
/// a host share, and an eighth of a rank's part of `free` bytes at the most.
std::uint64_t host_memory_sample(std::uint64_t cache, std::uint64_t free, unsigned ranks_on_host);

/// The ring of slots that a rank's readers fill.
struct Ring {
  unsigned readers;
  std::uint64_t slots, slot_bytes;
};

/// Memory of each rank to measure with, in huge pages.
class HostMemory {
 public:
  /// Makes the pages with `threads` threads. Throws AgreedError where there are too few.
  HostMemory(const launch::Session& session, unsigned threads, std::uint64_t bytes);
  ~HostMemory();

  /// Plain reads with all threads: host_memory_read.
  Ceiling read() const;
  /// Copies into the ring, which stays in the processor's caches where it fits: host_memory_copy,
  /// in bytes copied. Takes the ring's memory too.
  Ceiling copy(const Ring& ring) const;

 private:
  struct Pages;

  const launch::Session& session_;
  unsigned threads_;
  std::uint64_t bytes_;
  std::unique_ptr<const Pages> pages_;
};

}  // namespace shardstream::measure
