// The seam between schedules and hardware. A schedule is written once against these classes; the
// backends host/ and cuda/ implement them with the same semantics, CUDA's. Calls are made per batch
// of tens of MiB, never per element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernel.hpp"

namespace shardstream::device {

/// A point in a stream's work. Recorded again, it means the latest point. Waiting for an event that
/// was never recorded is a no-op.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the calling thread until the recorded point has been reached. May be called by any
  /// thread, also while another one records it anew: it waits for what was recorded when called.
  virtual void synchronize() = 0;
  /// Whether the recorded point has been reached, without waiting for it; true if there is none.
  virtual bool reached() const = 0;
  /// Seconds from `start` to this point; both must have been reached, and be events of
  /// make_timed_event().
  virtual double seconds_since(const Event& start) const = 0;
};

/// A kernel and its arguments without their type, valid during one call.
struct Launch {
  const char* name;
  const void* args;
  std::size_t args_size;
  const void* kernel;
  std::size_t kernel_size;
  void (*host)(const void* kernel, const void* args, unsigned part, unsigned parts);
  void (*cuda)(const void* kernel, const void* args, CudaStream stream);
};

/// A queue whose work runs in order, beside that of other streams. Every member but synchronize()
/// returns before the work is done; host memory handed over must stay untouched until then. Not
/// thread-safe: one thread at a time uses a stream. The first error in the work of any stream is
/// the device's from then on: every synchronize() throws it, later work is skipped, events pass.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  /// Rows that lie dense on the host come to lie `apart` bytes, at least row_bytes, behind each
  /// other.
  virtual void upload_rows(void* device, std::size_t apart, const void* host, std::size_t row_bytes,
                           std::size_t rows) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  /// `event` means everything enqueued so far.
  virtual void record(Event& event) = 0;
  /// Work enqueued from now on starts after what `event` means now.
  virtual void wait(const Event& event) = 0;
  virtual void synchronize() = 0;

  /// Enqueues a kernel. The arguments are copied; what they point to must outlive the work.
  template <class Args>
  void launch(const Kernel<Args>& kernel, const Args& args) {
    const Launch erased{kernel.name,    &args,         sizeof(Args), &kernel,
                        sizeof(kernel), on_host<Args>, on_cuda<Args>};
    launch_erased(erased);
  }

 protected:
  virtual void launch_erased(const Launch& launch) = 0;

 private:
  template <class Args>
  static void on_host(const void* kernel, const void* args, unsigned part, unsigned parts) {
    static_cast<const Kernel<Args>*>(kernel)->host(*static_cast<const Args*>(args), part, parts);
  }
  template <class Args>
  static void on_cuda(const void* kernel, const void* args, CudaStream stream) {
    static_cast<const Kernel<Args>*>(kernel)->cuda(*static_cast<const Args*>(args), stream);
  }
};

/// What a device is, as far as the backend can tell.
struct DeviceInfo {
  std::string backend;         ///< "host" or "cuda"
  std::string name;            ///< "NVIDIA H100 80GB HBM3", or the processor's name
  std::string software;        ///< "CUDA runtime 13.0, driver 13.0"; empty on a host
  std::string uuid, pci;       ///< empty on a host
  int compute_capability = 0;  ///< 90 for 9.0; 0 on a host
  int multiprocessors = 0;     ///< of a GPU; threads of the team on a host
  std::uint64_t memory_total = 0, memory_free = 0;  ///< bytes; free when the device was opened
};

enum class Memory {
  device,          ///< where kernels work
  pageable,        ///< ordinary host memory, in huge pages: not for streams
  pinned,          ///< host memory that streams copy from and to at full speed
  write_combined,  ///< pinned, past the host's caches: for the host to write in order, never to
                   ///< read
  mapped,          ///< pinned, and kernels may read it where it is, over the link
};

/// Of a stream. On a GPU the blocks of urgent kernels take the places that others leave before all
/// that wait; a host takes no notice.
enum class Priority { normal, urgent };

/// One GPU, or the CPUs that were granted to this process. Thread-safe but for the destructor.
/// Streams, events and memory must be gone before their device.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::unique_ptr<Stream> make_stream(Priority priority = Priority::normal) = 0;
  /// For order alone: what stands behind it in a stream hardly waits for it to be recorded.
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Event> make_timed_event() = 0;
  /// Memory aligned to 256 bytes or more, pinned memory to a page; throws Error naming the size
  /// when there is not enough. Synchronises the device: not for the timed part.
  virtual void* allocate(Memory kind, std::size_t bytes) = 0;
  virtual void release(Memory kind, void* data, std::size_t bytes) noexcept = 0;
};

}  // namespace shardstream::device
