// Products of doubles that cuBLAS emulates by products of bytes, for `precision`, beside those of
// this program (kernels/gemm/residues).
#pragma once

#include <cstddef>
#include <string>

namespace shardstream::experiments::instructions {

/// cuBLAS has the emulation since CUDA 13.0 update 2: as of cublasLtGetVersion.
inline constexpr std::size_t first_emulating_cublas = 130100;

/// Why a program that was built with the header of one version of cuBLAS and runs with the library
/// of another one cannot emulate doubles; empty if it can.
inline std::string why_not_emulated(std::size_t header, std::size_t library) {
  const auto text = [](std::size_t version) {
    return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
           std::to_string(version % 100);
  };
  const std::string needs = "it needs cuBLAS " + text(first_emulating_cublas);
  if (header < first_emulating_cublas) {
    return needs + ", and this program was built with " + text(header);
  }
  return library < first_emulating_cublas ? needs + ", and the library is " + text(library) : "";
}

/// How cuBLAS has multiplied, from the number of bits that it reports: -1 if it has not emulated.
inline std::string emulation_remark(int bits) {
  if (bits < 0) return "cuBLAS has not emulated it, but used the units of fp64";
  return "cuBLAS kept " + std::to_string(bits) + " bits of each number";
}

}  // namespace shardstream::experiments::instructions

#if SHARDSTREAM_HAS_CUDA
#include <cstdint>
#include <memory>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::instructions {

/// C = A B for the matrices of MatrixProduct in fp64. Not thread-safe.
class EmulatedProduct {
 public:
  virtual ~EmulatedProduct() = default;
  /// Enqueues the product on the stream of the GPU. Throws Error if the library rejects it.
  virtual void enqueue() = 0;
  /// The largest relative error of some elements of C, as of MatrixProduct. Waits for the GPU.
  virtual double error() const = 0;
  /// The bits that the last product has kept of each number; -1 if it was not emulated. Waits for
  /// the GPU.
  virtual int bits() const = 0;
};

/// The product of n x n matrices, or null and the reason in `why` if this library or GPU does not
/// emulate it. Needs no more memory than a MatrixProduct. Throws Error if a call of CUDA fails, and
/// std::runtime_error if the library cannot be loaded.
std::unique_ptr<EmulatedProduct> make_emulated_product(Gpu& gpu, std::uint64_t n, std::string& why);

}  // namespace shardstream::experiments::instructions
#endif  // SHARDSTREAM_HAS_CUDA
