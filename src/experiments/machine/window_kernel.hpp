// An all-reduce by a kernel of this program, which reads the windows of the other GPUs by NCCL's
// device functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "device/device.hpp"

struct ncclComm;
struct ncclWindow_vidmem;

namespace shardstream::experiments::machine {

/// A window of every rank: `count` floats to send at its beginning, and as many to receive
/// `receive_offset` bytes later.
struct SymmetricWindow {
  ncclWindow_vidmem* window;
  std::size_t receive_offset, count;
};

/// The kernel's barriers on a communicator, which must outlive the object.
class WindowKernel {
 public:
  virtual ~WindowKernel() = default;
  /// Releases the barriers. No kernel may run on any rank. Logs a warning if that fails.
  virtual void release() = 0;
  /// Enqueues `calls` all-reduces of the first `count` floats. Does not wait. Every rank enqueues
  /// the same. Throws Error if a launch fails.
  virtual void enqueue(device::Stream& stream, std::size_t count, unsigned calls) = 0;
};

/// The kernel of this rank, or null and the reason in `why`. All ranks call it together. `library`
/// is the version of NCCL's library as of ncclGetVersion.
std::unique_ptr<WindowKernel> make_window_kernel(ncclComm* comm, const SymmetricWindow& window,
                                                 int library, std::string& why);

}  // namespace shardstream::experiments::machine
