// Owners of a CUDA array and of a texture object.
#pragma once

#if SHARDSTREAM_HAS_CUDA
#include "experiments/gpu.hpp"

namespace shardstream::experiments::memory {

/// A matrix of n x n floats in a CUDA array. The destructor frees it.
class TextureArray {
 public:
  TextureArray(const float* device, unsigned n) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    check(cudaMallocArray(&array_, &format, n, n), "cudaMallocArray");
    const std::size_t row = n * sizeof(float);
    check(cudaMemcpy2DToArray(array_, 0, 0, device, row, row, n, cudaMemcpyDeviceToDevice),
          "cudaMemcpy2DToArray");
  }
  TextureArray(const TextureArray&) = delete;
  TextureArray& operator=(const TextureArray&) = delete;
  ~TextureArray() { device::cuda::report(cudaFreeArray(array_), "cudaFreeArray"); }
  cudaArray_t get() const { return array_; }

 private:
  cudaArray_t array_ = nullptr;
};

/// A texture object for a CUDA array. The destructor destroys it.
class Texture {
 public:
  Texture(cudaArray_t array, cudaTextureFilterMode filter, cudaTextureAddressMode address,
          bool normalised) {
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc view{};
    view.addressMode[0] = view.addressMode[1] = address;
    view.filterMode = filter;
    view.readMode = cudaReadModeElementType;
    view.normalizedCoords = normalised ? 1 : 0;
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
