// The limits of reading a source into host memory: storage, page cache, decoding, and the memory
// itself. All functions are collective, measure with all ranks at work, and take a fraction of a
// second each. Rates are in GB/s of data.
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

/// The part of the data of all ranks that is in the page cache.
struct PageCache {
  std::string state;            ///< warm, partly, cold, unknown; empty if no file is read
  std::optional<double> share;  ///< of the bytes; nothing if it is unknown on any rank
};
PageCache page_cache(const launch::Session& session, const io::Source& source, Range shard);

/// The readers of a run.
struct Readers {
  unsigned threads;     ///< of one rank
  std::uint64_t piece;  ///< number of elements that a thread reads at a time
};

/// The rate of reading pieces spread over the shard past the page cache, whose state does not
/// change. Nothing if a rank's file does not contain the elements in the requested form, or its
/// file system does not support direct reads.
std::optional<Ceiling> storage_read(const launch::Session& session, const io::Source& source,
                                    Range shard, Readers readers);

/// The rate of reading pieces of the shard that are in the page cache. Each reader reads into one
/// piece of memory, which stays in the processor's cache. Nothing if a rank has no such pieces.
std::optional<Ceiling> page_cache_read(const launch::Session& session, const io::Source& source,
                                       Range shard, Readers readers);

/// The rate at which readers read the source from the beginning of the shard, without uploads: the
/// arithmetic of a generator, the decoding of chunks, or H5Dread, storage included. Data that is
/// read through the page cache stays in it. Throws AgreedError if a read fails.
std::optional<Ceiling> decode(const launch::Session& session, const io::Source& source, Range shard,
                              Readers readers);

/// The rate at which `threads` threads of each rank read with read(place, room): the best of four
/// passes of `seconds` seconds each. Each thread has its own memory of `room` bytes. read() accepts
/// any place and returns the number of bytes, which is above 0. Throws AgreedError if a read fails.
Ceiling read_rate(const launch::Session& session, const std::string& name, unsigned threads,
                  std::uint64_t room, double seconds,
                  const std::function<std::uint64_t(std::uint64_t place, std::byte* room)>& read);

/// The conditions of reading: "f32, contiguous". `access` is Source::access(). Rates with the same
/// conditions are comparable. The seed of a generator and the state of the page cache are not part
/// of the conditions.
std::string read_conditions(ElementType type, const std::string& access);

/// The ceilings storage_read, page_cache_read and decode that limit a run of the prepared source.
std::vector<Ceiling> source_ceilings(const launch::Session& session, const io::Source& source,
                                     Range shard, Readers readers, const PageCache& cache);

/// The size of HostMemory in bytes: larger than the rank's part of the last-level cache of `cache`
/// bytes, but at most an eighth of the rank's part of `free` bytes.
std::uint64_t host_memory_sample(std::uint64_t cache, std::uint64_t free, unsigned ranks_on_host);

/// The ring of slots that a rank's readers fill.
struct Ring {
  unsigned readers;
  std::uint64_t slots, slot_bytes;
};

/// Memory of each rank for measurements, in huge pages.
class HostMemory {
 public:
  /// Allocates and touches the pages with `threads` threads. Throws AgreedError if there is not
  /// enough memory. `session` must outlive the object.
  HostMemory(const launch::Session& session, unsigned threads, std::uint64_t bytes);
  ~HostMemory();

  /// The rate of reading with all threads: host_memory_read.
  Ceiling read() const;
  /// The rate of copying into the ring: host_memory_copy. The ring stays in the processor's caches
  /// if it fits. Allocates the ring too.
  Ceiling copy(const Ring& ring) const;

 private:
  struct Pages;

  const launch::Session& session_;
  unsigned threads_;
  std::uint64_t bytes_;
  std::unique_ptr<const Pages> pages_;
};

}  // namespace shardstream::measure
