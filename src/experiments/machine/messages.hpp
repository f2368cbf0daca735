// The collectives that the experiment `collectives` measures: their sizes, their bandwidth as
// nccl-tests defines it, and their data, whose sums are exact.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "experiments/numbers.hpp"

namespace shardstream::experiments::machine {

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast };
inline constexpr std::array all_collectives = {Collective::all_reduce, Collective::reduce_scatter,
                                               Collective::all_gather, Collective::broadcast};
constexpr const char* word_of(Collective collective) {
  return std::array{"all-reduce", "reduce-scatter", "all-gather",
                    "broadcast"}[static_cast<std::size_t>(collective)];
}

/// One collective on floats.
struct Message {
  Collective collective;
  /// The number of floats in the larger of the buffers that a rank sends and receives. It has a
  /// part for each rank in reduce_scatter and all_gather.
  std::uint64_t count;
  std::uint64_t ranks;

  constexpr std::uint64_t part() const { return count / ranks; }
  constexpr std::uint64_t bytes() const { return count * sizeof(float); }
  /// The number of floats that a rank receives.
  constexpr std::uint64_t received() const {
    return collective == Collective::reduce_scatter ? part() : count;
  }
};

/// The collective with at most `bytes` bytes, but at least one float or one float for each rank.
/// Parts of 4 and more floats are a multiple of 16 bytes long.
constexpr Message message_of(Collective collective, std::uint64_t bytes, std::uint64_t ranks) {
  const std::uint64_t count = std::max<std::uint64_t>(1, bytes / sizeof(float));
  if (collective == Collective::all_reduce || collective == Collective::broadcast) {
    return {collective, count, ranks};
  }
  const std::uint64_t part = std::max<std::uint64_t>(1, count / ranks);
  return {collective, (part < 4 ? part : part / 4 * 4) * ranks, ranks};
}

/// The bus bandwidth over the algorithm bandwidth, which is Message::bytes() per time. The bus
/// bandwidth is that of a link that each rank has to the others, so that it can be compared with
/// the rate of the hardware for any number of ranks (nccl-tests, doc/PERFORMANCE.md).
constexpr double bus_factor(Collective collective, std::uint64_t ranks) {
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return others;
    case Collective::broadcast:
      break;
  }
  return 1;
}

/// After so many elements the data of a rank repeat: a prime, so that no offset that is a power of
/// two goes unnoticed.
inline constexpr std::uint64_t period = 262139;

/// Element `i` of the data that `rank` sends: an integer below 4096, so that sums over 4096 ranks
/// are exact in any order.
constexpr float sent_by(std::uint64_t rank, std::uint64_t i) {
  const float number = unit_number(rank * period + i % period) * 4096;
  return static_cast<float>(static_cast<int>(number));
}

/// Element `i` of the data that `rank` receives. The root of a broadcast is rank 0.
constexpr float received_by(std::uint64_t rank, std::uint64_t i, const Message& message) {
  const auto sum = [&](std::uint64_t place) {
    float all = 0;
    for (std::uint64_t sender = 0; sender < message.ranks; ++sender) all += sent_by(sender, place);
    return all;
  };
  switch (message.collective) {
    case Collective::all_reduce:
      return sum(i);
    case Collective::reduce_scatter:
      return sum(rank * message.part() + i);
    case Collective::all_gather:
      return sent_by(i / message.part(), i % message.part());
    case Collective::broadcast:
      break;
  }
  return sent_by(0, i);
}

}  // namespace shardstream::experiments::machine
