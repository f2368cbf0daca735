// The blocks of a kernel that fit on a multiprocessor at the same time, from their threads,
// registers and shared memory. Pure arithmetic, without CUDA; a unit test compares it with NVIDIA's
// cuda_occupancy.h.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "experiments/warp_size.hpp"

namespace shardstream::experiments::execution {

constexpr unsigned max_threads_of_block = 1024, max_registers_of_thread = 255;

/// The resources of a multiprocessor of one compute capability.
struct Multiprocessor {
  std::string_view capability;  ///< "9.0"
  unsigned threads, blocks;
  unsigned registers;           ///< of 32 bits
  unsigned partitions;          ///< each has a scheduler and an equal part of the registers
  unsigned shared;              ///< bytes of shared memory
  unsigned shared_of_block;     ///< the maximum of a block
  unsigned reserved = 1024;     ///< bytes of each block that the system takes
  unsigned shared_piece = 128;  ///< shared memory is allocated in multiples of these bytes

  constexpr unsigned warps() const { return threads / warp; }
};

constexpr unsigned operator""_Ki(unsigned long long count) {
  return static_cast<unsigned>(count) * 1024;
}

/// CUDA C++ Programming Guide, table Technical Specifications per Compute Capability; for 6.x and
/// older, its version 11. A block may have 64 Ki registers on each of them.
constexpr std::array multiprocessors = {
    Multiprocessor{"3.5", 2048, 16, 64_Ki, 4, 48_Ki, 48_Ki, 0, 256},
    Multiprocessor{"3.7", 2048, 16, 128_Ki, 4, 112_Ki, 48_Ki, 0, 256},
    Multiprocessor{"5.0", 2048, 32, 64_Ki, 4, 64_Ki, 48_Ki, 0, 256},
    Multiprocessor{"5.2", 2048, 32, 64_Ki, 4, 96_Ki, 48_Ki, 0, 256},
    Multiprocessor{"6.0", 2048, 32, 64_Ki, 2, 64_Ki, 48_Ki, 0, 256},
    Multiprocessor{"6.1", 2048, 32, 64_Ki, 4, 96_Ki, 48_Ki, 0, 256},
    Multiprocessor{"7.0", 2048, 32, 64_Ki, 4, 96_Ki, 96_Ki, 0, 256},
    Multiprocessor{"7.5", 1024, 16, 64_Ki, 4, 64_Ki, 64_Ki, 0, 256},
    Multiprocessor{"8.0", 2048, 32, 64_Ki, 4, 164_Ki, 163_Ki},
    Multiprocessor{"8.6", 1536, 16, 64_Ki, 4, 100_Ki, 99_Ki},
    Multiprocessor{"8.7", 1536, 16, 64_Ki, 4, 164_Ki, 163_Ki},
    Multiprocessor{"8.9", 1536, 24, 64_Ki, 4, 100_Ki, 99_Ki},
    Multiprocessor{"9.0", 2048, 32, 64_Ki, 4, 228_Ki, 227_Ki},
    Multiprocessor{"10.0", 2048, 32, 64_Ki, 4, 228_Ki, 227_Ki},
    Multiprocessor{"10.3", 2048, 32, 64_Ki, 4, 228_Ki, 227_Ki},
    Multiprocessor{"11.0", 1536, 24, 64_Ki, 4, 228_Ki, 227_Ki},
    Multiprocessor{"12.0", 1536, 24, 64_Ki, 4, 100_Ki, 99_Ki},
    Multiprocessor{"12.1", 1536, 24, 64_Ki, 4, 100_Ki, 99_Ki},
};

/// The multiprocessor with this compute capability; null if the table has none.
constexpr const Multiprocessor* find_multiprocessor(std::string_view capability) {
  const auto found = std::ranges::find(multiprocessors, capability, &Multiprocessor::capability);
  return found == multiprocessors.end() ? nullptr : &*found;
}

/// A block of a kernel.
struct Block {
  unsigned threads;
  unsigned registers;    ///< of a thread
  std::uint64_t shared;  ///< bytes, static and dynamic

  constexpr unsigned warps() const { return (threads + warp - 1) / warp; }
};

/// The blocks that fit, by each resource alone. 0: the kernel cannot be launched.
struct Residency {
  static constexpr unsigned unlimited = std::numeric_limits<unsigned>::max();
  unsigned by_warps, by_blocks, by_registers, by_shared;

  constexpr unsigned blocks() const {
    return std::min({by_warps, by_blocks, by_registers, by_shared});
  }
};

namespace model {

constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t piece) {
  return (value + piece - 1) / piece * piece;
}

/// A warp gets registers in pieces of 256, from the partition in which it runs.
constexpr unsigned blocks_by_registers(const Multiprocessor& on, const Block& block) {
  constexpr unsigned piece = 256, registers_of_block = 64_Ki;
  // The hardware checks a launch as if all of four partitions had equally many warps of the block,
  // even where there are two.
  constexpr unsigned checked_partitions = 4;
  const auto of_warp =
      static_cast<unsigned>(rounded_up(std::uint64_t{block.registers} * warp, piece));
  if (block.registers > max_registers_of_thread) return 0;
  if (of_warp == 0) return Residency::unlimited;
  if (of_warp * rounded_up(block.warps(), checked_partitions) > registers_of_block) return 0;
  return on.registers / on.partitions / of_warp * on.partitions / block.warps();
}

constexpr unsigned blocks_by_shared(const Multiprocessor& on, const Block& block) {
  const std::uint64_t of_block = rounded_up(block.shared + on.reserved, on.shared_piece);
  if (of_block > on.shared_of_block + on.reserved) return 0;
  return of_block == 0 ? Residency::unlimited : static_cast<unsigned>(on.shared / of_block);
}

}  // namespace model

/// The blocks that fit on a multiprocessor whose memory serves as shared memory as far as possible.
/// A block has at least one thread.
constexpr Residency residency(const Multiprocessor& on, const Block& block) {
  return {block.threads > max_threads_of_block ? 0 : on.warps() / block.warps(), on.blocks,
          model::blocks_by_registers(on, block), model::blocks_by_shared(on, block)};
}

/// The share of the warps that a multiprocessor can hold, if it holds `blocks` blocks.
constexpr double occupancy_of(const Multiprocessor& on, const Block& block, unsigned blocks) {
  return static_cast<double>(blocks) * block.warps() / on.warps();
}

/// The share of the places for blocks that is taken, on average, if a grid of `blocks` runs in
/// waves of `at_once` blocks that all take equally long. NaN if one of them is 0.
constexpr double filled_by_waves(std::uint64_t blocks, std::uint64_t at_once) {
  if (blocks == 0 || at_once == 0) return std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t waves = (blocks + at_once - 1) / at_once;
  return static_cast<double>(blocks) / static_cast<double>(waves * at_once);
}

/// The resources that allow no further block, such as "registers and warps".
inline std::string limiters(const Residency& fits) {
  std::string words;
  const auto add = [&](unsigned blocks, const char* word) {
    if (blocks != fits.blocks()) return;
    words += (words.empty() ? "" : " and ") + std::string(word);
  };
  add(fits.by_registers, "registers");
  add(fits.by_shared, "shared memory");
  add(fits.by_warps, "warps");
  add(fits.by_blocks, "blocks");
  return words;
}

}  // namespace shardstream::experiments::execution
