#include "core/error.hpp"
#include "experiments/machine/collective_calls.hpp"

namespace shardstream::experiments::machine {

NcclCalls make_nccl_calls(const ranks::Session&, std::size_t) {
  return {};
}

void connect_plain_nccl(const std::vector<int>&) {
  throw ContractError("a build without NCCL connects no GPUs");
}

}  // namespace shardstream::experiments::machine
