// What a PCI Express link can carry.
#pragma once

#include <array>
#include <limits>

namespace shardstream::device {

/// GB/s (10^9 bytes) each way of `width` lanes of a generation: transfers a second and lane of the
/// PCI Express Base Specification, less its line code (8b/10b in generations 1 and 2, 128b/130b in
/// 3 to 5, none in 6). Packet headers take some 5 to 15 % more. NaN for a generation or width
/// that is not known.
constexpr double pcie_rate(int generation, int width) {
  constexpr std::array transfers = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};  // 10^9 a second and lane
  constexpr std::array code = {0.8, 0.8, 128.0 / 130, 128.0 / 130, 128.0 / 130, 1.0};
  if (generation < 1 || generation > static_cast<int>(transfers.size()) || width < 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto i = static_cast<unsigned>(generation - 1);
  return transfers[i] * code[i] * width / 8;
}

}  // namespace shardstream::device
