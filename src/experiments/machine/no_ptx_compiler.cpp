#include "core/error.hpp"
#include "experiments/machine/ptx_compiler.hpp"

namespace shardstream::experiments::machine {

bool has_ptx_compiler() {
  return false;
}

std::string cubin_of(const std::string&, int) {
  throw ContractError("the program was built without the PTX compiler library");
}

}  // namespace shardstream::experiments::machine
