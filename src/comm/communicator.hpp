// Combining between ranks, on device memory and in the order of a stream.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "launch/session.hpp"

namespace shardstream::comm {

/// Every member is called by all ranks in the same order, by the thread that owns the MPI session.
/// After the call, later work of `stream` sees the result; a transport may block the caller.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// What carries the bytes, as comm.transport names it: "mpi" or "nccl".
  virtual std::string transport() const = 0;

  /// What carries them between hosts: NCCL's word for it ("IB", "Socket", a plugin's name), "MPI",
  /// "within one host", or "unknown". The same on every rank.
  virtual std::string network() const = 0;

  /// `receive` gets every rank's `bytes` bytes at `send`, in rank order. Both are device memory.
  virtual void all_gather(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;

  /// Waits for all work of a stream that was given to a collective. Where a collective ends only
  /// when the other ranks come to it, this rank counts as waiting for them, so that the watchdog
  /// does not take it for the one that hangs. Throws what Stream::synchronize() throws.
  virtual void wait(device::Stream& stream) = 0;
};

/// Over MPI, staged through pinned memory; blocks the caller. `most` is the largest `bytes` of any
/// call. Device and session must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const launch::Session& session,
                                                    std::size_t most);

/// Over NCCL, on `device`, a GPU, which is current in the calling thread; blocks nobody.
/// Collective; throws AgreedError when it cannot start, or has not after `timeout` seconds. Device
/// and session must outlive it. Unless the user has set NCCL_DEBUG, NCCL's log goes to memory from
/// here on: it tells the network, and why something failed. Only in builds with NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(device::Device& device,
                                                     const launch::Session& session,
                                                     double timeout);

/// "2.28.3", of the library that is loaded; empty in a build without NCCL.
std::string nccl_version();

}  // namespace shardstream::comm
