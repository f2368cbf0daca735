// Facts about GPUs from NVIDIA's management library (NVML). The library is loaded at run time from
// the driver; the build does not need it. Without it, everything is unknown.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardstream::device {

/// An unknown real number is NaN, an unknown integer -1, an unknown text empty. Features that a GPU
/// does not have, or that a virtual machine may not see, are unknown.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// Properties that do not change while the program runs, except `pcie_generation`, and modes that
/// an administrator sets.
struct GpuFacts {
  std::string uuid, pci, name;   ///< pci as "0000:1b:00.0"
  int compute_capability = -1;   ///< 90 for 9.0
  int multiprocessors = -1;      ///< not set by NVML
  std::int64_t memory = -1;      ///< bytes
  int sm_clock_max = -1;         ///< MHz
  int memory_clock_max = -1;     ///< MHz
  double power_limit = unknown;  ///< W, the enforced limit
  std::string ecc;               ///< "on" or "off"
  int pcie_generation = -1;      ///< current; an idle GPU lowers it
  int pcie_width = -1;           ///< current number of lanes
  int pcie_generation_max = -1;  ///< of this GPU in this system
  int pcie_width_max = -1;
  int nvlinks = -1;  ///< active ones
  /// Which processes may use the GPU: "default" (any number), "exclusive-thread",
  /// "exclusive-process" (one) or "prohibited" (none).
  std::string compute_mode;
  std::string
      persistence_mode;  ///< "on": the GPU stays initialised while no process uses it; "off"
  // Not set by NVML:
  int async_engines = -1;       ///< copies that can run beside kernels: 2 for both directions
  int concurrent_kernels = -1;  ///< 1: kernels of several streams can run at once
  int maps_host_memory = -1;    ///< 1: kernels can read pinned host memory
};

/// The use of a GPU by all processes, this one included.
struct GpuUse {
  int performance_state = -1;  ///< 0: the highest clocks, to 15: the lowest
  int utilization = -1;        ///< percent of the last second or less in which a kernel ran
  int processes = -1;          ///< that have a context there; containers may hide them
};

/// One reading of a GPU's state.
struct GpuReading {
  double power = unknown;                      ///< W; on most GPUs the mean of the last second
  double energy = unknown;                     ///< J since the driver was loaded
  double sm_clock = unknown;                   ///< MHz
  double memory_clock = unknown;               ///< MHz
  double temperature = unknown;                ///< °C
  std::optional<std::uint64_t> clock_reasons;  ///< NVML's bits for why clocks are not higher
};

/// The number of uncorrectable memory errors, since the driver was loaded and in total.
struct EccErrors {
  std::int64_t since_load = -1, ever = -1;
};

/// The bits of `clock_reasons` that mean throttling: power cap, temperature, and slowdowns by the
/// hardware. Idle GPUs and clocks set by a user are not throttled.
std::uint64_t throttling(std::uint64_t clock_reasons);

/// All bits as words: "idle", "power-cap+thermal"; empty for none.
std::string describe_clock_reasons(std::uint64_t clock_reasons);

class Nvml;

/// A view of one GPU: its Nvml must outlive it. Thread-safe.
class NvmlGpu {
 public:
  GpuFacts facts() const;
  /// Makes one call of NVML per field. Each call queries the driver and may block other threads
  /// that use the driver.
  GpuReading read() const;
  GpuUse use() const;
  EccErrors ecc_errors() const;
  /// Whether the two GPUs are connected by NVLink, directly or through switches; nothing if
  /// unknown.
  std::optional<bool> has_nvlink_to(const NvmlGpu& other) const;

 private:
  friend class Nvml;
  struct Library;
  NvmlGpu(const Library& library, void* handle) : library_(&library), handle_(handle) {}

  const Library* library_;
  void* handle_;
};

/// Owns the loaded library. If it cannot be loaded, problem() has the reason, and gpus() is empty;
/// nothing throws.
class Nvml {
 public:
  static constexpr const char* usual_name = "libnvidia-ml.so.1";

  /// Loads nothing, for runs without a GPU.
  Nvml();
  explicit Nvml(const std::string& library);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  /// Empty if the library works.
  const std::string& problem() const { return problem_; }
  std::string driver_version() const;  ///< "580.65.06"; empty if unknown
  /// All visible GPUs. Control groups may hide GPUs from NVML; CUDA_VISIBLE_DEVICES does not.
  std::vector<NvmlGpu> gpus() const;
  /// The GPU at a PCI address such as "0000:1b:00.0". For a MIG slice, it is the whole GPU.
  std::optional<NvmlGpu> gpu_at(const std::string& pci) const;

 private:
  std::string problem_;
  std::unique_ptr<NvmlGpu::Library> library_;
};

/// The rate of `width` PCIe lanes in GB/s (10^9 bytes) per direction: transfers per second and lane
/// from the PCI Express Base Specification, times the efficiency of the line code (8b/10b in
/// generations 1 and 2, 128b/130b in 3 to 5, none in 6). Packet headers cost another 5 to 15 %. NaN
/// for an unknown generation or width.
constexpr double pcie_rate(int generation, int width) {
  constexpr std::array transfers = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};  // 10^9 per second and lane
  constexpr std::array code = {0.8, 0.8, 128.0 / 130, 128.0 / 130, 128.0 / 130, 1.0};
  if (generation < 1 || generation > static_cast<int>(transfers.size()) || width < 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto i = static_cast<unsigned>(generation - 1);
  return transfers[i] * code[i] * width / 8;
}

/// The rate of `links` NVLinks in GB/s (10^9 bytes) per direction, for a GPU of this compute
/// capability (90 for 9.0): 20 per link on Pascal, 25 from Volta to Hopper, 50 on Blackwell (from
/// NVIDIA's data sheets). NaN without links.
constexpr double nvlink_rate(int compute_capability, int links) {
  if (links < 1) return std::numeric_limits<double>::quiet_NaN();
  const double each = compute_capability < 70 ? 20 : compute_capability < 100 ? 25 : 50;
  return each * links;
}

}  // namespace shardstream::device
