// Combining between ranks, on device memory and in the order of a stream.
#pragma once

#include <cstddef>
#include <memory>

#include "device/device.hpp"
#include "launch/session.hpp"

namespace shardstream::comm {

/// Every member is called by all ranks in the same order, by the thread that owns the MPI session.
/// After the call, later work of `stream` sees the result; a transport may block the caller.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// `receive` gets every rank's `bytes` bytes at `send`, in rank order. Both are device memory.
  virtual void all_gather(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;
};

/// Over MPI, staged through pinned memory. `most` is the largest `bytes` of any call. Device and
/// session must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const launch::Session& session,
                                                    std::size_t most);

}  // namespace shardstream::comm
