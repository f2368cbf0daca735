// The limits of reading a source into host memory: storage, page cache, decoding, and the memory
// itself. The functions that measure are collective: all ranks work at the same time, for a
// fraction of a second. Rates are in GB/s of stored data (of all data, for a generator).
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
#include "measure/ceilings.hpp"
#include "ranks/session.hpp"

namespace shardstream::measure {

/// The part of the data of all ranks that is in the page cache.
struct PageCache {
  std::string state;            ///< warm, partly, cold, unknown; empty if no file is read
  std::optional<double> share;  ///< fraction of the bytes; nothing if it is unknown on any rank
};
/// Collective.
PageCache page_cache(const ranks::Session& session, const io::Source& source, Range shard);

/// The readers of a run.
struct Readers {
  unsigned threads;      ///< of one rank
  std::uint64_t piece;   ///< number of elements that a thread reads at a time
  bool convert = false;  ///< whether they convert stored elements
};

/// The rate of direct reads, which bypass the page cache and do not change its state. The pieces
/// that are read are spread over the shard. Returns nothing if the stored elements are not
/// adjacent in a rank's file, or if its file system does not support direct reads.
std::optional<Ceiling> storage_read(const ranks::Session& session, const io::Source& source,
                                    Range shard, Readers readers);

/// The rate of reading pieces of the shard that are in the page cache. Each reader always reads
/// into the same memory, which stays in the processor's cache. Returns nothing if a rank has no
/// such pieces.
std::optional<Ceiling> page_cache_read(const ranks::Session& session, const io::Source& source,
                                       Range shard, Readers readers);

/// The rate at which readers read the source, from the beginning of the shard, without uploads. It
/// includes the arithmetic of a generator, the decoding of chunks, H5Dread, and the storage. Data
/// that is read through the page cache stays in it. Throws AgreedError if a read fails.
std::optional<Ceiling> decode(const ranks::Session& session, const io::Source& source, Range shard,
                              Readers readers);

/// The rate at which `threads` threads of each rank read with read(place, memory): the best of four
/// passes of `seconds` seconds each. Each thread has its own memory of `room` bytes. `place` is the
/// number of a piece; read() accepts any number, and returns the number of bytes that it has read,
/// which is above 0. Throws AgreedError if a read fails.
Ceiling read_rate(const ranks::Session& session, const std::string& name, unsigned threads,
                  std::uint64_t room, double seconds,
                  const std::function<std::uint64_t(std::uint64_t place, std::byte* memory)>& read);

/// The conditions of a rate of reading, in words: "f32, contiguous", or "i16 to f32, contiguous" if
/// readers `convert` stored elements. Rates are comparable if their conditions are equal. The seed
/// of a generator and the state of the page cache are not part of the conditions. Not collective.
std::string read_conditions(const io::Source& source, bool convert);

/// The ceilings that limit a run with this source, out of storage_read, page_cache_read and decode.
/// Collective.
std::vector<Ceiling> source_ceilings(const ranks::Session& session, const io::Source& source,
                                     Range shard, Readers readers, const PageCache& cache);

/// The number of bytes for HostMemory. It is larger than the rank's part of the last-level cache of
/// `cache` bytes, but at most an eighth of the rank's part of `free` bytes. Not collective.
std::uint64_t host_memory_sample(std::uint64_t cache, std::uint64_t free, unsigned ranks_on_host);

/// The ring of slots that a rank's readers fill.
struct Ring {
  unsigned readers;
  std::uint64_t slots, slot_bytes;
};

/// Memory of each rank for measurements, in huge pages. All members are collective.
class HostMemory {
 public:
  /// Allocates and touches the pages with `threads` threads. Throws AgreedError if there is not
  /// enough memory. `session` must outlive the object.
  HostMemory(const ranks::Session& session, unsigned threads, std::uint64_t bytes);
  ~HostMemory();

  /// The rate at which all threads read this memory: host_memory_read.
  Ceiling read() const;
  /// The rate at which they copy it into a ring of slots, which is allocated here:
  /// host_memory_copy. The ring stays in the processor's caches if it fits.
  Ceiling copy(const Ring& ring) const;

 private:
  struct Pages;

  const ranks::Session& session_;
  unsigned threads_;
  std::uint64_t bytes_;
  std::unique_ptr<const Pages> pages_;
};

}  // namespace shardstream::measure
