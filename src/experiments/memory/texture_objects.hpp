// Owners of CUDA arrays, and of texture and surface objects.
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
  /// Copies `height` rows of `width` texels from `device` memory. `flags` are those of
  /// cudaMallocArray.
  TextureArray(const Texel* device, unsigned width, unsigned height,
               unsigned flags = cudaArrayDefault)
      : row_(width * sizeof(Texel)), height_(height) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<Texel>();
    check(cudaMallocArray(&array_, &format, width, height, flags), "cudaMallocArray");
    check(cudaMemcpy2DToArray(array_, 0, 0, device, row_, row_, height, cudaMemcpyDeviceToDevice),
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

  /// Copies all texels to `device` memory. Waits for the device before and after.
  void read(Texel* device) const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check(
        cudaMemcpy2DFromArray(device, row_, array_, 0, 0, row_, height_, cudaMemcpyDeviceToDevice),
        "cudaMemcpy2DFromArray");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

 private:
  cudaArray_t array_ = nullptr;
  std::size_t row_;  ///< bytes
  std::size_t height_;
};

/// Extents in texels: x, y and z.
struct Extents {
  unsigned width, height, depth;
};

/// The same in three dimensions.
template <class Texel>
class TextureVolume {
 public:
  /// Copies `extents.depth` matrices, one after the other, from `device` memory.
  TextureVolume(Texel* device, const Extents& extents) {
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<Texel>();
    const cudaExtent size = make_cudaExtent(extents.width, extents.height, extents.depth);
    check(cudaMalloc3DArray(&array_, &format, size), "cudaMalloc3DArray");
    cudaMemcpy3DParms copy{};
    copy.srcPtr =
        make_cudaPitchedPtr(device, extents.width * sizeof(Texel), extents.width, extents.height);
    copy.dstArray = array_;
    copy.extent = size;
    copy.kind = cudaMemcpyDeviceToDevice;
    check(cudaMemcpy3D(&copy), "cudaMemcpy3D");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // as in TextureArray
  }
  TextureVolume(const TextureVolume&) = delete;
  TextureVolume& operator=(const TextureVolume&) = delete;
  ~TextureVolume() { device::cuda::report(cudaFreeArray(array_), "cudaFreeArray"); }

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
    view.addressMode[0] = view.addressMode[1] = view.addressMode[2] = reading.address;
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

/// A surface object, through which kernels read and write the texels of an array that was made with
/// cudaArraySurfaceLoadStore. The destructor destroys it. Its memory must outlive it.
class Surface {
 public:
  explicit Surface(const cudaResourceDesc& resource) {
    check(cudaCreateSurfaceObject(&surface_, &resource), "cudaCreateSurfaceObject");
  }
  Surface(const Surface&) = delete;
  Surface& operator=(const Surface&) = delete;
  ~Surface() {
    device::cuda::report(cudaDestroySurfaceObject(surface_), "cudaDestroySurfaceObject");
  }
  cudaSurfaceObject_t get() const { return surface_; }

 private:
  cudaSurfaceObject_t surface_ = 0;
};

}  // namespace shardstream::experiments::memory
#endif  // SHARDSTREAM_HAS_CUDA
