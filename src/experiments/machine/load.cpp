#include "experiments/machine/load.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "device/buffer.hpp"
#include "kernels/data/generate.hpp"
#include "kernels/gemm/grid.hpp"
#include "kernels/gemm/multiply/multiply.hpp"

namespace shardstream::experiments::machine {
namespace {

using device::Buffer;
using device::Memory;

/// `count` random floats in device memory. Waits for `stream`.
Buffer<float> random_floats(device::Device& device, device::Stream& stream, std::uint64_t count) {
  Buffer<float> data(device, Memory::device, count);
  const Buffer<float> host(device, Memory::pinned, count);
  generate(Generator::uniform, ElementType::f32, 1, 0, count,
           reinterpret_cast<std::byte*>(host.data()));
  stream.upload(data.data(), host.data(), host.bytes());
  stream.synchronize();
  return data;
}

class ProductLoad final : public Load {
 public:
  ProductLoad(device::Device& device, Backend backend)
      : tile_(gemm::tile_for(edge(backend), edge(backend), depth(backend), precision(backend),
                             backend)),
        rows_(edge(backend) / tile_.m),
        columns_(edge(backend) / tile_.n),
        at_(gemm::all_tiles(rows_, columns_)),
        plan_(gemm::make_multiply_plan(precision(backend), tile_, backend)) {
    streams_.push_back(device.make_stream());
    const std::uint64_t lda = gemm::a_ld(precision(backend), tile_.k, backend);
    a_ = random_floats(device, *streams_[0], rows_ * tile_.m * lda);
    b_ = random_floats(device, *streams_[0], tile_.k * columns_ * tile_.n);
    c_ = {device, Memory::device, rows_ * tile_.m * columns_ * tile_.n};
  }

  void enqueue() override {
    streams_[0]->launch(gemm::multiply_kernel(), {.plan = plan_.get(),
                                                  .k = tile_.k,
                                                  .a = a_.data(),
                                                  .b = b_.data(),
                                                  .ldb = columns_ * tile_.n,
                                                  .tiles = c_.data(),
                                                  .at = at_.data(),
                                                  .count = at_.size(),
                                                  .first = true});
  }
  const std::vector<std::unique_ptr<device::Stream>>& streams() const override { return streams_; }

 private:
  static gemm::Precision precision(Backend backend) {
    return backend == Backend::host ? gemm::Precision::fp32 : gemm::Precision::tf32;
  }
  static std::uint64_t edge(Backend backend) { return backend == Backend::host ? 256 : 4096; }
  static std::uint64_t depth(Backend backend) { return backend == Backend::host ? 256 : 2048; }

  gemm::Tile tile_;
  std::uint64_t rows_, columns_;  ///< of tiles
  std::vector<gemm::TileAt> at_;
  std::unique_ptr<gemm::MultiplyPlan> plan_;
  Buffer<float> a_, b_, c_;
  std::vector<std::unique_ptr<device::Stream>> streams_;
};

class LinkLoad final : public Load {
 public:
  LinkLoad(device::Device& device, std::uint64_t bytes) {
    for (int i = 0; i < 2; ++i) {
      streams_.push_back(device.make_stream());
      host_.emplace_back(device, Memory::pinned, bytes / sizeof(float));
      remote_.push_back(random_floats(device, *streams_[0], bytes / sizeof(float)));
    }
    std::fill_n(host_[0].data(), host_[0].size(), 1.0F);
  }

  void enqueue() override {
    streams_[0]->upload(remote_[0].data(), host_[0].data(), host_[0].bytes());
    streams_[1]->download(host_[1].data(), remote_[1].data(), host_[1].bytes());
  }
  const std::vector<std::unique_ptr<device::Stream>>& streams() const override { return streams_; }

 private:
  std::vector<Buffer<float>> host_, remote_;
  std::vector<std::unique_ptr<device::Stream>> streams_;
};

}  // namespace

std::unique_ptr<Load> make_product_load(device::Device& device) {
  const Backend backend = backend_named(device.info().backend);
  if (backend == Backend::host && !gemm::host_multiply_exists()) return nullptr;
  return std::make_unique<ProductLoad>(device, backend);
}

std::unique_ptr<Load> make_link_load(device::Device& device) {
  const bool on_host = device.info().backend == "host";
  return std::make_unique<LinkLoad>(device, std::uint64_t{on_host ? 2U : 32U} << 20);
}

BusyGuard::BusyGuard(Load& load) : load_(load) {
  thread_ = std::jthread([this](const std::stop_token& stop) { repeat(stop); });
  begun_.acquire();
}

BusyGuard::~BusyGuard() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void BusyGuard::end() {
  thread_.request_stop();
  thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void BusyGuard::round() {
  load_.enqueue();
  for (const auto& stream : load_.streams()) stream->synchronize();
}

void BusyGuard::repeat(const std::stop_token& stop) {
  try {
    round();
    begun_.release();
    while (!stop.stop_requested()) round();
  } catch (...) {
    error_ = std::current_exception();
    begun_.release();
  }
}

}  // namespace shardstream::experiments::machine
