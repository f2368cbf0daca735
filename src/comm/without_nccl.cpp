// Replaces nccl.cpp in builds without NCCL.
#include "comm/communicator.hpp"
#include "core/error.hpp"

namespace shardstream::comm {

std::unique_ptr<Communicator> make_nccl_communicator(device::Device&, const ranks::Session&,
                                                     const std::function<void()>&) {
  throw ContractError("NCCL is chosen only in builds that have it");
}

std::string nccl_version() {
  return {};
}

}  // namespace shardstream::comm
