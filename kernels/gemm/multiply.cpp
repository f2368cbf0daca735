#include "kernels/gemm/multiply.hpp"

#include <stdexcept>

#include "kernels/gemm/cblas.hpp"
#include "kernels/gemm/cuda.hpp"

namespace shardstream::gemm {
namespace {

/// Deals out whole tiles, so that their bits do not depend on the number of parts.
class HostPlan final : public MultiplyPlan {
 public:
  HostPlan(Precision precision, const Tile& tile)
      : precision_(precision), tile_(tile), algorithm_(cblas::prepare()) {}

  const std::string& algorithm() const override { return algorithm_; }

  void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) const override {
    if (precision_ == Precision::fp64) {
      multiply_part<double>(args, part, parts);
    } else {
      multiply_part<float>(args, part, parts);
    }
  }

  void enqueue(const MultiplyArgs&, CudaStream) const override {
    throw std::logic_error("a host's plan multiplies on no GPU");
  }

 private:
  template <class T>
  void multiply_part(const MultiplyArgs& args, unsigned part, unsigned parts) const {
    const std::uint64_t tiles = args.tiles_m * args.tiles_n;
    for (std::uint64_t t = tiles * part / parts; t < tiles * (part + 1) / parts; ++t) {
      const std::uint64_t i = t / args.tiles_n, j = t % args.tiles_n;
      cblas::multiply(tile_, static_cast<const T*>(args.a) + i * tile_.m * tile_.k,
                      static_cast<const T*>(args.b) + j * tile_.n, args.ldb,
                      static_cast<T*>(args.tiles) + t * tile_.m * tile_.n, args.first);
    }
  }

  Precision precision_;
  Tile tile_;
  std::string algorithm_;
};

void multiply(const MultiplyArgs& args, unsigned part, unsigned parts) {
  args.plan->multiply(args, part, parts);
}

}  // namespace

std::unique_ptr<MultiplyPlan> make_multiply_plan(Precision precision, const Tile& tile,
                                                 bool on_host) {
  if (on_host) return std::make_unique<HostPlan>(precision, tile);
  if constexpr (built_with_cuda) {
    return cuda::make_multiply_plan(precision, tile);
  } else {
    throw std::logic_error("this build has no CUDA, so no plan for a GPU");
  }
}

bool host_multiply_exists() {
  return cblas::exists();
}

Kernel<MultiplyArgs> multiply_kernel() {
  return {"multiply", multiply, with_cuda<cuda::multiply>()};
}

}  // namespace shardstream::gemm
