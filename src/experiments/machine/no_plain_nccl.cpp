#include "core/error.hpp"
#include "experiments/machine/collective_calls.hpp"

namespace shardstream::experiments::machine {

std::unique_ptr<CollectiveCalls> make_plain_nccl(const ranks::Session&) {
  return nullptr;
}

void connect_plain_nccl(const std::vector<int>&) {
  throw ContractError("a build without NCCL connects no GPUs");
}

}  // namespace shardstream::experiments::machine
