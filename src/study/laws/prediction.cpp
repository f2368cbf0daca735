#include "study/laws/prediction.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace shardstream::study {

std::vector<PredictedSize> predict(double serial, std::span<const int> ranks) {
  if (!(serial >= 0 && serial <= 1)) {
    throw UsageError(fmt::format("a serial share of {} is not between 0 and 1", serial));
  }
  std::vector<PredictedSize> sizes;
  for (const int count : ranks) {
    if (count < 1) throw UsageError(fmt::format("{} ranks: at least 1 is needed", count));
    const double p = count;
    sizes.push_back({count, 1 / (serial + (1 - serial) / p), p - serial * (p - 1)});
  }
  return sizes;
}

}  // namespace shardstream::study
