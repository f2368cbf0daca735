// What NVIDIA's management library (NVML) tells of GPUs. It is loaded at run time, from the driver;
// building needs nothing of it, and where it is missing everything is unknown.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shardstream::device {

/// Reals that are unknown are NaN, integers -1, texts empty. A driver leaves out what a GPU does
/// not have, and what a virtual machine may not see.
inline constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// What does not change while the program runs, but for the link's generation.
struct GpuFacts {
  std::string uuid, pci, name;   ///< pci as "0000:1b:00.0"
  int compute_capability = -1;   ///< 90 for 9.0
  int multiprocessors = -1;      ///< NVML does not tell it
  std::int64_t memory = -1;      ///< bytes
  int sm_clock_max = -1;         ///< MHz
  int memory_clock_max = -1;     ///< MHz
  double power_limit = unknown;  ///< W, the one in force
  std::string ecc;               ///< "on" or "off"
  int pcie_generation = -1;      ///< now; an idle GPU lowers it
  int pcie_width = -1;           ///< lanes, now
  int pcie_generation_max = -1;  ///< of this GPU in this system
  int pcie_width_max = -1;
  int nvlinks = -1;  ///< active ones
};

/// One look at a GPU.
struct GpuReading {
  double power = unknown;                      ///< W; on most GPUs the mean of the last second
  double energy = unknown;                     ///< J since the driver was loaded
  double sm_clock = unknown;                   ///< MHz
  double memory_clock = unknown;               ///< MHz
  double temperature = unknown;                ///< °C
  std::optional<std::uint64_t> clock_reasons;  ///< why clocks are not higher, as NVML's bits
};

/// Memory errors that could not be corrected: since the driver was loaded, and in the GPU's life.
struct EccErrors {
  std::int64_t since_load = -1, ever = -1;
};

/// Those of the reasons that mean a GPU slower than it could be: power cap, heat, and the
/// hardware's own brakes. Not being idle, and not clocks that someone has set.
std::uint64_t throttling(std::uint64_t clock_reasons);

/// "idle", "power-cap+thermal": all bits as words; empty for none.
std::string describe_clock_reasons(std::uint64_t clock_reasons);

class Nvml;

/// One GPU. A view: its Nvml must outlive it. Any thread may read.
class NvmlGpu {
 public:
  GpuFacts facts() const;
  /// Six calls of NVML, one a field. Each asks the driver, which can make others wait meanwhile.
  GpuReading read() const;
  EccErrors ecc_errors() const;
  /// Whether the two reach each other over NVLink, switches included; nothing if unknown.
  std::optional<bool> has_nvlink_to(const NvmlGpu& other) const;

 private:
  friend class Nvml;
  struct Library;
  NvmlGpu(const Library& library, void* handle) : library_(&library), handle_(handle) {}

  const Library* library_;
  void* handle_;
};

/// Holds the library, loaded and initialised. Where that cannot be, problem() says why, and there
/// are no GPUs: nothing here throws for the lack of it.
class Nvml {
 public:
  static constexpr const char* usual_name = "libnvidia-ml.so.1";

  /// Not loaded: for runs without a GPU.
  Nvml();
  explicit Nvml(const std::string& library);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  /// Empty if the library is there and works.
  const std::string& problem() const { return problem_; }
  std::string driver_version() const;  ///< "580.65.06"; empty if unknown
  /// All that it shows: CUDA_VISIBLE_DEVICES hides none from it, control groups do.
  std::vector<NvmlGpu> gpus() const;
  /// The GPU at a PCI address such as "0000:1b:00.0"; of a MIG slice it is the whole GPU.
  std::optional<NvmlGpu> gpu_at(const std::string& pci) const;

 private:
  std::string problem_;
  std::unique_ptr<NvmlGpu::Library> library_;
};

/// GB/s (10^9 bytes) each way of `width` lanes of a generation: transfers a second and lane of the
/// PCI Express Base Specification, less its line code (8b/10b in generations 1 and 2, 128b/130b in
/// 3 to 5, none in 6). Packet headers take some 5 to 15 % more. NaN for a generation or width
/// that is not known.
constexpr double pcie_rate(int generation, int width) {
  constexpr std::array transfers = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};  // 10^9 a second and lane
  constexpr std::array code = {0.8, 0.8, 128.0 / 130, 128.0 / 130, 128.0 / 130, 1.0};
  if (generation < 1 || generation > static_cast<int>(transfers.size()) || width < 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto i = static_cast<unsigned>(generation - 1);
  return transfers[i] * code[i] * width / 8;
}

/// GB/s (10^9 bytes) each way of `links` NVLinks of a GPU of this compute capability (90 for 9.0):
/// 20 a link on Pascal, 25 from Volta to Hopper, 50 on Blackwell (NVIDIA's data sheets). NaN
/// without links.
constexpr double nvlink_rate(int compute_capability, int links) {
  if (links < 1) return std::numeric_limits<double>::quiet_NaN();
  const double each = compute_capability < 70 ? 20 : compute_capability < 100 ? 25 : 50;
  return each * links;
}

}  // namespace shardstream::device
