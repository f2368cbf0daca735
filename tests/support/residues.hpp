// The residues of panels in device memory, on the backend of the test.
#pragma once

#include <cstdint>

#include "device/buffer.hpp"
#include "device/device.hpp"
#include "kernels/gemm/residues/residues.hpp"

namespace shardstream::test {

struct DeviceResidues {
  device::Buffer<std::int8_t> planes;
  device::Buffer<std::int32_t> exponents;
  device::Buffer<double> error;  ///< ResiduesArgs::error
  std::uint64_t pitch;

  gemm::Residues view() const { return {planes.data(), pitch, exponents.data()}; }
};

/// Converts a panel with `lines` lines of k elements. `ld`: elements from one of its rows to the
/// next.
inline DeviceResidues residues_of(device::Device& device, device::Stream& stream, const void* panel,
                                  gemm::Precision precision, gemm::Side side, std::uint64_t lines,
                                  std::uint64_t k, std::uint64_t ld, unsigned moduli) {
  using device::Memory;
  DeviceResidues made{.planes = {device, Memory::device, moduli * lines * k},
                      .exponents = {device, Memory::device, lines},
                      .error = {device, Memory::device, 1},
                      .pitch = lines * k};
  const device::Buffer<double> scratch(device, Memory::device, gemm::residue_scratch_lines * k);
  const double zero = 0;
  stream.upload(made.error.data(), &zero, sizeof(zero));
  stream.launch(gemm::residues_kernel(), {.panel = panel,
                                          .precision = precision,
                                          .side = side,
                                          .lines = lines,
                                          .k = k,
                                          .ld = ld,
                                          .moduli = moduli,
                                          .to = made.planes.data(),
                                          .pitch = made.pitch,
                                          .exponents = made.exponents.data(),
                                          .scratch = scratch.data(),
                                          .error = made.error.data()});
  stream.synchronize();
  return made;
}

}  // namespace shardstream::test
