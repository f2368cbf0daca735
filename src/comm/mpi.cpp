#include <mpi.h>

#include <algorithm>
#include <array>
#include <limits>

#include "comm/communicator.hpp"
#include "core/error.hpp"
#include "device/buffer.hpp"
#include "launch/session.hpp"

namespace shardstream::comm {
namespace {

using device::Buffer;
using device::Memory;
using launch::check_mpi;

MPI_Datatype mpi_type(SumType type) {
  if (type == SumType::i64) return MPI_INT64_T;
  return type == SumType::f32 ? MPI_FLOAT : MPI_DOUBLE;
}

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(device::Device& device, const launch::Session& session, std::size_t piece)
      : heartbeat_(session.heartbeat()),
        network_(session.local_size() == session.size() ? "within one host" : "MPI"),
        ranks_(static_cast<std::size_t>(session.size())),
        rank_(session.rank()),
        piece_(piece) {
    expect(piece > 0 && piece % 8 == 0, "a piece of whole values");
    expect(piece <= std::numeric_limits<int>::max(), "a piece that MPI can count");
    for (Slot& slot : slots_) {
      slot.own = {device, Memory::pinned, piece};
      slot.all = {device, Memory::pinned, piece * ranks_};
      slot.downloaded = device.make_event();
      slot.uploaded = device.make_event();
    }
  }

  std::string transport() const override { return "mpi"; }
  std::string network() const override { return network_; }

  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    if (ranks_ == 1 && send == receive) return;
    staged(
        stream, bytes,
        [&](Slot& slot, Piece piece) {
          stream.download(slot.own.data(), at(send, piece.first), piece.bytes);
        },
        [&](Slot& slot, Piece piece) {
          check_mpi(MPI_Allgather(slot.own.data(), piece.count(), MPI_BYTE, slot.all.data(),
                                  piece.count(), MPI_BYTE, MPI_COMM_WORLD),
                    "MPI_Allgather");
        },
        [&](Slot& slot, Piece piece) {
          for (std::size_t rank = 0; rank < ranks_; ++rank) {
            stream.upload(at(receive, rank * bytes + piece.first),
                          slot.all.data() + rank * piece.bytes, piece.bytes);
          }
        });
  }

  void reduce_scatter(device::Stream& stream, const void* send, void* receive, std::size_t count,
                      SumType type) override {
    if (ranks_ == 1 && send == receive) return;
    const std::size_t bytes = count * size_of(type);
    staged(
        stream, bytes,
        [&](Slot& slot, Piece piece) {
          for (std::size_t rank = 0; rank < ranks_; ++rank) {
            stream.download(slot.all.data() + rank * piece.bytes,
                            at(send, rank * bytes + piece.first), piece.bytes);
          }
        },
        [&](Slot& slot, Piece piece) {
          check_mpi(
              MPI_Reduce_scatter_block(slot.all.data(), slot.own.data(), piece.count(size_of(type)),
                                       mpi_type(type), MPI_SUM, MPI_COMM_WORLD),
              "MPI_Reduce_scatter_block");
        },
        [&](Slot& slot, Piece piece) {
          stream.upload(at(receive, piece.first), slot.own.data(), piece.bytes);
        });
  }

  void all_reduce(device::Stream& stream, const void* send, void* receive, std::size_t count,
                  SumType type) override {
    if (ranks_ == 1 && send == receive) return;
    staged(
        stream, count * size_of(type),
        [&](Slot& slot, Piece piece) {
          stream.download(slot.own.data(), at(send, piece.first), piece.bytes);
        },
        [&](Slot& slot, Piece piece) {
          check_mpi(MPI_Allreduce(MPI_IN_PLACE, slot.own.data(), piece.count(size_of(type)),
                                  mpi_type(type), MPI_SUM, MPI_COMM_WORLD),
                    "MPI_Allreduce");
        },
        [&](Slot& slot, Piece piece) {
          stream.upload(at(receive, piece.first), slot.own.data(), piece.bytes);
        });
  }

  void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) override {
    if (ranks_ == 1) return;
    staged(
        stream, bytes,
        [&](Slot& slot, Piece piece) {
          if (rank_ != root) return;
          stream.download(slot.own.data(), at(data, piece.first), piece.bytes);
        },
        [&](Slot& slot, Piece piece) {
          check_mpi(MPI_Bcast(slot.own.data(), piece.count(), MPI_BYTE, root, MPI_COMM_WORLD),
                    "MPI_Bcast");
        },
        [&](Slot& slot, Piece piece) {
          if (rank_ == root) return;
          stream.upload(at(data, piece.first), slot.own.data(), piece.bytes);
        });
  }

  /// The collective itself has waited for the others; what is left is this rank's own upload.
  void wait(device::Stream& stream) override { stream.synchronize(); }

 private:
  /// A part of what every rank gives or gets.
  struct Piece {
    std::size_t first, bytes;
    int count(std::size_t size = 1) const { return static_cast<int>(bytes / size); }
  };

  /// One rank's bytes of a piece and those of all ranks, and how far its copies are.
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

  /// Calls for each piece of `bytes`: `download`, which fills its slot; `combine`, the call of MPI,
  /// which every rank comes to; `upload`, which empties the slot. While MPI has one piece, the next
  /// one is downloaded and the last one uploaded.
  template <class Download, class Combine, class Upload>
  void staged(device::Stream& stream, std::size_t bytes, Download download, Combine combine,
              Upload upload) {
    const std::size_t pieces = bytes / piece_ + (bytes % piece_ > 0 ? 1 : 0);
    if (pieces == 0) return;
    const auto piece = [&](std::size_t i) {
      return Piece{i * piece_, std::min(piece_, bytes - i * piece_)};
    };
    const auto begin = [&](std::size_t i) {
      Slot& slot = slots_[i % 2];
      stream.wait(*slot.uploaded);  // an earlier call's, on another stream
      download(slot, piece(i));
      stream.record(*slot.downloaded);
    };
    begin(0);
    stream.synchronize();  // throws what has failed before anything of it reaches other ranks
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

  launch::Heartbeat& heartbeat_;
  std::string network_;
  std::size_t ranks_;
  int rank_;
  std::size_t piece_;
  std::array<Slot, 2> slots_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(device::Device& device,
                                                    const launch::Session& session,
                                                    std::size_t piece) {
  return std::make_unique<MpiCommunicator>(device, session, piece);
}

}  // namespace shardstream::comm
