// Reads past the page cache (O_DIRECT): storage writes into the caller's memory itself. And whether
// a file's bytes are in that cache, so that reading them needs no storage.
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

/// `bytes` bytes, a multiple of `alignment`, aligned to it; not initialised.
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

/// A file that is open already, opened once more for such reads. They come in whole blocks, so what
/// was asked for begins somewhere in the first block of the room that it is given.
class DirectFile {
 public:
  DirectFile() = default;
  /// Reads the first block, to see that the file system can do it; not valid() when it cannot,
  /// errno says why.
  explicit DirectFile(const Descriptor& file);

  bool valid() const { return file_.valid(); }

  /// A block, which the room for a read must be aligned to: a page, which suits every common file
  /// system and device. Where one wants more, the file is not valid().
  static std::uint64_t block();
  /// Room for `bytes` bytes from any offset: whole blocks.
  static std::uint64_t room(std::uint64_t bytes);
  /// Where the bytes of a read at `offset` begin in its room.
  static std::uint64_t head(std::uint64_t offset) { return offset % block(); }

  /// Reads up to `bytes` at `offset` to `to` + head(offset), where `to` has room(bytes), and
  /// returns how many of them there were before the end of the file, or -1 with errno. Safe from
  /// several threads.
  std::int64_t read_at(std::uint64_t offset, std::byte* to, std::uint64_t bytes) const;

 private:
  Descriptor file_;
};

/// Share (0 to 1) of the bytes [first, first + count) of `file` that are cached, from one random
/// page in each of up to `samples` equal stretches; nothing where the system does not tell, and for
/// no bytes. What the first of the two ways below cannot say, the second does.
std::optional<double> cached_share(const Descriptor& file, Range bytes,
                                   std::uint64_t samples = 512);

/// By mincore(). Leaves the cache as it is; says nothing of a file that this process neither owns
/// nor may write to.
std::optional<double> cached_share_by_mapping(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);
/// By reads that must not wait. A page that is not there may be brought in by that.
std::optional<double> cached_share_by_reading(const Descriptor& file, Range bytes,
                                              std::uint64_t samples);

/// "warm" from 95 %, "cold" up to 5 %, "partly" between them, "unknown" for nothing.
std::string_view page_cache_state(std::optional<double> share);

}  // namespace shardstream::io
