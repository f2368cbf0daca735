// A device that forwards every call to another one. Test devices derive from it and override what
// they change.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "device/device.hpp"

namespace shardstream::test {

class ForwardingDevice : public device::Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<device::Device> inner) : inner_(std::move(inner)) {}

  const device::DeviceInfo& info() const override { return inner_->info(); }
  std::unique_ptr<device::Stream> make_stream(
      device::Priority priority = device::Priority::normal) override {
    return inner_->make_stream(priority);
  }
  std::unique_ptr<device::Event> make_event() override { return inner_->make_event(); }
  std::unique_ptr<device::Event> make_timed_event() override { return inner_->make_timed_event(); }
  void* allocate(device::Memory kind, std::size_t bytes) override {
    return inner_->allocate(kind, bytes);
  }
  void release(device::Memory kind, void* data, std::size_t bytes) noexcept override {
    inner_->release(kind, data, bytes);
  }

 private:
  std::unique_ptr<device::Device> inner_;
};

}  // namespace shardstream::test
