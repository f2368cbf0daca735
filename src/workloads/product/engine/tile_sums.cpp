#include "workloads/product/engine/tile_sums.hpp"

#include <algorithm>

#include "kernels/gemm/panel/checksum.hpp"
#include "kernels/gemm/panel/panel.hpp"

namespace shardstream::workloads::product {

void TileSums::begin() {
  for (std::vector<double>& each : of_) each.clear();
  words_ = 0;
}

void TileSums::add_checksums(device::Stream& stream, const DeviceSums& from,
                             std::uint64_t variables, std::uint64_t* words) {
  for (const double* const each : {from.sums, from.squares, from.counts}) {
    if (each == nullptr) continue;
    stream.launch(gemm::word_checksum_kernel(), {each, variables * sizeof(double), words});
  }
}

std::uint64_t TileSums::push(pipeline::Drain& drain, const device::Event& after,
                             const DeviceSums& from, std::uint64_t variables,
                             const std::function<void(std::uint64_t)>& arrived) {
  std::uint64_t last = 0;
  const std::array each{from.sums, from.squares, from.counts};
  for (std::size_t i = 0; i < each.size(); ++i) {
    if (each[i] == nullptr) continue;
    std::vector<double>& to = of_[i];
    to.resize(variables);
    last =
        drain.push(after, reinterpret_cast<const std::byte*>(each[i]), variables, sizeof(double),
                   [this, &to, arrived](Range some, const std::byte* slot) {
                     const std::uint64_t bytes = some.count * sizeof(double);
                     std::copy_n(slot, bytes, reinterpret_cast<std::byte*>(to.data() + some.first));
                     words_ += gemm::word_checksum(slot, bytes);
                     arrived(some.count);
                   });
  }
  return last;
}

}  // namespace shardstream::workloads::product
