#include "experiments/bench.hpp"
#include "experiments/machine/nvrtc.hpp"

namespace shardstream::experiments::machine {
namespace {

[[noreturn]] void fail() {
  throw NotAvailable(
      "this program was built without NVRTC: build it with a CUDA toolkit that has it (package "
      "cuda-nvrtc-dev)");
}

}  // namespace

std::vector<int> capabilities_of_nvrtc() {
  fail();
}

std::string compile(const std::string&, Code, int, OwnCache) {
  fail();
}

}  // namespace shardstream::experiments::machine
