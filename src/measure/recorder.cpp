#include "measure/recorder.hpp"

#include <algorithm>

namespace shardstream::measure {

Recorder::Span Recorder::phase(std::string_view name, std::uint64_t bytes) {
  if (heartbeat_ != nullptr) heartbeat_->enter(name);
  auto found = std::ranges::find(phases_, name, &Phase::name);
  if (found == phases_.end()) found = phases_.insert(found, Phase{.name = std::string(name)});
  return {*this, static_cast<std::size_t>(found - phases_.begin()), bytes};
}

void Recorder::end(std::size_t phase, Clock::time_point start, std::uint64_t bytes) {
  phases_[phase].seconds += std::chrono::duration<double>(Clock::now() - start).count();
  phases_[phase].calls += 1;
  phases_[phase].bytes += bytes;
}

}  // namespace shardstream::measure
