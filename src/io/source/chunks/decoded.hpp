// Decoded chunks that several reads share. Each chunk is decoded once, by one thread, and released
// when all of its elements have been read.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "io/source/chunks/decoding_memory.hpp"

namespace shardstream::io {

class DecodedChunks {
 public:
  /// Keeps up to `room` chunks of `chunk_bytes` bytes, in addition to those that are being decoded
  /// or read. If other users of `memory` leave less room, it keeps fewer, but at least two.
  DecodedChunks(std::uint64_t room, std::uint64_t chunk_bytes,
                std::shared_ptr<DecodingMemory> memory)
      : room_(room), chunk_bytes_(chunk_bytes), memory_(std::move(memory)) {}
  ~DecodedChunks();
  DecodedChunks(const DecodedChunks&) = delete;
  DecodedChunks& operator=(const DecodedChunks&) = delete;

  std::uint64_t room() const { return room_; }

  using Bytes = DecodingMemory::Bytes;

  /// The right and the duty to decode a chunk for which other threads wait. If a claim is destroyed
  /// without keep(), the next thread that calls find() gets a claim to the chunk.
  class Claim {
   public:
    Claim(DecodedChunks& owner, std::uint64_t number) : owner_(&owner), number_(number) {}
    Claim(Claim&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), number_(other.number_) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim();

    /// Shares the decoded chunk, of which `elements` elements have not been read yet.
    void keep(Bytes bytes, std::uint64_t elements) &&;

   private:
    DecodedChunks* owner_;
    std::uint64_t number_;
  };

  /// The bytes of a decoded chunk. If there are no bytes, the caller must decode the chunk if it
  /// has got a claim; otherwise another thread is decoding it.
  struct Found {
    Bytes bytes;
    std::optional<Claim> claim;
  };
  Found find(std::uint64_t number);
  /// The claim to a chunk that is neither decoded nor being decoded, if there is room for it.
  std::optional<Claim> find_ahead(std::uint64_t number);
  /// Waits while a thread is decoding the chunk.
  void wait(std::uint64_t number);
  /// Reports that `elements` elements of a chunk from find() have been read, and returns `bytes`.
  void used(std::uint64_t number, std::uint64_t elements, Bytes bytes);

  /// Memory for one chunk.
  Bytes memory() { return memory_->take(chunk_bytes_); }

 private:
  struct Entry {
    Bytes bytes;  // null while it is being decoded
    std::uint64_t elements = 0, last_use = 0;
    bool ahead = false;  // no read has asked for it yet
  };

  Entry& insert(std::uint64_t number);
  void finish(std::uint64_t number, Bytes bytes, std::uint64_t elements);
  void erase(std::map<std::uint64_t, Entry>::iterator entry);
  bool make_room(bool also_ahead);

  std::uint64_t room_, chunk_bytes_;
  std::shared_ptr<DecodingMemory> memory_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable decoded_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace shardstream::io
