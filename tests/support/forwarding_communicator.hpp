// A communicator that forwards every call to another one. Test communicators derive from it and
// override what they change.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.hpp"

namespace shardstream::test {

class ForwardingCommunicator : public comm::Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<comm::Communicator> inner)
      : inner_(std::move(inner)) {}

  std::string transport() const override { return inner_->transport(); }
  bool blocks() const override { return inner_->blocks(); }
  std::string network() const override { return inner_->network(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::unique_ptr<comm::Communicator> split(int color, int key) override {
    return inner_->split(color, key);
  }
  void all_gather(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    inner_->all_gather(stream, send, receive, bytes);
  }
  void all_to_all(device::Stream& stream, const void* send, void* receive,
                  std::size_t bytes) override {
    inner_->all_to_all(stream, send, receive, bytes);
  }
  void reduce_scatter(device::Stream& stream, const void* send, void* receive, std::size_t count,
                      comm::SumType type) override {
    inner_->reduce_scatter(stream, send, receive, count, type);
  }
  void all_reduce(device::Stream& stream, const void* send, void* receive, std::size_t count,
                  comm::SumType type) override {
    inner_->all_reduce(stream, send, receive, count, type);
  }
  void broadcast(device::Stream& stream, void* data, std::size_t bytes, int root) override {
    inner_->broadcast(stream, data, bytes, root);
  }
  void connect() override { inner_->connect(); }
  void wait(device::Stream& stream) override { inner_->wait(stream); }

 private:
  std::unique_ptr<comm::Communicator> inner_;
};

}  // namespace shardstream::test
