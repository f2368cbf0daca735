// A stream that forwards every call to another one. Test streams derive from it and override what
// they change.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "device/device.hpp"

namespace shardstream::test {

class ForwardingStream : public device::Stream {
 public:
  explicit ForwardingStream(std::unique_ptr<device::Stream> inner) : inner_(std::move(inner)) {}

  void upload(void* device, const void* host, std::size_t bytes) override {
    inner_->upload(device, host, bytes);
  }
  void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                   std::size_t rows) override {
    inner_->upload_rows(device, pitch, host, row_bytes, rows);
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    inner_->download(host, device, bytes);
  }
  void record(device::Event& event) override { inner_->record(event); }
  void wait(const device::Event& event) override { inner_->wait(event); }
  void synchronize() override { inner_->synchronize(); }

 protected:
  void launch_erased(const device::KernelLaunch& launch) override {
    // The member is protected, so only a derived class can access it.
    struct Access : device::Stream {
      using device::Stream::launch_erased;
    };
    (inner().*(&Access::launch_erased))(launch);
  }
  device::Stream& inner() { return *inner_; }

 private:
  std::unique_ptr<device::Stream> inner_;
};

}  // namespace shardstream::test
