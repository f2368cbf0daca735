#include "experiments/context.hpp"

namespace shardstream::experiments {

bool context_is_lost() {
  return false;
}

}  // namespace shardstream::experiments
