// Reads through texture units, compared with plain loads from global memory. Texture units clamp,
// wrap, filter and convert in hardware, and textures are stored for access in two dimensions. But
// texture units fetch fewer words per cycle than loads read from L1.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/expected.hpp"
#include "experiments/experiment.hpp"
#include "experiments/formatted.hpp"
#include "experiments/gpu.hpp"
#include "experiments/memory/texture_checks.cuh"
#include "experiments/memory/texture_objects.hpp"

namespace shardstream::experiments::memory {

Table texture(Bench& bench);

namespace {

/// From the cache: a texture filters, clamps and wraps as fast as it fetches texels.
double expected_rate_from_cache(const MeasuredRow& row, const std::string& name) {
  constexpr double loads_of_filter = 4;
  if (name == "filtered, global") {
    return row.measured({{"case", "as they are, global"}}) / loads_of_filter;
  }
  return name.ends_with("texture") ? row.measured({{"case", "as they are, texture"}})
                                   : std::nan("");
}

/// The reference of a row of floats from memory; empty if there is none.
const char* reference_of(std::string_view name) {
  if (name == "rows of float4, texture") return "rows of float4, global";
  if (name == "rows of bytes, texture") return "rows of bytes, global";
  if (name == "3-D along x, texture") return "3-D along x, global";
  const bool is_other_order =
      name.starts_with("written columns") || name.starts_with("3-D along z");
  const bool is_other =
      is_other_order || name.starts_with("after a write") || name == "columns, global";
  return is_other ? "" : "rows, global";
}

/// From memory: rows have at best the rate of a copy, and most others that of rows of floats.
double expected_rate(const MeasuredRow& row) {
  const std::string name = row.text("case");
  if (row.text("part") == "from the cache") return expected_rate_from_cache(row, name);
  if (name == "rows, global" || name == "rows of float4, global") return row.ceiling("device_copy");
  if (name.starts_with("5 x 5")) {
    constexpr double loads = 25, words = 2;  // of an element; the rate counts these words
    const char* const clamped = name == "5 x 5, global" ? "clamped, global" : "clamped, texture";
    return std::min(row.ceiling("device_copy"), row.measured({{"case", clamped}}) * words / loads);
  }
  const double reference = row.measured({{"case", reference_of(name)}});
  constexpr double bytes_with_byte = 5, bytes_with_float = 8;
  return name == "rows of bytes, global" ? reference * bytes_with_byte / bytes_with_float
                                         : reference;
}

}  // namespace

extern const Experiment about_texture = {
    .name = "texture",
    .group = "memory",
    .summary =
        "Texture units clamp, wrap and filter in hardware, but are not always faster than plain "
        "loads.",
    .explanation =
        {
            .question = "When is a texture faster than a plain load?",
            .varies =
                "First, a matrix is read from memory: by rows, by columns, and as neighbourhoods "
                "of 5 x 5 elements, through global memory and through a texture, which stores "
                "neighbours in both dimensions close together. Rows are also read from a "
                "one-dimensional texture in linear memory, as texels of four floats, and as bytes "
                "that become floats from 0 to 1. Rows and columns are also read and written "
                "through a surface (surf2Dread, surf2Dwrite), and a volume is read along x and "
                "along z (tex3D). In the rows `after a write`, each thread changes a texel in "
                "memory, and after a barrier reads that of another warp. Then the threads read a "
                "small matrix repeatedly from the cache, which shows the cost of the units: texels "
                "as they are, the mean of four neighbours (linear filtering), and addresses beyond "
                "the edge, which are clamped or wrap. Plain loads do the same by hand. The latency "
                "of a fetch is in `latency`.",
            .expectation =
                "Expect no gain for rows, whose rate is in proportion to the bytes of an element, "
                "a gain for columns, and a loss for neighbourhoods on recent GPUs: there, plain "
                "loads come from L1, which serves up to 32 words per cycle of a multiprocessor, "
                "but its texture units serve four texels. A word has 4 bytes, and so has a texel. "
                "A neighbourhood takes 25 clamped ones, of which the rate counts two: expect 2 / "
                "25 of the rate from the cache. Along z, the lanes of a warp would read 32 lines, "
                "but a texture stores neighbours in all three dimensions close together: expect a "
                "gain, and none along x. Expect columns of a texture to be read as fast as rows. "
                "Expect the same of surfaces, and a gain for written columns, too. Expect "
                "clamping, wrapping and filtering to cost a texture nothing. By hand, filtering "
                "takes four loads, of which some share lines, so expect at least a quarter of the "
                "rate, and wrapping a remainder.",
            .pitfalls =
                "A texture may not see what the same kernel has written. The remark counts the "
                "reads that saw the old value; the number is undefined and not verified. A later "
                "kernel sees the new values. The first coordinate of a surface counts bytes. Rows "
                "of floats stay below the rate of a copy because a thread has only one word in "
                "flight.",
        },
    .read_on = {{Guide::best_practices, "Texture Memory"},
                {Guide::best_practices, "Additional Texture Capabilities"},
                {Guide::programming, "Texture Memory"},
                {Guide::programming, "Surface Memory"},
                {Guide::programming, "Read/Write Coherency"}},
    .share = "of the rate of a copy in device memory, for reads from memory",
    .expected = expected_rate,
    .exercise = {.task = "Predict the rate in GB/s of columns through a texture, from the rate of "
                         "rows, and of filtered texels from the cache and of neighbourhoods of 5 x "
                         "5 through a texture, from the clock and the number of multiprocessors.",
                 .rows = {{{"case", "columns, texture"}},
                          {{"case", "filtered, texture"}},
                          {{"case", "5 x 5, texture"}}}},
    .figure = {.look = Look::bars, .x = "case", .y = "rate", .panel = "part"},
    .needs = {.ceilings = {"device_copy"}},
    .run = with_cuda<texture>(),
};

#if SHARDSTREAM_HAS_CUDA
namespace {

// -------------------------------------------------------------------- a matrix, from memory

/// The value of a texel. Bytes become numbers from 0 to 1, as in a texture.
template <class Texel>
__device__ Texel value_of(Texel texel) {
  return texel;
}
__device__ float value_of(unsigned char texel) {
  return static_cast<float>(texel) * (1.0F / 255);
}

/// A matrix of `height` rows of `width` texels, in memory and as a texture.
template <class Texel>
struct Matrix {
  cudaTextureObject_t texture;
  const Texel* memory;
  int width, height;
  cudaSurfaceObject_t surface = 0;
};

template <Through Way, class Texel>
__device__ auto element(const Matrix<Texel>& matrix, int x, int y) {
  using Value = decltype(value_of(Texel{}));
  if constexpr (Way == Through::texture) {
    return tex2D<Value>(matrix.texture, x + 0.5F, y + 0.5F);
  } else if constexpr (Way == Through::linear_texture) {
    return tex1Dfetch<Value>(matrix.texture, y * matrix.width + x);
  } else if constexpr (Way == Through::surface) {
    return surf2Dread<Value>(matrix.surface, x * int{sizeof(Value)}, y);  // x counts bytes
  } else {
    return value_of(matrix.memory[static_cast<std::int64_t>(y) * matrix.width + x]);
  }
}

/// Copies the matrix. The lanes of a warp read neighbours in a row.
template <Through Way, class Texel, class Value>
__global__ void copy_rows(Matrix<Texel> matrix, Value* to) {
  const int x = blockIdx.x * warp + threadIdx.x, y = blockIdx.y * warps + threadIdx.y;
  to[static_cast<std::int64_t>(y) * matrix.width + x] = element<Way>(matrix, x, y);
}

/// Transposes the matrix. The lanes of a warp read neighbours in a column, and write a row.
template <Through Way>
__global__ void copy_columns(Matrix<float> matrix, float* to) {
  const int y = blockIdx.x * warp + threadIdx.x, x = blockIdx.y * warps + threadIdx.y;
  to[static_cast<std::int64_t>(x) * matrix.height + y] = element<Way>(matrix, x, y);
}

/// Writes an element through a surface or to global memory.
template <Through Way>
__device__ void put(const Matrix<float>& matrix, float* to, int x, int y, float value) {
  if constexpr (Way == Through::surface) {
    surf2Dwrite(value, matrix.surface, x * int{sizeof(float)}, y);
  } else {
    to[static_cast<std::int64_t>(y) * matrix.width + x] = value;
  }
}

/// Copies the matrix to a surface.
__global__ void write_rows(Matrix<float> matrix, float* to) {
  const int x = blockIdx.x * warp + threadIdx.x, y = blockIdx.y * warps + threadIdx.y;
  put<Through::surface>(matrix, to, x, y, element<Through::global>(matrix, x, y));
}

/// Reads a row and writes a column of the transpose.
template <Through Way>
__global__ void write_columns(Matrix<float> matrix, float* to) {
  const int x = blockIdx.x * warp + threadIdx.x, y = blockIdx.y * warps + threadIdx.y;
  put<Way>(matrix, to, y, x, element<Through::global>(matrix, x, y));
}

/// Writes the sum of each neighbourhood of 5 x 5. Places beyond the edge are clamped to it, by the
/// texture unit or by hand.
template <Through Way>
__global__ void add_neighbours(Matrix<float> matrix, float* to) {
  const int x = blockIdx.x * warp + threadIdx.x, y = blockIdx.y * warps + threadIdx.y;
  float sum = 0;
  for (int dy = -reach; dy <= reach; ++dy) {
    for (int dx = -reach; dx <= reach; ++dx) {
      if constexpr (Way == Through::texture) {
        sum += element<Way>(matrix, x + dx, y + dy);
      } else {
        sum += element<Way>(matrix, min(max(x + dx, 0), matrix.width - 1),
                            min(max(y + dy, 0), matrix.height - 1));
      }
    }
  }
  to[static_cast<std::int64_t>(y) * matrix.width + x] = sum;
}

// -------------------------------------------------------------------- a volume, from memory

/// A volume, in memory and as a texture.
struct Volume {
  cudaTextureObject_t texture;
  const float* memory;
  Extents extents;
};

template <Through Way>
__device__ float element(const Volume& volume, unsigned x, unsigned y, unsigned z) {
  if constexpr (Way == Through::texture) {
    return tex3D<float>(volume.texture, x + 0.5F, y + 0.5F, z + 0.5F);
  } else {
    const Extents& size = volume.extents;
    return volume.memory[(std::uint64_t{z} * size.height + y) * size.width + x];
  }
}

/// Copies the volume. The lanes of a warp read neighbours in x.
template <Through Way>
__global__ void copy_along_x(Volume volume, float* to) {
  const unsigned x = blockIdx.x * warp + threadIdx.x, y = blockIdx.y * warps + threadIdx.y;
  const unsigned z = blockIdx.z;
  const Extents& size = volume.extents;
  to[(std::uint64_t{z} * size.height + y) * size.width + x] = element<Way>(volume, x, y, z);
}

/// Makes z the fastest dimension. The lanes of a warp read neighbours in z, and write a line.
template <Through Way>
__global__ void copy_along_z(Volume volume, float* to) {
  const unsigned z = blockIdx.x * warp + threadIdx.x, x = blockIdx.y * warps + threadIdx.y;
  const unsigned y = blockIdx.z;
  const Extents& size = volume.extents;
  to[(std::uint64_t{y} * size.width + x) * size.depth + z] = element<Way>(volume, x, y, z);
}

// ------------------------------------------------- memory that the kernel itself has written

/// All texels are equal. Each thread reads one, adds 1 to it in memory, and reads that of another
/// warp after the barrier of the block. Adds to `*old` how many threads saw the old value: with
/// plain loads none, with a texture an undefined number.
template <Through Way>
__global__ void read_after_write(cudaTextureObject_t texture, volatile float* texels,
                                 unsigned* old) {
  const unsigned i = blockIdx.x * threads + threadIdx.x;
  const auto read = [&](unsigned at) {
    if constexpr (Way == Through::linear_texture) {
      return tex1Dfetch<float>(texture, static_cast<int>(at));
    }
    return static_cast<float>(texels[at]);
  };
  const float before = read(i);
  texels[i] = before + 1;
  __syncthreads();
  const int stale = __syncthreads_count(read(i ^ warp) == before);
  if (threadIdx.x == 0 && stale > 0) atomicAdd(old, static_cast<unsigned>(stale));
}

// ------------------------------------------------------------- a small matrix, from the cache

/// `n` and `weight` are not constants, which the compiler would use to save work.
struct Tile {
  cudaTextureObject_t texture;
  const float* memory;
  int n;
  float weight;  ///< of the right and of the lower neighbour
};

__device__ float between(float a, float b, float weight) {
  return fmaf(weight, b - a, a);
}

template <Access Kind>
__device__ float fetch(const Tile& tile, int x, int y) {
  if constexpr (Kind == Access::filtered) {
    return tex2D<float>(tile.texture, x + 0.5F + tile.weight, y + 0.5F + tile.weight);
  } else if constexpr (Kind == Access::wrapped) {  // only for normalised coordinates
    const float scale = 1.0F / tile.n;
    return tex2D<float>(tile.texture, (x + 0.5F) * scale, (y + 0.5F) * scale);
  } else {
    return tex2D<float>(tile.texture, x + 0.5F, y + 0.5F);
  }
}

template <Access Kind>
__device__ float load(const Tile& tile, int x, int y) {
  if constexpr (Kind == Access::clamped) {
    x = min(max(x, 0), tile.n - 1);
    y = min(max(y, 0), tile.n - 1);
  }
  if constexpr (Kind == Access::wrapped) {
    x = static_cast<unsigned>(x) % tile.n;
    y = static_cast<unsigned>(y) % tile.n;
  }
  const float* const at = tile.memory + y * tile.n + x;
  if constexpr (Kind == Access::filtered) {
    return between(between(at[0], at[1], tile.weight),
                   between(at[tile.n], at[tile.n + 1], tile.weight), tile.weight);
  }
  return *at;
}

/// Adds up `reads` texels per thread. All blocks do the same.
template <Through Way, Access Kind>
__global__ void __launch_bounds__(threads) read_tile(Tile tile, float* sums) {
  float sum = 0;
#pragma unroll 1  // in all kernels alike
  for (unsigned round = 0; round < rounds; ++round) {
#pragma unroll
    for (unsigned column = 0; column < columns; ++column) {
      const TexelPosition at = place_of(Kind, threadIdx.x, threadIdx.y, round, column);
      if constexpr (Way == Through::texture) {
        sum += fetch<Kind>(tile, at.x, at.y);
      } else {
        sum += load<Kind>(tile, at.x, at.y);
      }
    }
  }
  sums[(blockIdx.x * warps + threadIdx.y) * warp + threadIdx.x] = sum;
}

// ---------------------------------------------------------------------------------- the rows

template <class Texel, class Value>
std::function<void()> launch_of(void (*kernel)(Matrix<Texel>, Value*), dim3 grid,
                                const Matrix<Texel>& matrix, const ReadRates& rates) {
  return [=, to = reinterpret_cast<Value*>(rates.to().data()), stream = rates.gpu().stream()] {
    kernel<<<grid, dim3(warp, warps), 0, stream>>>(matrix, to);
    check_launch("a read of a matrix");
  };
}

/// The first rows of sums of neighbourhoods in a matrix of n x n.
bool has_right_sums(const ReadRates& rates, unsigned n) {
  const std::vector<float> rows = rates.to().read(0, 4 * n);
  const int width = static_cast<int>(n);
  for (int i = 0; i < 4 * width; ++i) {
    const float expected = sum_around(width, i % width, i / width);
    if (std::abs(rows[static_cast<std::size_t>(i)] - expected) > 1e-5F) return false;
  }
  return true;
}

constexpr const char* from_memory = "from memory";

/// Rows, columns and neighbourhoods of a matrix of n x n floats in `from`, and its rows as texels
/// of four floats.
void add_floats(ReadRates& rates, unsigned n, const DeviceArray<float>& from) {
  const double ceiling = rates.bench().ceiling("device_copy");
  const double count = static_cast<double>(n) * n, bytes = 2 * sizeof(float) * count;
  const dim3 grid(n / warp, n / warps);
  const auto side = static_cast<int>(n);
  const TextureArray<float> array(from.data(), n, n);
  const Texture view(array.resource(), {}), linear(linear_resource(from.data(), from.size()), {});
  const Matrix<float> matrix{view.get(), from.data(), side, side};
  const Matrix<float> in_line{linear.get(), from.data(), side, side};
  const auto is_copied = [&] { return rates.is_right<Result::copied>(n); };
  const auto is_transposed = [&] { return rates.is_right<Result::transposed>(n); };
  const auto add = [&](const char* name, Through through, const char* remark, const auto& launch,
                       const std::function<bool()>& is_right) {
    rates.add({from_memory, name, through, bytes, {0, bytes}, remark}, ceiling, launch, is_right);
  };
  add("rows, global", Through::global, "a warp reads whole lines",
      launch_of(copy_rows<Through::global, float, float>, grid, matrix, rates), is_copied);
  add("rows, texture", Through::texture, "",
      launch_of(copy_rows<Through::texture, float, float>, grid, matrix, rates), is_copied);
  add("rows, linear texture", Through::linear_texture, "",
      launch_of(copy_rows<Through::linear_texture, float, float>, grid, in_line, rates), is_copied);
  add("columns, global", Through::global, "the lanes of a warp read different lines",
      launch_of(copy_columns<Through::global>, grid, matrix, rates), is_transposed);
  add("columns, texture", Through::texture, "",
      launch_of(copy_columns<Through::texture>, grid, matrix, rates), is_transposed);
  const Work work{25 * count, (25 + 1) * sizeof(float) * count, "fp32"};
  const auto is_sum = [&] { return has_right_sums(rates, n); };
  rates.add({from_memory, "5 x 5, global", Through::global, bytes, work,
             "25 loads for each element, mostly from L1"},
            ceiling, launch_of(add_neighbours<Through::global>, grid, matrix, rates), is_sum);
  rates.add({from_memory, "5 x 5, texture", Through::texture, bytes, work, ""}, ceiling,
            launch_of(add_neighbours<Through::texture>, grid, matrix, rates), is_sum);
  const auto* const fours = reinterpret_cast<const float4*>(from.data());
  const TextureArray<float4> array_of_fours(fours, n / 4, n);
  const Texture view_of_fours(array_of_fours.resource(), {});
  const Matrix<float4> wide{view_of_fours.get(), fours, side / 4, side};
  const dim3 narrow(n / 4 / warp, n / warps);
  add("rows of float4, global", Through::global, "a thread reads 16 bytes",
      launch_of(copy_rows<Through::global, float4, float4>, narrow, wide, rates), is_copied);
  add("rows of float4, texture", Through::texture, "",
      launch_of(copy_rows<Through::texture, float4, float4>, narrow, wide, rates), is_copied);
}

/// Rows and columns of a matrix of n x n floats in `from`, read and written through a surface.
void add_surfaces(ReadRates& rates, unsigned n, const DeviceArray<float>& from) {
  const double ceiling = rates.bench().ceiling("device_copy");
  const double bytes = 2.0 * sizeof(float) * n * n;
  const dim3 grid(n / warp, n / warps);
  const auto side = static_cast<int>(n);
  const TextureArray<float> source(from.data(), n, n, cudaArraySurfaceLoadStore);
  rates.to().clear(rates.gpu().stream());
  rates.gpu().synchronize();
  const TextureArray<float> target(rates.to().data(), n, n, cudaArraySurfaceLoadStore);
  const Surface reads_source(source.resource()), writes_target(target.resource());
  const Matrix<float> read{0, nullptr, side, side, reads_source.get()};
  const Matrix<float> written{0, from.data(), side, side, writes_target.get()};
  const auto add = [&](const char* name, Through through, const char* other,
                       void (*kernel)(Matrix<float>, float*), const Matrix<float>& matrix,
                       const std::function<bool()>& is_right) {
    rates.add({from_memory,
               name,
               through,
               bytes,
               {0, bytes},
               "the lanes of a warp write different lines",
               "",
               other},
              ceiling, launch_of(kernel, grid, matrix, rates), is_right);
  };
  const auto is_copied = [&] { return rates.is_right<Result::copied>(n); };
  const auto is_transposed = [&] { return rates.is_right<Result::transposed>(n); };
  const auto fetch_target = [&] { target.read(rates.to().data()); };
  add("rows, read by surface", Through::surface, "rows, global",
      copy_rows<Through::surface, float, float>, read, is_copied);
  add("rows, written by surface", Through::surface, "rows, global", write_rows, written, [&] {
    fetch_target();
    return is_copied();
  });
  add("columns, read by surface", Through::surface, "columns, global",
      copy_columns<Through::surface>, read, is_transposed);
  add("written columns, global", Through::global, nullptr, write_columns<Through::global>, written,
      is_transposed);
  add("written columns, surface", Through::surface, nullptr, write_columns<Through::surface>,
      written, [&] {
        fetch_target();
        return is_transposed();
      });
}

/// A volume of the floats in `from`, along x and along z.
void add_volumes(ReadRates& rates, const DeviceArray<float>& from) {
  constexpr Extents size = {512, 512, 256};
  constexpr std::uint64_t plane = std::uint64_t{size.width} * size.height;
  constexpr std::uint64_t count = plane * size.depth;
  expect(count <= from.size() && count <= rates.to().size(), "the volume fits in the arrays");
  const double bytes = 2.0 * sizeof(float) * count;
  const TextureVolume<float> array(from.data(), size);
  const Texture view(array.resource(), {});
  const Volume volume{view.get(), from.data(), size};
  const float* const to = rates.to().data();
  const cudaStream_t stream = rates.gpu().stream();
  const auto is_copied = [=] {
    return count_wrong(count, IsWrongTexel<Result::copied>{to, 1}, stream) == 0;
  };
  const auto is_turned = [=] {
    return count_wrong(count, IsWrongLine{to, plane, size.depth}, stream) == 0;
  };
  const auto add = [&](const char* name, Through through, const char* remark, dim3 grid,
                       void (*kernel)(Volume, float*), const std::function<bool()>& is_right) {
    const auto launch = [&] {
      kernel<<<grid, dim3(warp, warps), 0, stream>>>(volume, rates.to().data());
      check_launch(name);
    };
    rates.add({from_memory, name, through, bytes, {0, bytes}, remark},
              rates.bench().ceiling("device_copy"), launch, is_right);
  };
  const dim3 along_x(size.width / warp, size.height / warps, size.depth);
  const dim3 along_z(size.depth / warp, size.width / warps, size.height);
  add("3-D along x, global", Through::global, "a warp reads whole lines", along_x,
      copy_along_x<Through::global>, is_copied);
  add("3-D along x, texture", Through::texture, "", along_x, copy_along_x<Through::texture>,
      is_copied);
  add("3-D along z, global", Through::global, "the lanes of a warp read different lines", along_z,
      copy_along_z<Through::global>, is_turned);
  add("3-D along z, texture", Through::texture, "", along_z, copy_along_z<Through::texture>,
      is_turned);
}

/// Reads that follow a write of the same kernel, with the number of those that saw the old value.
/// Only the memory afterwards is checked: the value that a texture sees is undefined.
void add_reads_after_writes(ReadRates& rates) {
  constexpr std::uint64_t count = std::uint64_t{1} << 26;  // below the limit of linear textures
  expect(count <= rates.to().size(), "the array is large enough");
  const cudaStream_t stream = rates.gpu().stream();
  const Texture view(linear_resource(rates.to().data(), count), {});
  const DeviceArray<unsigned> old(1);
  const auto add = [&](const char* name, Through through,
                       void (*kernel)(cudaTextureObject_t, volatile float*, unsigned*)) {
    const auto launch = [&] {
      kernel<<<blocks_for(count, threads), threads, 0, stream>>>(view.get(), rates.to().data(),
                                                                 old.data());
      check_launch(name);
    };
    rates.to().clear(stream);
    old.clear(stream);
    launch();
    const std::string finding =
        formatted("; {} of {} reads saw the old value", old.read()[0], count);
    const auto is_written = [&] {
      return count_wrong(count, IsNot{rates.to().data(), 1}, stream) == 0;
    };
    constexpr double words = static_cast<double>(count);
    rates.add({from_memory,
               name,
               through,
               2 * sizeof(float) * words,
               {words, 3 * sizeof(float) * words},
               "the second read is from the cache",
               finding},
              rates.bench().ceiling("device_copy"), launch, is_written);
  };
  add("after a write, global", Through::global, read_after_write<Through::global>);
  add("after a write, texture", Through::linear_texture, read_after_write<Through::linear_texture>);
}

/// Rows of a matrix of n x n bytes, which become floats from 0 to 1.
void add_bytes(ReadRates& rates, unsigned n) {
  const std::uint64_t count = std::uint64_t{n} * n;
  const DeviceArray<unsigned char> from(count);
  fill_bytes<<<blocks_for(count, threads), threads, 0, rates.gpu().stream()>>>(from.data(), count);
  check_launch("fill_bytes");
  rates.gpu().synchronize();
  const TextureArray<unsigned char> array(from.data(), n, n);
  const Texture view(array.resource(), {.values = cudaReadModeNormalizedFloat});
  const auto side = static_cast<int>(n);
  const Matrix<unsigned char> bytes_in_memory{0, from.data(), side, side};
  // The kernel that fetches floats: the texture unit converts.
  const Matrix<float> converted{view.get(), nullptr, side, side};
  const dim3 grid(n / warp, n / warps);
  const double bytes = static_cast<double>(count) * (1 + sizeof(float));
  const auto is_right = [&] { return rates.is_right<Result::converted>(n); };
  const auto add = [&](const char* name, Through through, const char* remark, const auto& launch) {
    rates.add({from_memory, name, through, bytes, {static_cast<double>(count), bytes}, remark},
              rates.bench().ceiling("device_copy"), launch, is_right);
  };
  add("rows of bytes, global", Through::global, "converted to a float and multiplied",
      launch_of(copy_rows<Through::global, unsigned char, float>, grid, bytes_in_memory, rates));
  add("rows of bytes, texture", Through::texture, "",
      launch_of(copy_rows<Through::texture, float, float>, grid, converted, rates));
}

/// Reads a small matrix from the cache in one way, by hand and through a texture.
template <Access Kind>
void add_access(ReadRates& rates, const char* by_hand, const char* by_unit, const char* remark,
                const DeviceArray<float>& from, const Reading& reading) {
  const TextureArray<float> array(from.data(), tile, tile);
  const Texture view(array.resource(), reading);
  const Tile matrix{view.get(), from.data(), tile, 0.5F};
  const cudaDeviceProp& gpu = rates.gpu().properties();
  const auto blocks = static_cast<unsigned>(gpu.multiProcessorCount *
                                            gpu.maxThreadsPerMultiProcessor / int{threads});
  const double all = 1.0 * blocks * threads * reads;
  // Filtering by hand: four loads and three differences and multiply-adds.
  const double loads = Kind == Access::filtered ? 4 : 1;
  const Work work{(Kind == Access::filtered ? 10 : 1) * all, loads * sizeof(float) * all};
  const auto is_right = [&](Through through) {
    const std::vector<float> sums = rates.to().read(0, std::uint64_t{blocks} * threads);
    std::vector<float> of_block;
    for (unsigned thread = 0; thread < threads; ++thread) {
      of_block.push_back(expected_sum(Kind, thread % warp, thread / warp));
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const float expected = of_block[i % threads];
      // A texture unit has eight bits for the weight of a neighbour.
      const bool is_exact = Kind != Access::filtered || through == Through::global;
      if (std::abs(sums[i] - expected) > (is_exact ? 0 : expected / 256)) return false;
    }
    return true;
  };
  const auto add = [&](const char* name, Through through, void (*kernel)(Tile, float*)) {
    const auto launch = [&] {
      kernel<<<blocks, dim3(warp, warps), 0, rates.gpu().stream()>>>(matrix, rates.to().data());
      check_launch(name);
    };
    rates.add({"from the cache", name, through, sizeof(float) * all, work, remark},
              std::numeric_limits<double>::quiet_NaN(), launch, [&] { return is_right(through); });
  };
  add(by_hand, Through::global, read_tile<Through::global, Kind>);
  add(by_unit, Through::texture, read_tile<Through::texture, Kind>);
}

__global__ void fetch_one(cudaTextureObject_t texture, float x, float y, float* to) {
  *to = tex2D<float>(texture, x, y);
}

/// Reads addresses beyond the edge from a ramp, whose value is the coordinate: linear filtering
/// shows the place that is read. A texture of one texel has only that place.
void show_addresses(Bench& bench, Gpu& gpu) {
  constexpr unsigned n = 1024;
  constexpr float beyond_edge = 1.3F;
  std::vector<float> ramp(n);
  for (unsigned i = 0; i < n; ++i) ramp[i] = (static_cast<float>(i) + 0.5F) / n;
  const DeviceArray<float> from{std::span<const float>(ramp)}, to(1);
  const auto value = [&](unsigned width, cudaTextureAddressMode address) {
    const TextureArray<float> array(from.data(), width, 1);
    const Texture view(array.resource(), {cudaFilterModeLinear, address, true});
    fetch_one<<<1, 1, 0, gpu.stream()>>>(view.get(), beyond_edge, 0.5F, to.data());
    check_launch("fetch_one");
    return to.read()[0];
  };
  const float clamped = value(n, cudaAddressModeClamp), wrapped = value(n, cudaAddressModeWrap);
  bench.verify(std::abs(clamped - 1) < 1e-3F, "an address that is clamped");
  bench.verify(std::abs(wrapped - (beyond_edge - 1)) < 1e-3F, "an address that wraps");
  for (const auto address : {cudaAddressModeClamp, cudaAddressModeWrap}) {
    bench.verify(value(1, address) == ramp[0], "a texture of one texel");
  }
  bench.note(
      formatted("The address {:.1f} of a texture, whose coordinates go from 0 to 1, is read at "
                "{:.2f} if it is clamped, and at {:.2f} if it wraps.",
                beyond_edge, clamped, wrapped));
}

}  // namespace

Table texture(Bench& bench) {
  Gpu gpu(bench);
  show_addresses(bench, gpu);
  constexpr unsigned n = 8192;
  ReadRates rates(bench, gpu, std::uint64_t{n} * n);
  {
    const DeviceArray<float> from(std::uint64_t{n} * n);
    fill(from, gpu.stream());
    add_floats(rates, n, from);
    add_surfaces(rates, n, from);
    add_volumes(rates, from);
  }
  add_reads_after_writes(rates);
  add_bytes(rates, n);
  std::vector<float> texels;
  for (int i = 0; i < tile * tile; ++i) texels.push_back(texel_at(i % tile, i / tile));
  const DeviceArray<float> small{std::span<const float>(texels)};
  add_access<Access::plain>(rates, "as they are, global", "as they are, texture", "one load each",
                            small, {});
  add_access<Access::filtered>(rates, "filtered, global", "filtered, texture",
                               "four loads and nine operations each", small,
                               {.filter = cudaFilterModeLinear});
  add_access<Access::clamped>(rates, "clamped, global", "clamped, texture",
                              "minimum and maximum of each coordinate", small, {});
  add_access<Access::wrapped>(rates, "wrapped, global", "wrapped, texture",
                              "a remainder for each coordinate", small,
                              {.address = cudaAddressModeWrap, .normalised = true});
  bench.note(
      "From memory, rates count one read and one write per element; from the cache, the results of "
      "all reads.");
  return std::move(rates).table();
}
#endif  // SHARDSTREAM_HAS_CUDA

}  // namespace shardstream::experiments::memory
