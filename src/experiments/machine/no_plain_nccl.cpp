#include "experiments/machine/ways.hpp"

namespace shardstream::experiments::machine {

std::unique_ptr<Way> make_plain_nccl(const ranks::Session&) {
  return nullptr;
}

}  // namespace shardstream::experiments::machine
