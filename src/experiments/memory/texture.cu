// Reads through texture units, compared with plain loads from global memory. Texture units clamp,
// wrap and filter in hardware, and textures are stored for access in two dimensions. But texture
// units fetch fewer words per cycle than loads read from L1.
#include <algorithm>
#include <cmath>
#include <string>

#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/texture_objects.hpp"

namespace shardstream::experiments::memory {

Table texture(Bench& bench);

extern const Experiment about_texture = {
    .name = "texture",
    .group = "memory",
    .summary =
        "Texture units clamp, wrap and filter in hardware, but are not always faster than plain "
        "loads.",
    .explanation =
        "A matrix is read by rows, by columns, and as neighbourhoods of 5 x 5 elements, through "
        "global memory and through a texture. A texture stores neighbours in both dimensions "
        "close together, so columns cost less. Expect no gain for rows, and a loss for "
        "neighbourhoods on recent GPUs: there, plain loads come from L1, which serves more words "
        "per cycle than the texture units. Clamped, wrapped and filtered reads are checked. CUDA "
        "C++ Best Practices Guide, section Texture Memory.",
    .share = "of the rate of a copy in device memory",
    .figure = {.look = Look::bars, .x = "case", .y = "rate"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<texture>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

constexpr unsigned edge = 16;  // threads of a block in x and in y

enum class Pattern { row, column, neighbourhood };

/// Element (x, y), clamped to the matrix.
template <bool FromTexture>
__device__ float element(cudaTextureObject_t texture, const float* memory, int n, int x, int y) {
  if constexpr (FromTexture) return tex2D<float>(texture, x + 0.5F, y + 0.5F);
  x = min(max(x, 0), n - 1);
  y = min(max(y, 0), n - 1);
  return memory[static_cast<std::int64_t>(y) * n + x];
}

/// Copies the matrix, with neighbouring threads in a row or in a column, or writes the sum of each
/// neighbourhood of 5 x 5.
template <bool FromTexture, Pattern Shape>
__global__ void read_matrix(cudaTextureObject_t texture, const float* memory, float* to, int n) {
  int x = blockIdx.x * edge + threadIdx.x, y = blockIdx.y * edge + threadIdx.y;
  if constexpr (Shape == Pattern::column) {
    x = blockIdx.x * edge + threadIdx.y;
    y = blockIdx.y * edge + threadIdx.x;
  }
  float sum = 0;
  constexpr int reach = Shape == Pattern::neighbourhood ? 2 : 0;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      sum += element<FromTexture>(texture, memory, n, x + dx, y + dy);
    }
  }
  to[static_cast<std::int64_t>(y) * n + x] = sum;
}

__global__ void fetch(cudaTextureObject_t texture, float x, float y, float* to) {
  *to = tex2D<float>(texture, x, y);
}

using Kernel = void (*)(cudaTextureObject_t, const float*, float*, int);

/// The expected result at (x, y).
float expected(int n, int x, int y, int reach) {
  float sum = 0;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      const auto column = static_cast<std::uint64_t>(std::clamp(x + dx, 0, n - 1));
      const auto row = static_cast<std::uint64_t>(std::clamp(y + dy, 0, n - 1));
      sum += unit_number(row * static_cast<std::uint64_t>(n) + column);
    }
  }
  return sum;
}

/// Checks the first rows of the result.
bool is_right(const std::vector<float>& rows, int n, int reach) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const int x = static_cast<int>(i) % n, y = static_cast<int>(i) / n;
    if (std::abs(rows[i] - expected(n, x, y, reach)) > 1e-5F) return false;
  }
  return true;
}

/// Checks the functions of texture units: a normalised address beyond 1 is clamped or wraps, and
/// linear filtering returns the mean halfway between two elements.
void check_units(Bench& bench, Gpu& gpu, const TextureArray& array, unsigned n) {
  const DeviceArray<float> to(1);
  const auto value = [&](const Texture& texture, float x, float y) {
    fetch<<<1, 1, 0, gpu.stream()>>>(texture.get(), x, y, to.data());
    check_launch("fetch");
    return to.read()[0];
  };
  const float half = 0.5F / static_cast<float>(n);  // the middle of an element
  const Texture clamped(array.get(), cudaFilterModePoint, cudaAddressModeClamp, true);
  const Texture wrapped(array.get(), cudaFilterModePoint, cudaAddressModeWrap, true);
  const Texture linear(array.get(), cudaFilterModeLinear, cudaAddressModeClamp, false);
  bench.verify(value(clamped, 1.3F, half) == unit_number(n - 1), "an address that is clamped");
  const auto third = static_cast<std::uint64_t>(std::floor(0.3F * static_cast<float>(n)));
  const float found = value(wrapped, 1.3F, half);
  bench.verify(found == unit_number(third) || found == unit_number(third + 1) ||
                   found == unit_number(third - 1),
               "an address that wraps");
  const float mean = 0.5F * (unit_number(0) + unit_number(1));
  bench.verify(std::abs(value(linear, 1, 0.5F) - mean) < 4e-3F, "a mean by linear filtering");
}

/// `ratio` is the rate over the rate of the same reads through global memory.
std::string compared_with_global(double ratio) {
  if (ratio > 0.98 && ratio < 1.02) return "as fast as through global memory";
  return ratio > 1 ? formatted("{:.2f} times as fast as through global memory", ratio)
                   : formatted("{:.2f} times as slow as through global memory", 1 / ratio);
}

}  // namespace

Table texture(Bench& bench) {
  Gpu gpu(bench);
  const unsigned n = bench.is_quick() ? 4096 : 16384;
  const std::uint64_t count = std::uint64_t{n} * n;
  const DeviceArray<float> from(count), to(count);
  fill(from, gpu.stream());
  const TextureArray array(from.data(), n);
  check_units(bench, gpu, array, n);
  const Texture view(array.get(), cudaFilterModePoint, cudaAddressModeClamp, false);
  Measurements rows({{"case", ColumnType::text}}, {"rate", ColumnType::real, "GB/s"});
  double through_global = 0;  // GB/s of the row before
  const auto add = [&](const char* name, Kernel kernel, int reach, const char* words,
                       bool is_texture) {
    const auto read = [&] {
      const dim3 grid(n / edge, n / edge), block(edge, edge);
      kernel<<<grid, block, 0, gpu.stream()>>>(view.get(), from.data(), to.data(),
                                               static_cast<int>(n));
      check_launch(name);
    };
    to.clear(gpu.stream());
    read();
    bench.verify(is_right(to.read(0, 4 * n), static_cast<int>(n), reach), name);
    const Measured rate = gpu.time(read).rate(2.0 * sizeof(float) * static_cast<double>(count));
    std::string remark = words;
    if (is_texture) remark += compared_with_global(rate.value / through_global);
    if (!is_texture) through_global = rate.value;
    rows.add({name}, rate, rate.value / bench.ceiling("device_copy"), remark);
  };
  add("rows, global", read_matrix<false, Pattern::row>, 0, "half a warp reads half a line", false);
  add("rows, texture", read_matrix<true, Pattern::row>, 0, "", true);
  add("columns, global", read_matrix<false, Pattern::column>, 0,
      "neighbouring threads read different lines", false);
  add("columns, texture", read_matrix<true, Pattern::column>, 0,
      "textures are stored for two dimensions: ", true);
  add("5 x 5, global", read_matrix<false, Pattern::neighbourhood>, 2,
      "25 loads for each element, mostly from L1", false);
  add("5 x 5, texture", read_matrix<true, Pattern::neighbourhood>, 2,
      "25 fetches for each element, clamped in hardware: ", true);
  bench.note(
      "Rates count one read and one write per element. Clamping, wrapping and filtering were "
      "checked.");
  return std::move(rows).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
