// Owners of a CUDA array and of a texture object.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include <cstddef>
#include <cstdint>

#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// A matrix in a CUDA array, whose layout suits access in two dimensions. The destructor frees it.
template <class Texel>
class TextureArray {
 public:
  /// Copies `height` rows of `width` texels from `device` memory.
  TextureArray(const Texel* device, unsigned width, unsigned height) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<Texel>();
    check(cudaMallocArray(&array_, &format, width, height), "cudaMallocArray");
    const std::size_t row = width * sizeof(Texel);
    check(cudaMemcpy2DToArray(array_, 0, 0, device, row, row, height, cudaMemcpyDeviceToDevice),
          "cudaMemcpy2DToArray");
    // The copy may return before it is done, and other streams do not wait for it.
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  TextureArray(const TextureArray&) = delete;
  TextureArray& operator=(const TextureArray&) = delete;
  ~TextureArray() { device::cuda::report(cudaFreeArray(array_), "cudaFreeArray"); }

  cudaResourceDesc resource() const {
    cudaResourceDesc description{};
    description.resType = cudaResourceTypeArray;
    description.res.array.array = array_;
    return description;
  }

 private:
  cudaArray_t array_ = nullptr;
};

/// `count` texels of linear device memory, for tex1Dfetch().
template <class Texel>
cudaResourceDesc linear_resource(Texel* device, std::uint64_t count) {
  cudaResourceDesc description{};
  description.resType = cudaResourceTypeLinear;
  description.res.linear.devPtr = device;
  description.res.linear.desc = cudaCreateChannelDesc<Texel>();
  description.res.linear.sizeInBytes = count * sizeof(Texel);
  return description;
}

/// How a texture is read.
struct Reading {
  cudaTextureFilterMode filter = cudaFilterModePoint;
  cudaTextureAddressMode address = cudaAddressModeClamp;
  bool normalised = false;                               ///< coordinates from 0 to 1
  cudaTextureReadMode values = cudaReadModeElementType;  ///< or as floats from 0 to 1
};

/// A texture object. The destructor destroys it. Its memory must outlive it.
class Texture {
 public:
  Texture(const cudaResourceDesc& resource, const Reading& reading) {
    cudaTextureDesc view{};
    view.addressMode[0] = view.addressMode[1] = reading.address;
    view.filterMode = reading.filter;
    view.readMode = reading.values;
    view.normalizedCoords = reading.normalised ? 1 : 0;
    check(cudaCreateTextureObject(&texture_, &resource, &view, nullptr), "cudaCreateTextureObject");
  }
  Texture(const Texture&) = delete;
  Texture& operator=(const Texture&) = delete;
  ~Texture() {
    device::cuda::report(cudaDestroyTextureObject(texture_), "cudaDestroyTextureObject");
  }
  cudaTextureObject_t get() const { return texture_; }

 private:
  cudaTextureObject_t texture_ = 0;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
