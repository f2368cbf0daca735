// Collectives between ranks, on device memory and in the order of a stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "ranks/session.hpp"

namespace shardstream::comm {

/// The type of the values in a sum.
enum class SumType { f32, f64, i64 };

/// Bytes of one value.
constexpr std::size_t size_of(SumType type) {
  return type == SumType::f32 ? 4 : 8;
}

/// All ranks of the session, or some of them. The members are collective, except rank(), size(),
/// transport(), blocks() and network(). All ranks call collective members in the same order and
/// with the same sizes, in the thread that owns the MPI session. The destructor is collective too,
/// and all collectives must have ended before it.
///
/// All memory is device memory. A collective is enqueued on `stream`: later work of the stream sees
/// the result. Some transports block the caller. A collective may be enqueued on one stream before
/// an earlier one on another stream has ended. Without bytes or values, nothing happens.
///
/// While a collective waits for the other ranks, this rank counts as waiting for them, so that the
/// watchdog does not report it as the rank that hangs.
///
/// A rank that belongs to several communicators enqueues all their collectives on one stream, and
/// all ranks use the same order. Otherwise collectives of NCCL may wait for one another for ever.
///
/// The library decides in which order floating-point values are added: it can depend on the
/// transport, the number of ranks, the hosts and the position of a value. Code that needs the same
/// bits everywhere gathers the values and adds them in a fixed order. Integers wrap around.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// The transport, as the option comm.transport names it: "mpi" or "nccl".
  virtual std::string transport() const = 0;

  /// Whether a collective blocks the caller until it has ended. If not, it may still block the
  /// caller until the other ranks have begun it.
  virtual bool blocks() const = 0;

  /// The network between hosts: NCCL's name for it ("IB", "Socket", a plugin's name), "MPI",
  /// "within one host", or "unknown". The same on every rank. After split(), that of the whole.
  virtual std::string network() const = 0;

  /// This rank's number in this communicator, and the number of its ranks.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// A communicator of the ranks that pass the same `color` >= 0, ordered by `key`, then by their
  /// rank here. It has the same transport and its own staging memory. Only the communicator of all
  /// ranks can be split, after all its collectives have ended (wait()). Throws AgreedError if a
  /// part cannot start. Device and session must outlive the part; this communicator need not.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Copies every rank's `bytes` bytes at `send` to `receive`, in rank order: those of rank r to
  /// offset r * bytes. `send` may be this rank's own place in `receive`; otherwise the two must not
  /// overlap.
  virtual void all_gather(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;

  /// Sends `bytes` bytes to every rank: those for rank r are at offset r * bytes of `send`.
  /// `receive` gets the bytes from rank r at offset r * bytes. The two must not overlap.
  virtual void all_to_all(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;

  /// Every rank has `count` values for each rank at `send`: those for rank r begin at value
  /// r * count. `receive` gets the sums of all ranks' values for this rank. It may be the place of
  /// these values in `send`; otherwise the two must not overlap.
  virtual void reduce_scatter(device::Stream& stream, const void* send, void* receive,
                              std::size_t count, SumType type) = 0;

  /// Adds every rank's `count` values at `send` into `receive`, with the same bits on all ranks.
  /// The two are the same memory or do not overlap.
  virtual void all_reduce(device::Stream& stream, const void* send, void* receive,
                          std::size_t count, SumType type) = 0;

  /// Copies `bytes` bytes at `data` from rank `root` to all other ranks.
  virtual void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) = 0;

  /// Connects each rank with every other one. Otherwise the first all_to_all() does, which takes
  /// more than a second with NCCL on some hosts. Waits for all ranks.
  virtual void connect() {}

  /// Waits for all work of a stream that collectives were enqueued on. Afterwards this rank does
  /// not count as waiting in any of them. Throws what Stream::synchronize() throws.
  virtual void wait(device::Stream& stream) = 0;

  /// Announces that the process is about to end. The destructor then leaves slow clean-up, which
  /// takes 0.5 s with NCCL, to the end of the process. Call it only after all collectives of all
  /// ranks have ended.
  virtual void leave() {}
};

/// A communicator of all ranks over MPI, staged through pinned memory. Its collectives block the
/// caller. They transfer pieces of at most `piece` bytes per rank, a multiple of 8 below 2 GiB. It
/// allocates mpi_staging_bytes() of pinned memory. Device and session must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const ranks::Session& session,
                                                    std::size_t piece);

/// Bytes of two slots, each with one piece per rank and one more.
constexpr std::size_t mpi_staging_bytes(std::size_t piece, std::size_t ranks) {
  return 2 * (ranks + 1) * piece;
}

/// The piece of a run. Pieces of more than 256 KiB are hardly faster between ranks of one host.
/// With many ranks, pieces are smaller, so that each rank pins at most 16 MiB. A piece has at least
/// one page, since smaller ones would spend their time in calls.
constexpr std::size_t mpi_piece(int ranks) {
  constexpr std::size_t max = std::size_t{256} << 10, min = 4096;
  constexpr std::size_t max_pinned = std::size_t{16} << 20;
  const std::size_t shares = mpi_staging_bytes(1, static_cast<std::size_t>(ranks));
  return std::clamp(max_pinned / shares / 8 * 8, min, max);
}

/// A communicator of all ranks over NCCL. `device` is a GPU and current in the calling thread. Its
/// collectives do not block the caller, except that NCCL may connect the ranks in the first call of
/// each kind. Creating it is collective and throws AgreedError if NCCL cannot start. A rank that
/// waits inside a call of NCCL counts as waiting; if NCCL never finishes starting, only the
/// watchdog ends the job. Device and session must outlive it.
///
/// NCCL starts in a thread of its own, and the calling thread calls `meanwhile`. It may make
/// collective calls of the session and allocate memory, but it must not launch kernels. It throws
/// on all ranks or on none; its exception is passed on when NCCL has started or failed to start.
///
/// Unless the user has set NCCL_DEBUG, NCCL's log is kept in memory from here on: it has the
/// network and the causes of failures. Throws ContractError in a build without NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(device::Device& device,
                                                     const ranks::Session& session,
                                                     const std::function<void()>& meanwhile);

/// The version of the loaded library, such as "2.28.3"; empty in a build without NCCL.
std::string nccl_version();

}  // namespace shardstream::comm
