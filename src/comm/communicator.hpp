// Combining between ranks, on device memory and in the order of a stream.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/device.hpp"
#include "launch/session.hpp"

namespace shardstream::comm {

/// What the values of a sum are.
enum class SumType { f32, f64, i64 };

constexpr std::size_t size_of(SumType type) {
  return type == SumType::f32 ? 4 : 8;
}

/// All ranks of the session, or a part of them. Every member but rank(), size() and the names is
/// called by all of its ranks in the same order and with the same sizes, by the thread that owns
/// the MPI session; it is destroyed so, too, once all that it was given has ended. All memory is
/// device memory. After the call, later work of `stream` sees the result; a transport may block the
/// caller. What one stream was given need not have ended before another one is given more. Nothing
/// happens where there are no bytes or values.
///
/// While a collective is under way that ends only when the other ranks come to it, this rank counts
/// as waiting for them, whatever its threads do, so that the watchdog does not take it for the one
/// that hangs.
///
/// Where a rank belongs to several communicators, it and all its peers give their collectives to
/// one stream, in one order that no two ranks see differently: NCCL's would else wait for one
/// another for ever.
///
/// In what order floating-point values are added is the library's affair: it can depend on the
/// transport, the number of ranks, the hosts, and the place of a value. Whoever needs the same bits
/// everywhere gathers and adds in an order of his own. Integers wrap around.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// What carries the bytes, as comm.transport names it: "mpi" or "nccl".
  virtual std::string transport() const = 0;

  /// Whether collectives keep the caller until they have ended.
  virtual bool blocks() const = 0;

  /// What carries them between hosts: NCCL's word for it ("IB", "Socket", a plugin's name), "MPI",
  /// "within one host", or "unknown". The same on every rank; of a part what the whole has.
  virtual std::string network() const = 0;

  /// This rank's number among the ranks of this communicator, and how many they are.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// A communicator of those ranks that give the same `color` >= 0, ordered by `key` and, where
  /// that is the same, as they are here; over the same transport, with staging memory of its own.
  /// Only the communicator of all ranks is split, once all that it was given has ended (wait()).
  /// Throws AgreedError where a part cannot start. Device and session must outlive the part; this
  /// communicator need not.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// `receive` gets every rank's `bytes` bytes at `send`, in rank order: rank r's at r * bytes.
  /// `send` may be this rank's own place in `receive`; it overlaps in no other way.
  virtual void all_gather(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;

  /// Each rank has `bytes` bytes for every rank at `send`, rank r's at r * bytes. `receive` gets
  /// what every rank has for this one, in rank order: from rank r at r * bytes. The two do not
  /// overlap.
  virtual void all_to_all(device::Stream& stream, const void* send, void* receive,
                          std::size_t bytes) = 0;

  /// Each rank has a part of `count` values for every rank at `send`, rank r's at value r * count.
  /// `receive` gets the sum of those for this rank. It may be the place of that part in `send`; it
  /// overlaps in no other way.
  virtual void reduce_scatter(device::Stream& stream, const void* send, void* receive,
                              std::size_t count, SumType type) = 0;

  /// `receive` gets the sum of every rank's `count` values at `send`, the same bits on all ranks.
  /// The two are the same place or do not overlap.
  virtual void all_reduce(device::Stream& stream, const void* send, void* receive,
                          std::size_t count, SumType type) = 0;

  /// `data` gets rank `root`'s `bytes` bytes at `data`.
  virtual void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) = 0;

  /// Waits for all work of a stream that was given to a collective; then this rank does not count
  /// as waiting in any of them. Throws what Stream::synchronize() throws.
  virtual void wait(device::Stream& stream) = 0;

  /// The process is about to end: the destructor leaves to its end what takes long to free. NCCL
  /// needs 0.5 s for it. Only when all ranks have ended all that they were given.
  virtual void leave() {}
};

/// Over MPI, staged through pinned memory; blocks the caller. Bytes of any number go in pieces of
/// at most `piece` bytes a rank, a multiple of 8 below 2 GiB; the pinned memory is
/// mpi_staging_bytes(). Device and session must outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const launch::Session& session,
                                                    std::size_t piece);

/// Two slots, each with a piece of every rank and one more.
constexpr std::size_t mpi_staging_bytes(std::size_t piece, std::size_t ranks) {
  return 2 * (ranks + 1) * piece;
}

/// Over NCCL, on `device`, a GPU, which is current in the calling thread; blocks nobody, except
/// that NCCL may connect the ranks in the first call of a kind. Collective; throws AgreedError when
/// it cannot start. A rank that waits for others in a call of NCCL counts as waiting: only the
/// watchdog ends a start that never ends. Device and session must outlive it. Unless
/// the user has set NCCL_DEBUG, NCCL's log goes to memory from here on: it tells the network, and
/// why something failed. Only in builds with NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(device::Device& device,
                                                     const launch::Session& session);

/// "2.28.3", of the library that is loaded; empty in a build without NCCL.
std::string nccl_version();

}  // namespace shardstream::comm
