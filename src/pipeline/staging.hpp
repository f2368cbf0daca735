// The first ring: small pinned slots. Each reader thread has slots of its own; it fills one,
// enqueues its upload itself, and fills it again once that upload is done. A single thread that
// enqueued for all would have to be woken for every piece, which costs as much as a small piece's
// copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "measure/recorder.hpp"

namespace shardstream::pipeline {

/// Brings numbered pieces through pinned slots. The slots are allocated once; start() may be called
/// again after finish().
class Staging {
 public:
  /// Fills `slot` with piece number `piece` and returns where in the slot the data begin; called by
  /// the reader threads, several at once, each with its own track.
  using Read = std::function<const std::byte*(std::uint64_t piece, std::byte* slot,
                                              measure::HostTrack& reader)>;
  /// Enqueues the upload of the piece's data and records `emptied` behind it; called by the reader
  /// that has read the piece. Returns at once, whatever else it waits for, when `stop` is
  /// requested.
  using Upload =
      std::function<void(std::uint64_t piece, const std::byte* data, device::Event& emptied,
                         measure::HostTrack& reader, const std::stop_token& stop)>;

  /// The readers' tracks are "reader 0", "reader 1", ...; there are at least as many slots as
  /// readers.
  Staging(device::Device& device, measure::Recorder& recorder, std::size_t slot_bytes,
          std::uint64_t slots, unsigned readers);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Starts the readers on pieces 0..pieces-1, which they take in that order.
  void start(std::uint64_t pieces, Read read, Upload upload);
  /// Requested when a reader has thrown or finish() is called.
  std::stop_token stopping() const { return stop_.get_token(); }
  /// Throws what a reader has thrown, if one has.
  void rethrow();
  /// Waits for the readers, which take no more pieces. Throws nothing.
  void finish() noexcept;

 private:
  void read_pieces(unsigned reader);

  device::Buffer<std::byte> memory_;
  std::size_t slot_bytes_;
  std::vector<std::unique_ptr<device::Event>> emptied_;  // one a slot, behind its last upload
  std::vector<measure::HostTrack*> tracks_;

  std::uint64_t pieces_ = 0;
  Read read_;
  Upload upload_;
  std::atomic<std::uint64_t> next_ = 0;
  std::stop_source stop_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace shardstream::pipeline
