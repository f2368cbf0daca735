#include <mpi.h>

#include <algorithm>
#include <array>
#include <exception>
#include <limits>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "device/buffer.hpp"
#include "ranks/session.hpp"

namespace shardstream::comm {
namespace {

using device::Buffer;
using device::Memory;
using ranks::check_mpi;

MPI_Datatype mpi_type(SumType type) {
  if (type == SumType::i64) return MPI_INT64_T;
  return type == SumType::f32 ? MPI_FLOAT : MPI_DOUBLE;
}

/// Owns the MPI communicator of some of the ranks.
class SplitCommunicator {
 public:
  /// Collective over all ranks of `whole`.
  SplitCommunicator(MPI_Comm whole, int color, int key) {
    check_mpi(MPI_Comm_split(whole, color, key, &comm_), "MPI_Comm_split");
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  /// Collective. After an error the other ranks may not get here, so that MPI_Finalize frees it.
  ~SplitCommunicator() {
    if (std::uncaught_exceptions() > 0) return;
    if (MPI_Comm_free(&comm_) != MPI_SUCCESS) warn_plainly("MPI_Comm_free failed");
  }
  SplitCommunicator(const SplitCommunicator&) = delete;
  SplitCommunicator& operator=(const SplitCommunicator&) = delete;

  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

class MpiCommunicator final : public Communicator {
 public:
  /// A communicator of `part`, or of all ranks if it is null.
  MpiCommunicator(device::Device& device, const ranks::Session& session, std::size_t piece,
                  std::unique_ptr<SplitCommunicator> part)
      : device_(device),
        session_(session),
        heartbeat_(session.heartbeat()),
        part_(std::move(part)),
        comm_(part_ ? part_->comm() : MPI_COMM_WORLD),
        piece_(piece) {
    expect(piece > 0 && piece % 8 == 0, "a piece of whole values");
    expect(piece <= std::numeric_limits<int>::max(), "a piece that MPI can count");
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    int size = 0;
    check_mpi(MPI_Comm_size(comm_, &size), "MPI_Comm_size");
    ranks_ = static_cast<std::size_t>(size);
    for (Slot& slot : slots_) {
      slot.own = {device, Memory::pinned, piece};
      slot.all = {device, Memory::pinned, piece * ranks_};
      slot.downloaded = device.make_event();
      slot.uploaded = device.make_event();
    }
  }

  /// Waits for copies from and to the slots.
  ~MpiCommunicator() override {
    for (const Slot& slot : slots_) {
      try {
        slot.downloaded->synchronize();
        slot.uploaded->synchronize();
      } catch (const std::exception&) {  // an error of the device: every synchronize() throws it
      }
    }
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::string transport() const override { return "mpi"; }
  bool blocks() const override { return true; }
  std::string network() const override {
    return session_.local_size() == session_.size() ? "within one host" : "MPI";
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_); }

  std::unique_ptr<Communicator> split(int color, int key) override {
    expect(size() == session_.size(), "only the communicator of all ranks is split");
    std::unique_ptr<SplitCommunicator> own;
    {
      const auto waiting = heartbeat_.waiting();
      own = std::make_unique<SplitCommunicator>(comm_, color, key);
    }
    std::unique_ptr<Communicator> part;
    session_.collectively([&] {
      part = std::make_unique<MpiCommunicator>(device_, session_, piece_, std::move(own));
    });
    return part;
  }

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    if (ranks_ == 1 && send == receive) return;
    staged(
        stream, bytes, piece_,
        [&](Slot& slot, StagedPiece piece) {
          stream.download(slot.own.data(), at(send, piece.first), piece.bytes);
        },
        [&](Slot& slot, StagedPiece piece) {
          check_mpi(MPI_Allgather(slot.own.data(), piece.count(), MPI_BYTE, slot.all.data(),
                                  piece.count(), MPI_BYTE, comm_),
                    "MPI_Allgather");
        },
        [&](Slot& slot, StagedPiece piece) {
          upload_parts(stream, receive, slot.all.data(), bytes, piece);
        });
  }

  /// A slot has space for one piece per rank: its first half sends, its second half receives.
  void all_to_all(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    const std::size_t half = piece_ / 2;
    staged(
        stream, bytes, half,
        [&](Slot& slot, StagedPiece piece) {
          download_parts(stream, slot.all.data(), send, bytes, piece);
        },
        [&](Slot& slot, StagedPiece piece) {
          check_mpi(MPI_Alltoall(slot.all.data(), piece.count(), MPI_BYTE,
                                 slot.all.data() + ranks_ * half, piece.count(), MPI_BYTE, comm_),
                    "MPI_Alltoall");
        },
        [&](Slot& slot, StagedPiece piece) {
          upload_parts(stream, receive, slot.all.data() + ranks_ * half, bytes, piece);
        });
  }

  void reduce_scatter(device::Stream& stream, const void* send, void* receive, std::size_t count,
                      SumType type) override {
    if (ranks_ == 1 && send == receive) return;
    const std::size_t bytes = count * size_of(type);
    staged(
        stream, bytes, piece_,
        [&](Slot& slot, StagedPiece piece) {
          download_parts(stream, slot.all.data(), send, bytes, piece);
        },
        [&](Slot& slot, StagedPiece piece) {
          check_mpi(
              MPI_Reduce_scatter_block(slot.all.data(), slot.own.data(), piece.count(size_of(type)),
                                       mpi_type(type), MPI_SUM, comm_),
              "MPI_Reduce_scatter_block");
        },
        [&](Slot& slot, StagedPiece piece) {
          stream.upload(at(receive, piece.first), slot.own.data(), piece.bytes);
        });
  }

  void all_reduce(device::Stream& stream, const void* send, void* receive, std::size_t count,
                  SumType type) override {
    if (ranks_ == 1 && send == receive) return;
    staged(
        stream, count * size_of(type), piece_,
        [&](Slot& slot, StagedPiece piece) {
          stream.download(slot.own.data(), at(send, piece.first), piece.bytes);
        },
        [&](Slot& slot, StagedPiece piece) {
          check_mpi(MPI_Allreduce(MPI_IN_PLACE, slot.own.data(), piece.count(size_of(type)),
                                  mpi_type(type), MPI_SUM, comm_),
                    "MPI_Allreduce");
        },
        [&](Slot& slot, StagedPiece piece) {
          stream.upload(at(receive, piece.first), slot.own.data(), piece.bytes);
        });
  }

  void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) override {
    if (ranks_ == 1) return;
    staged(
        stream, bytes, piece_,
        [&](Slot& slot, StagedPiece piece) {
          if (rank_ != root) return;
          stream.download(slot.own.data(), at(data, piece.first), piece.bytes);
        },
        [&](Slot& slot, StagedPiece piece) {
          check_mpi(MPI_Bcast(slot.own.data(), piece.count(), MPI_BYTE, root, comm_), "MPI_Bcast");
        },
        [&](Slot& slot, StagedPiece piece) {
          if (rank_ == root) return;
          stream.upload(at(data, piece.first), slot.own.data(), piece.bytes);
        });
  }

  /// The collective itself has waited for the other ranks; only this rank's upload is left.
  void wait(device::Stream& stream) override { stream.synchronize(); }

 private:
  /// A part of the bytes that each rank sends or receives.
  struct StagedPiece {
    std::size_t first, bytes;
    int count(std::size_t size = 1) const { return static_cast<int>(bytes / size); }
  };

  /// Pinned memory for this rank's bytes of a piece and for those of all ranks, and the ends of its
  /// copies.
  struct Slot {
    Buffer<std::byte> own, all;
    std::unique_ptr<device::Event> downloaded, uploaded;
  };

  static const std::byte* at(const void* data, std::size_t offset) {
    return static_cast<const std::byte*>(data) + offset;
  }
  static std::byte* at(void* data, std::size_t offset) {
    return static_cast<std::byte*>(data) + offset;
  }

  /// Copies one piece of each rank's part to or from a dense buffer. Each part has `bytes` bytes.
  void download_parts(device::Stream& stream, std::byte* to, const void* from, std::size_t bytes,
                      StagedPiece piece) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      stream.download(to + rank * piece.bytes, at(from, rank * bytes + piece.first), piece.bytes);
    }
  }
  void upload_parts(device::Stream& stream, void* to, const std::byte* from, std::size_t bytes,
                    StagedPiece piece) const {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      stream.upload(at(to, rank * bytes + piece.first), from + rank * piece.bytes, piece.bytes);
    }
  }

  /// Divides `bytes` into pieces of at most `max` bytes and calls three functions for each:
  /// `download` fills the slot, `combine` makes the collective call of MPI, and `upload` empties
  /// the slot. While MPI transfers one piece, the next one is downloaded and the previous one
  /// uploaded.
  template <class Download, class Combine, class Upload>
  void staged(device::Stream& stream, std::size_t bytes, std::size_t max, Download download,
              Combine combine, Upload upload) {
    const std::size_t pieces = bytes / max + (bytes % max > 0 ? 1 : 0);
    if (pieces == 0) return;
    const auto piece = [&](std::size_t i) {
      return StagedPiece{i * max, std::min(max, bytes - i * max)};
    };
    const auto begin = [&](std::size_t i) {
      Slot& slot = slots_[i % 2];
      stream.wait(*slot.uploaded);  // of an earlier call, maybe on another stream
      download(slot, piece(i));
      stream.record(*slot.downloaded);
    };
    begin(0);
    stream.synchronize();  // throws an earlier error before wrong data reaches other ranks
    for (std::size_t i = 0; i < pieces; ++i) {
      if (i + 1 < pieces) begin(i + 1);
      Slot& slot = slots_[i % 2];
      slot.downloaded->synchronize();
      const auto waiting = heartbeat_.waiting();
      combine(slot, piece(i));
      upload(slot, piece(i));
      stream.record(*slot.uploaded);
    }
  }

  device::Device& device_;
  const ranks::Session& session_;
  ranks::Heartbeat& heartbeat_;
  std::unique_ptr<SplitCommunicator> part_;
  MPI_Comm comm_;
  std::size_t piece_, ranks_ = 1;
  int rank_ = 0;
  std::array<Slot, 2> slots_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const ranks::Session& session,
                                                    std::size_t piece) {
  return std::make_unique<MpiCommunicator>(device, session, piece, nullptr);
}

}  // namespace shardstream::comm
