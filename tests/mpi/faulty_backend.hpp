// A device and a communicator that make one mistake in a run of a matrix product: a bit that is
// flipped, or an element that is changed, in the order of the stream that brought it. On the host
// backend, where kernels reach all memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "device/device.hpp"
#include "kernels/gemm/check.hpp"
#include "kernels/gemm/residues/residues.hpp"
#include "support/forwarding_communicator.hpp"
#include "support/forwarding_device.hpp"
#include "support/forwarding_stream.hpp"

namespace shardstream::test {

/// The streams of workloads::product::Engine, in the order in which they are made.
enum EngineStream : std::size_t { download_stream, upload_stream, compute_stream, arrive_stream };

struct Flip {
  std::uint64_t byte;
  unsigned bit;  ///< of the byte
};

/// The faults of one run, and the observations in it. Bytes are counted through all copies of the
/// stream in the run.
struct Faults {
  std::optional<Flip> upload = {}, download = {};  ///< of the upload and the download stream
  struct Message {
    std::uint64_t number;  ///< of the run's all-gathers, or exchanges (all-to-all)
    Flip flip;             ///< in what this rank receives
  };
  std::optional<Message> gather = {}, exchange = {};
  std::optional<Message> residues = {};  ///< of the panels from which residues are made
  struct Change {
    std::uint64_t tile, row, column;
    double by;
  };
  std::optional<Change> change = {};  ///< just before the check of the tile; tiles in their order

  std::uint64_t uploaded = 0, downloaded = 0, gathers = 0, exchanges = 0, checks = 0;
  std::uint64_t residue_panels = 0;
  std::uint64_t placed = 0;  ///< faults that were enqueued
};

namespace detail {

struct FlipArgs {
  std::byte* at;
  unsigned bit;
};
inline void flip(const FlipArgs& args, unsigned part, unsigned) {
  if (part == 0) *args.at ^= std::byte{1} << args.bit;
}

struct ChangeArgs {
  const void* tile;
  gemm::Precision precision;
  std::uint64_t element;
  double by;
};
inline void change(const ChangeArgs& args, unsigned part, unsigned) {
  if (part != 0) return;
  void* const tile = const_cast<void*>(args.tile);  // the check only reads it
  gemm::with_accumulator_type(args.precision, [&](auto of) {
    using T = typename decltype(of)::type;
    static_cast<T*>(tile)[args.element] += static_cast<T>(args.by);
  });
}

inline void launch_flip(device::Stream& stream, void* data, Flip flip) {
  const Kernel<FlipArgs> kernel{"flip", detail::flip, nullptr};
  stream.launch(kernel, {static_cast<std::byte*>(data) + flip.byte, flip.bit});
}

/// Flips the bit if it is among the `bytes` that came to `data` behind the first `before`.
inline void flip_within(device::Stream& stream, void* data, std::uint64_t before, std::size_t bytes,
                        const std::optional<Flip>& flip, Faults& faults) {
  if (!flip || flip->byte < before || flip->byte - before >= bytes) return;
  launch_flip(stream, data, {flip->byte - before, flip->bit});
  ++faults.placed;
}

/// Counts a message that has come to `received` on the stream, and flips its bit if it is the one.
inline void flip_message(device::Stream& stream, void* received, std::uint64_t& count,
                         const std::optional<Faults::Message>& fault, Faults& faults) {
  const std::uint64_t number = count++;
  if (!fault || fault->number != number) return;
  launch_flip(stream, received, fault->flip);
  ++faults.placed;
}

}  // namespace detail

class SpoilingStream final : public ForwardingStream {
 public:
  SpoilingStream(std::unique_ptr<device::Stream> inner, Faults& faults, std::size_t number)
      : ForwardingStream(std::move(inner)), faults_(faults), number_(number) {}

  void upload(void* device, const void* host, std::size_t bytes) override {
    ForwardingStream::upload(device, host, bytes);
    spoil_upload(device, bytes);
  }
  void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                   std::size_t rows) override {
    ForwardingStream::upload_rows(device, pitch, host, row_bytes, rows);
    for (std::size_t row = 0; row < rows; ++row) {
      spoil_upload(static_cast<std::byte*>(device) + row * pitch, row_bytes);
    }
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    ForwardingStream::download(host, device, bytes);
    if (number_ != download_stream) return;
    detail::flip_within(inner(), host, faults_.downloaded, bytes, faults_.download, faults_);
    faults_.downloaded += bytes;
  }

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    if (std::string_view(launch.name) == gemm::check_rows_kernel().name) {
      spoil(*static_cast<const gemm::CheckTileArgs*>(launch.args));
    }
    ForwardingStream::launch_erased(launch);
    if (std::string_view(launch.name) == gemm::residues_kernel().name) {
      auto* const planes = static_cast<const gemm::ResiduesArgs*>(launch.args)->to;
      detail::flip_message(inner(), planes, faults_.residue_panels, faults_.residues, faults_);
    }
  }

 private:
  void spoil_upload(void* device, std::size_t bytes) {
    if (number_ != upload_stream) return;
    detail::flip_within(inner(), device, faults_.uploaded, bytes, faults_.upload, faults_);
    faults_.uploaded += bytes;
  }

  void spoil(const gemm::CheckTileArgs& check) {
    const std::uint64_t number = faults_.checks++;
    const auto& change = faults_.change;
    if (!change || change->tile != number) return;
    const Kernel<detail::ChangeArgs> kernel{"change", detail::change, nullptr};
    inner().launch(
        kernel, {check.tile, check.precision, change->row * check.ld + change->column, change->by});
    ++faults_.placed;
  }

  Faults& faults_;
  std::size_t number_;
};

class SpoilingDevice final : public ForwardingDevice {
 public:
  /// `first`: the role of the next stream to be made; the others follow in order.
  SpoilingDevice(std::unique_ptr<device::Device> inner, Faults& faults,
                 EngineStream first = download_stream)
      : ForwardingDevice(std::move(inner)), faults_(faults), streams_(first) {}

  std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return std::make_unique<SpoilingStream>(ForwardingDevice::make_stream(priority), faults_,
                                            streams_++ % 4);
  }

 private:
  Faults& faults_;
  std::size_t streams_;
};

class SpoilingCommunicator final : public ForwardingCommunicator {
 public:
  SpoilingCommunicator(std::unique_ptr<comm::Communicator> inner, Faults& faults)
      : ForwardingCommunicator(std::move(inner)), faults_(faults) {}

  /// All-gathers of parts count like those of the whole.
  std::unique_ptr<comm::Communicator> split(int color, int key) override {
    return std::make_unique<SpoilingCommunicator>(ForwardingCommunicator::split(color, key),
                                                  faults_);
  }
  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    ForwardingCommunicator::all_gather(stream, send, receive, bytes);
    detail::flip_message(stream, receive, faults_.gathers, faults_.gather, faults_);
  }
  void all_to_all(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    ForwardingCommunicator::all_to_all(stream, send, receive, bytes);
    detail::flip_message(stream, receive, faults_.exchanges, faults_.exchange, faults_);
  }

 private:
  Faults& faults_;
};

}  // namespace shardstream::test
