// The interface between schedules and hardware (the seam). A schedule is written once against these
// classes. The backends host/ and cuda/ implement them with the same semantics, which are those of
// CUDA. Calls are made per batch of tens of MiB, never per element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernel.hpp"

namespace shardstream::device {

/// A point in the work of a stream, set by Stream::record(). After several calls of record(), it is
/// the latest point. Waiting for an event that was never recorded does nothing.
class Event {
 public:
  virtual ~Event() = default;
  /// Blocks the calling thread until the recorded point has been reached. Thread-safe: if another
  /// thread records the event again meanwhile, this call still waits for the earlier point.
  virtual void synchronize() = 0;
  /// Whether the recorded point has been reached. Does not block. True if nothing was recorded.
  virtual bool reached() const = 0;
  /// Seconds from `start` to this event. Both must have been reached and be made by
  /// make_timed_event().
  virtual double seconds_since(const Event& start) const = 0;
};

/// A type-erased kernel and its arguments, valid during one call.
struct KernelLaunch {
  const char* name;
  const void* args;
  std::size_t args_size;
  const void* kernel;
  std::size_t kernel_size;
  void (*host)(const void* kernel, const void* args, unsigned part, unsigned parts);
  void (*cuda)(const void* kernel, const void* args, CudaStream stream);
};

/// A queue of work that runs in order, concurrently with other streams. Every member except
/// synchronize() may return before the work is done. Until then, the caller must not change or free
/// host memory that it has passed. Not thread-safe.
///
/// The first error in the work of any stream becomes an error of the device: every synchronize() of
/// a stream throws it, and later work is skipped. On the host backend, events after skipped work
/// count as reached; on GPUs, their members throw the error.
class Stream {
 public:
  virtual ~Stream() = default;
  /// upload() and download() enqueue a copy and do not wait. The caller must neither free nor
  /// change the memory on either side before the copy is done.
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;
  /// Uploads rows that are dense on the host to rows with a pitch of `pitch` >= row_bytes bytes.
  virtual void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                           std::size_t rows) = 0;
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;
  /// Sets `event` to the end of all work enqueued so far.
  virtual void record(Event& event) = 0;
  /// Makes work that is enqueued from now on wait for the current point of `event`.
  virtual void wait(const Event& event) = 0;
  /// Blocks until all work is done. Throws Error after an error of the device.
  virtual void synchronize() = 0;

  /// Enqueues a kernel. The arguments are copied. Memory to which they point must outlive the work.
  template <class Args>
  void launch(const Kernel<Args>& kernel, const Args& args) {
    const KernelLaunch erased{kernel.name,    &args,         sizeof(Args), &kernel,
                              sizeof(kernel), on_host<Args>, on_cuda<Args>};
    launch_erased(erased);
  }

 protected:
  virtual void launch_erased(const KernelLaunch& launch) = 0;

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

/// Properties of a device.
struct DeviceInfo {
  std::string backend;             ///< "host" or "cuda"
  std::string name;                ///< "NVIDIA H100 80GB HBM3", or the processor's name
  std::string software;            ///< "CUDA runtime 13.0, driver 13.0"; empty for the host backend
  std::string uuid, pci;           ///< empty for the host backend
  int compute_capability = 0;      ///< 90 for 9.0; 0 for the host backend
  int multiprocessors = 0;         ///< their number; on the host backend the number of threads
  std::uint64_t memory_total = 0;  ///< bytes
  std::uint64_t memory_free = 0;   ///< bytes that were free when the device was opened
};

enum class Memory {
  device,  ///< memory for kernels
  /// The same. On the host backend, a page exists, on the NUMA node of the thread, as soon as it is
  /// used for the first time.
  untouched,
  pageable,  ///< ordinary host memory in huge pages; not for copies by streams
  pinned,    ///< host memory that streams copy from and to at full speed
  /// Pinned memory that bypasses the host's caches. The host should only write it, in order.
  write_combined,
  mapped,  ///< pinned memory that kernels can also read over the link
};

/// The priority of a stream. On a GPU, blocks of urgent kernels are scheduled before all other
/// waiting blocks. Ignored by the host backend.
enum class Priority { normal, urgent };

/// One GPU, or the CPUs that were granted to this process. Thread-safe except for the destructor.
/// Streams, events and memory must be destroyed before their device.
class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual std::unique_ptr<Stream> make_stream(Priority priority = Priority::normal) = 0;
  /// An event without a time. Recording it hardly delays later work of the stream.
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual std::unique_ptr<Event> make_timed_event() = 0;
  /// Allocates memory that is aligned to at least 256 bytes, and to a page if it is pinned. The
  /// caller releases it. Throws Error with the size if there is not enough memory. May synchronise
  /// the device, so do not call it in the timed part.
  virtual void* allocate(Memory kind, std::size_t bytes) = 0;
  virtual void release(Memory kind, void* data, std::size_t bytes) noexcept = 0;
};

}  // namespace shardstream::device
