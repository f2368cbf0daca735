#include "device/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "core/error.hpp"
#include "core/units.hpp"
#include "device/cuda/handles.hpp"
#include "device/host/process_memory.hpp"

namespace shardstream::device::cuda {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::shared_ptr<const Gpu> gpu, bool timed) : gpu_(std::move(gpu)), event_(timed) {}

  void synchronize() override {
    use(gpu_);  // any thread may call this
    check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize");
  }
  bool reached() const override {
    use(gpu_);
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // otherwise the next launch would report it as its own failure
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }
  double seconds_since(const Event& start) const override {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, static_cast<const CudaEvent&>(start).get(),
                               event_.get()),
          "cudaEventElapsedTime");
    return milliseconds / 1e3;
  }
  cudaEvent_t get() const { return event_.get(); }

 private:
  std::shared_ptr<const Gpu> gpu_;
  EventHandle event_;
};

class GpuStream final : public Stream {
 public:
  GpuStream(std::shared_ptr<const Gpu> gpu, Priority priority)
      : gpu_(std::move(gpu)), stream_(priority) {}

  void upload(void* device, const void* host, std::size_t bytes) override {
    use();
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.get()),
          "cudaMemcpyAsync");
  }
  void upload_rows(void* device, std::size_t pitch, const void* host, std::size_t row_bytes,
                   std::size_t rows) override {
    use();
    check(cudaMemcpy2DAsync(device, pitch, host, row_bytes, row_bytes, rows, cudaMemcpyHostToDevice,
                            stream_.get()),
          "cudaMemcpy2DAsync");
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    use();
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()),
          "cudaMemcpyAsync");
  }
  void record(Event& event) override {
    use();
    check(cudaEventRecord(static_cast<CudaEvent&>(event).get(), stream_.get()), "cudaEventRecord");
  }
  void wait(const Event& event) override {
    use();
    check(cudaStreamWaitEvent(stream_.get(), static_cast<const CudaEvent&>(event).get(), 0),
          "cudaStreamWaitEvent");
  }
  void synchronize() override {
    use();
    check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }

 protected:
  void launch_erased(const KernelLaunch& launch) override {
    use();
    launch.cuda(launch.kernel, launch.args, stream_.get());
    check(cudaGetLastError(), launch.name);
  }

 private:
  /// Any thread may enqueue work, and the current GPU of a new thread is GPU 0.
  void use() const { cuda::use(gpu_); }

  std::shared_ptr<const Gpu> gpu_;
  StreamHandle stream_;
};

/// The identifier for CUDA_VISIBLE_DEVICES. CUDA does not return its prefix, but the name of a MIG
/// device shows that it is one: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".
std::string uuid_text(const cudaDeviceProp& properties) {
  const bool mig = std::string_view(properties.name).find(" MIG ") != std::string_view::npos;
  std::string text = mig ? "MIG" : "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
  return text;
}

GpuFacts facts_of(const cudaDeviceProp& properties) {
  GpuFacts facts;
  facts.uuid = uuid_text(properties);
  facts.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", properties.pciDomainID, properties.pciBusID,
                          properties.pciDeviceID);
  facts.name = properties.name;
  facts.compute_capability = 10 * properties.major + properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  facts.async_engines = properties.asyncEngineCount;
  facts.concurrent_kernels = properties.concurrentKernels;
  facts.maps_host_memory = properties.canMapHostMemory;
  return facts;
}

/// For example "CUDA runtime 13.0, driver 12.4". The driver's number is the newest version of CUDA
/// that it supports.
std::string software() {
  int runtime = 0, driver = 0;
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  return fmt::format("CUDA runtime {}.{}, driver {}.{}", runtime / 1000, runtime % 1000 / 10,
                     driver / 1000, driver % 1000 / 10);
}

class CudaDevice final : public Device {
 public:
  CudaDevice(int ordinal, unsigned threads, Pinning pinning) : threads_(threads) {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, ordinal),
          fmt::format("cudaGetDeviceProperties of GPU {}", ordinal).c_str());
    const GpuFacts self = facts_of(properties);
    gpu_ = std::make_shared<const Gpu>(Gpu{ordinal, fmt::format("{}, {}", self.name, self.pci)});
    // A rank has more readers and writers than CPUs. While some of them wait for the GPU, they must
    // not keep the thread that enqueues kernels from running (src/pipeline/MEASUREMENTS.md).
    check(cudaInitDevice(ordinal, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid),
          "cudaInitDevice");
    use(gpu_);
    registers_ = pinning == Pinning::automatic && has(cudaDevAttrHostRegisterSupported);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    info_.backend = "cuda";
    info_.name = self.name;
    info_.uuid = self.uuid;
    info_.pci = self.pci;
    info_.software = software();
    info_.compute_capability = self.compute_capability;
    info_.multiprocessors = self.multiprocessors;
    info_.memory_total = total;
    info_.memory_free = free;
  }

  const DeviceInfo& info() const override { return info_; }
  std::unique_ptr<Stream> make_stream(Priority priority) override {
    use(gpu_);
    return std::make_unique<GpuStream>(gpu_, priority);
  }
  std::unique_ptr<Event> make_event() override { return make_cuda_event(false); }
  std::unique_ptr<Event> make_timed_event() override { return make_cuda_event(true); }

  void* allocate(Memory kind, std::size_t bytes) override {
    use(gpu_);
    switch (kind) {
      case Memory::device:
      case Memory::untouched:
        return allocate_device(bytes);
      case Memory::pageable:
        return allocate_pageable(bytes);
      case Memory::write_combined:
        return allocate_by_runtime(bytes, cudaHostAllocWriteCombined);
      case Memory::pinned:
        return registers_ ? allocate_pinned(bytes, cudaHostRegisterDefault)
                          : allocate_by_runtime(bytes, cudaHostAllocDefault);
      case Memory::mapped:
        break;
    }
    if (!registers_) return allocate_by_runtime(bytes, cudaHostAllocMapped);
    if (!has(cudaDevAttrCanUseHostPointerForRegisteredMem)) {
      throw Error(
          "this GPU cannot read host memory under the host's addresses: use --pipeline.mode "
          "pinned");
    }
    return allocate_pinned(bytes, cudaHostRegisterMapped);
  }
  void release(Memory kind, void* data, std::size_t bytes) noexcept override {
    report(cudaSetDevice(gpu_->ordinal), "cudaSetDevice");
    if (kind == Memory::device || kind == Memory::untouched) {
      report(cudaFree(data), "cudaFree");
    } else if (kind == Memory::write_combined || (kind != Memory::pageable && !registers_)) {
      report(cudaFreeHost(data), "cudaFreeHost");
    } else {
      if (kind != Memory::pageable) report(cudaHostUnregister(data), "cudaHostUnregister");
      host::unmap_pages(data, bytes);
    }
  }

 private:
  std::unique_ptr<Event> make_cuda_event(bool timed) const {
    use(gpu_);
    return std::make_unique<CudaEvent>(gpu_, timed);
  }

  static void* allocate_device(std::size_t bytes) {
    void* data = nullptr;
    check(cudaMalloc(&data, bytes), fmt::format("cudaMalloc of {}", format_size(bytes)).c_str());
    return data;
  }

  void* allocate_pageable(std::size_t bytes) const {
    void* data = host::map_pages(bytes);
    host::touch_pages(data, bytes, threads_);
    return data;
  }

  /// Pins pages, which is slow. It is needed for write-combined memory, for which
  /// cudaHostRegister() has no flag, and where that function is not supported.
  static void* allocate_by_runtime(std::size_t bytes, unsigned flags) {
    void* data = nullptr;
    check(cudaHostAlloc(&data, bytes, flags),
          fmt::format("cudaHostAlloc of {}", format_size(bytes)).c_str());
    return data;
  }

  bool has(cudaDeviceAttr ability) const {
    int yes = 0;
    check(cudaDeviceGetAttribute(&yes, ability, gpu_->ordinal), "cudaDeviceGetAttribute");
    return yes != 0;
  }

  /// Touches huge pages with the granted CPUs and then pins them. This is 20 times faster than
  /// cudaHostAlloc() (src/pipeline/README.md).
  void* allocate_pinned(std::size_t bytes, unsigned flags) const {
    void* data = allocate_pageable(bytes);
    try {
      check(cudaHostRegister(data, bytes, flags),
            fmt::format("cudaHostRegister of {}", format_size(bytes)).c_str());
    } catch (...) {
      host::unmap_pages(data, bytes);
      throw;
    }
    return data;
  }

  std::shared_ptr<const Gpu> gpu_;
  unsigned threads_;
  bool registers_ = true;  ///< whether pinned pages are registered ones of the host
  DeviceInfo info_;
};

/// Whether a query succeeded. A query that fails must not end a run, nor leave an error behind that
/// the next launch would report.
bool succeeded(cudaError_t status) {
  if (status == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

int visible_count() {
  int count = 0;
  return succeeded(cudaGetDeviceCount(&count)) ? count : 0;
}

/// "0000:1b:00.0"; empty if unknown.
std::string pci_of(int ordinal) {
  std::array<char, 32> text{};
  if (!succeeded(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal))) {
    return "";
  }
  std::string pci = text.data();
  for (char& c : pci) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  return pci;
}

}  // namespace

Inventory inventory() {
  Inventory seen;
  int count = 0;
  cudaError_t status = cudaGetDeviceCount(&count);
  for (int ordinal = 0; status == cudaSuccess && ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    status = cudaGetDeviceProperties(&properties, ordinal);
    if (status == cudaSuccess) seen.gpus.push_back(facts_of(properties));
  }
  if (status == cudaSuccess) return seen;
  (void)cudaGetLastError();  // reported here, so that the next launch does not report it again
  seen.gpus.clear();
  // Without a driver, CUDA reports that the driver is too old. That is a problem only with a GPU.
  const bool has_gpu = count > 0 || std::filesystem::exists("/dev/nvidiactl");
  if (status != cudaErrorNoDevice && has_gpu) {
    seen.problem = fmt::format("{}: {}", cudaGetErrorName(status), cudaGetErrorString(status));
  }
  return seen;
}

std::unique_ptr<Device> make_device(int ordinal, unsigned threads, Pinning pinning) {
  return std::make_unique<CudaDevice>(ordinal, threads, pinning);
}

std::vector<PeerAccess> peer_access() {
  std::vector<PeerAccess> pairs;
  const int count = visible_count();
  std::vector<std::string> pci;
  for (int gpu = 0; gpu < count; ++gpu) pci.push_back(pci_of(gpu));
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      int can = 0, rank = 0;
      if (from == to || !succeeded(cudaDeviceCanAccessPeer(&can, from, to))) continue;
      const bool ranked =
          succeeded(cudaDeviceGetP2PAttribute(&rank, cudaDevP2PAttrPerformanceRank, from, to));
      pairs.push_back({.from = pci[static_cast<std::size_t>(from)],
                       .to = pci[static_cast<std::size_t>(to)],
                       .can = can != 0,
                       .performance_rank = ranked ? rank : -1});
    }
  }
  return pairs;
}

}  // namespace shardstream::device::cuda
