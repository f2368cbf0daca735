// The memory for decoding chunks. The readers of several files share one, so that the memory does
// not grow with the number of files. All functions are thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "io/source/chunks/filters.hpp"
#include "io/source/dataset/direct_file.hpp"

namespace shardstream::io {

class DecodingMemory {
 public:
  /// The memory for decoded chunks that a process keeps by default, in bytes.
  static constexpr std::uint64_t usual_bytes = std::uint64_t{256} << 20;

  /// Decoded chunks may have `max_bytes` bytes together. The owners of chunks observe this limit.
  explicit DecodingMemory(std::uint64_t max_bytes = usual_bytes) : max_bytes_(max_bytes) {}

  std::uint64_t max_bytes() const { return max_bytes_; }

  /// Lends the working memory of one thread.
  class Loan {
   public:
    explicit Loan(DecodingMemory& memory);
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    DecodingRoom& room() const { return *room_; }

   private:
    DecodingMemory& memory_;
    std::unique_ptr<DecodingRoom> room_;
  };

  /// The bytes of a decoded chunk.
  using Bytes = std::shared_ptr<AlignedBytes>;
  /// Memory for a chunk of `bytes` bytes, out of released ones if possible.
  Bytes take(std::uint64_t bytes);
  /// Keeps the memory of a chunk of `bytes` bytes for take(). Threads may still read it.
  void release(Bytes memory, std::uint64_t bytes);
  /// A thread has read from `memory`. Such threads must call it, so that take() sees all ends.
  void end_use(Bytes memory);

  /// Counts a decoded chunk of `bytes` bytes, before it is decoded; remove() ends this.
  void add(std::uint64_t bytes);
  void remove(std::uint64_t bytes);
  /// Whether the limit allows another chunk of `bytes` bytes.
  bool has_room(std::uint64_t bytes) const;

 private:
  static constexpr std::size_t max_spare = 2;

  struct Spare {
    Bytes memory;
    std::uint64_t bytes;
  };

  std::uint64_t max_bytes_;
  mutable std::mutex mutex_;  // guards everything below
  std::vector<std::unique_ptr<DecodingRoom>> rooms_;
  std::vector<Spare> spare_;
  std::uint64_t used_ = 0;  // bytes of decoded chunks
};

}  // namespace shardstream::io
