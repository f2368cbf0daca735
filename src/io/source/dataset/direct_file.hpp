// Direct reads past the page cache (O_DIRECT), in which storage writes into the caller's memory.
// Also the share of a file that is in the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string_view>

#include "core/descriptor.hpp"
#include "core/shard.hpp"

namespace shardstream::io {

/// Uninitialised memory of `bytes` bytes, a multiple of `alignment`, with this alignment.
class AlignedBytes {
 public:
  AlignedBytes(std::size_t alignment, std::size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(alignment, bytes))) {
    if (!data_) throw std::bad_alloc();
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// Opens an already open file again for direct reads. Reads consist of whole blocks, so the
/// requested bytes begin somewhere inside the first block of the destination.
class DirectFile {
 public:
  DirectFile() = default;
  /// Reads the first block as a test. If the file system does not support direct reads, valid() is
  /// false and errno is set.
  explicit DirectFile(const Descriptor& file);

  bool valid() const { return file_.valid(); }

  /// The size of a block and the alignment of a destination: a page, which suits every common file
  /// system and device. If a device needs more, the file is not valid().
  static std::uint64_t block();
  /// The size of a destination for `bytes` bytes from any offset: whole blocks.
  static std::uint64_t room(std::uint64_t bytes);
  /// The position of the bytes of a read at `offset` in its destination.
  static std::uint64_t head(std::uint64_t offset) { return offset % block(); }

  /// Reads up to `bytes` bytes at `offset` to `to` + head(offset). `to` must have room(bytes)
  /// bytes. Returns the number of bytes read, which is smaller only at the end of the file, or -1
  /// with errno. Thread-safe.
  std::int64_t read_at(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const;

 private:
  Descriptor file_;
};

/// The share (0 to 1) of the bytes [first, first + count) of `file` that are in the page cache,
/// estimated from one random page in each of up to `samples` equal intervals. Nothing if it is
/// unknown or there are no bytes. Uses cached_share_by_mapping(), else cached_share_by_reading().
std::optional<double> cached_share(const Descriptor& file, Range bytes,
                                   std::uint64_t samples = 512);

/// Uses mincore(). Does not change the cache. Returns nothing for a file that this process neither
/// owns nor may write.
std::optional<double> cached_share_by_mapping(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);
/// Uses reads that must not wait (RWF_NOWAIT). They may load a page that is not in the cache.
std::optional<double> cached_share_by_reading(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);

/// "warm" from 95 %, "cold" up to 5 %, "partly" between them, "unknown" for nothing.
std::string_view page_cache_state(std::optional<double> share);

}  // namespace shardstream::io
