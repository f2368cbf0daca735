#include "device/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>

#include "core/text.hpp"

namespace shardstream::device {
namespace {

// Types and numbers of NVML (NVML API Reference Manual), since nvml.h is not installed everywhere.
// Enumerations are passed as int.
using Handle = void*;
using Status = int;

constexpr Status success = 0;
constexpr int clock_sm = 1, clock_memory = 2;
constexpr int sensor_gpu = 0;
constexpr int uncorrected = 1, counted_since_load = 0, counted_ever = 1;
constexpr int peer_over_nvlink = 2;
constexpr unsigned max_processes = 1024;
constexpr unsigned max_links = 36;  // the newest GPUs have 18
constexpr unsigned text_size = 96;  // the longest of names, UUIDs and versions

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

struct MemoryInfo {
  unsigned long long total, free, used;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(MemoryInfo) == 24);  // nvmlPciInfo_t, nvmlMemory_t

struct Utilization {
  unsigned gpu, memory;  // percent
};
static_assert(sizeof(Utilization) == 8);  // nvmlUtilization_t

/// nvmlProcessInfo_v2_t, which version 3 of the function fills, too.
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(Process) == 24);

constexpr std::array compute_modes = {"default", "exclusive-thread", "prohibited",
                                      "exclusive-process"};  // nvmlComputeMode_t

struct ReasonWord {
  std::uint64_t bit;
  std::string_view word;
  bool throttles;
};
constexpr std::array reason_words = {
    ReasonWord{0x001, "idle", false},
    ReasonWord{0x002, "application-clocks", false},
    ReasonWord{0x004, "power-cap", true},
    ReasonWord{0x008, "hardware-slowdown", true},
    ReasonWord{0x010, "sync-boost", false},
    ReasonWord{0x020, "thermal", true},
    ReasonWord{0x040, "hardware-thermal", true},
    ReasonWord{0x080, "power-brake", true},
    ReasonWord{0x100, "display-clocks", false},
};

/// A function of the library; null if this version does not have it.
template <class... Arguments>
struct Function {
  Status (*pointer)(Arguments...) = nullptr;
  bool operator()(Arguments... arguments) const {
    return pointer != nullptr && pointer(arguments...) == success;
  }
};

/// `value`, or `otherwise` if it does not fit: NVML uses huge numbers for unavailable values.
template <class Number>
Number known(unsigned long long value, Number otherwise) {
  constexpr auto max = static_cast<unsigned long long>(std::numeric_limits<Number>::max());
  return value <= max ? static_cast<Number>(value) : otherwise;
}

}  // namespace

struct NvmlGpu::Library {
  void* file = nullptr;
  bool initialised = false;

  Function<> init, shutdown;
  Function<char*, unsigned> driver_version;
  Function<unsigned*> count;
  Function<unsigned, Handle*> by_index;
  Function<const char*, Handle*> by_pci;
  Function<Handle, char*, unsigned> name, uuid;
  Function<Handle, PciInfo*> pci;
  Function<Handle, MemoryInfo*> memory;
  Function<Handle, int*, int*> compute_capability, ecc_mode;
  Function<Handle, int*> compute_mode, persistence_mode, performance_state;
  Function<Handle, Utilization*> utilization;
  Function<Handle, unsigned*, Process*> processes;
  Function<Handle, unsigned*> power, power_limit, pcie_generation, pcie_width, pcie_generation_max,
      pcie_width_max;
  Function<Handle, unsigned long long*> energy, clock_reasons;
  Function<Handle, int, unsigned*> clock, clock_max, temperature;
  Function<Handle, int, int, unsigned long long*> ecc_errors;
  Function<Handle, unsigned, int*> link_state;
  Function<Handle, Handle, int, int*> peer_status;

  explicit Library(void* opened) : file(opened) {
    load(init, "nvmlInit_v2");
    load(shutdown, "nvmlShutdown");
    load(driver_version, "nvmlSystemGetDriverVersion");
    load(count, "nvmlDeviceGetCount_v2");
    load(by_index, "nvmlDeviceGetHandleByIndex_v2");
    load(by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    load(name, "nvmlDeviceGetName");
    load(uuid, "nvmlDeviceGetUUID");
    load(pci, "nvmlDeviceGetPciInfo_v3");
    load(memory, "nvmlDeviceGetMemoryInfo");
    load(compute_capability, "nvmlDeviceGetCudaComputeCapability");
    load(ecc_mode, "nvmlDeviceGetEccMode");
    load(compute_mode, "nvmlDeviceGetComputeMode");
    load(persistence_mode, "nvmlDeviceGetPersistenceMode");
    load(performance_state, "nvmlDeviceGetPerformanceState");
    load(utilization, "nvmlDeviceGetUtilizationRates");
    load(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (processes.pointer == nullptr) {  // its name before driver 510
      load(processes, "nvmlDeviceGetComputeRunningProcesses_v2");
    }
    load(power, "nvmlDeviceGetPowerUsage");
    load(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
    load(pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration");
    load(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth");
    load(pcie_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration");
    load(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth");
    load(energy, "nvmlDeviceGetTotalEnergyConsumption");
    load(clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons");
    if (clock_reasons.pointer == nullptr) {  // its name before driver 535
      load(clock_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
    load(clock, "nvmlDeviceGetClockInfo");
    load(clock_max, "nvmlDeviceGetMaxClockInfo");
    load(temperature, "nvmlDeviceGetTemperature");
    load(ecc_errors, "nvmlDeviceGetTotalEccErrors");
    load(link_state, "nvmlDeviceGetNvLinkState");
    load(peer_status, "nvmlDeviceGetP2PStatus");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() {
    if (initialised) shutdown();
    dlclose(file);
  }

  template <class... Arguments>
  void load(Function<Arguments...>& function, const char* symbol) {
    function.pointer = reinterpret_cast<Status (*)(Arguments...)>(dlsym(file, symbol));
  }

  /// NVML's text for an error.
  std::string words_for(Status status) const {
    auto* words = reinterpret_cast<const char* (*)(Status)>(dlsym(file, "nvmlErrorString"));
    return words != nullptr ? words(status) : fmt::format("status {}", status);
  }

  static std::string text(const Function<Handle, char*, unsigned>& get, Handle gpu) {
    std::array<char, text_size> text{};
    return get(gpu, text.data(), text_size) ? text.data() : "";
  }
  template <class... Which>
  static int integer(const Function<Handle, Which..., unsigned*>& get, Handle gpu, Which... which) {
    unsigned value = 0;
    return get(gpu, which..., &value) ? known<int>(value, -1) : -1;
  }
  /// A value that NVML gives in thousandths of our unit.
  static double thousandths(const Function<Handle, unsigned*>& get, Handle gpu) {
    const int value = integer(get, gpu);
    return value < 0 ? unknown : value / 1e3;
  }
};

std::uint64_t throttling(std::uint64_t clock_reasons) {
  std::uint64_t mask = 0;
  for (const auto& reason : reason_words) mask |= reason.throttles ? reason.bit : 0;
  return clock_reasons & mask;
}

std::string describe_clock_reasons(std::uint64_t clock_reasons) {
  std::vector<std::string> words;
  for (const auto& reason : reason_words) {
    if ((clock_reasons & reason.bit) != 0) words.emplace_back(reason.word);
    clock_reasons &= ~reason.bit;
  }
  if (clock_reasons != 0)
    words.push_back(fmt::format("{:#x}", clock_reasons));  // bits of a newer library
  return join(words, "+");
}

GpuFacts NvmlGpu::facts() const {
  const Library& l = *library_;
  GpuFacts facts;
  facts.uuid = Library::text(l.uuid, handle_);
  facts.name = Library::text(l.name, handle_);
  PciInfo pci{};
  if (l.pci(handle_, &pci)) {
    facts.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
  }
  int major = 0, minor = 0;
  if (l.compute_capability(handle_, &major, &minor)) facts.compute_capability = 10 * major + minor;
  MemoryInfo memory{};
  if (l.memory(handle_, &memory)) facts.memory = known<std::int64_t>(memory.total, -1);
  facts.sm_clock_max = Library::integer(l.clock_max, handle_, clock_sm);
  facts.memory_clock_max = Library::integer(l.clock_max, handle_, clock_memory);
  facts.power_limit = Library::thousandths(l.power_limit, handle_);
  int ecc_now = 0, ecc_next = 0;
  if (l.ecc_mode(handle_, &ecc_now, &ecc_next)) facts.ecc = ecc_now != 0 ? "on" : "off";
  int mode = 0;
  if (l.compute_mode(handle_, &mode) && mode >= 0 && mode < std::ssize(compute_modes)) {
    facts.compute_mode = compute_modes.at(static_cast<std::size_t>(mode));
  }
  if (l.persistence_mode(handle_, &mode)) facts.persistence_mode = mode != 0 ? "on" : "off";
  facts.pcie_generation = Library::integer(l.pcie_generation, handle_);
  facts.pcie_width = Library::integer(l.pcie_width, handle_);
  facts.pcie_generation_max = Library::integer(l.pcie_generation_max, handle_);
  facts.pcie_width_max = Library::integer(l.pcie_width_max, handle_);
  for (unsigned link = 0; link < max_links; ++link) {
    int active = 0;
    if (!l.link_state(handle_, link, &active)) continue;
    facts.nvlinks = (facts.nvlinks < 0 ? 0 : facts.nvlinks) + (active != 0 ? 1 : 0);
  }
  return facts;
}

GpuReading NvmlGpu::read() const {
  const Library& l = *library_;
  const auto real = [](int value) { return value < 0 ? unknown : value; };
  GpuReading reading;
  reading.power = Library::thousandths(l.power, handle_);
  unsigned long long value = 0;
  if (l.energy(handle_, &value)) reading.energy = static_cast<double>(value) / 1e3;
  reading.sm_clock = real(Library::integer(l.clock, handle_, clock_sm));
  reading.memory_clock = real(Library::integer(l.clock, handle_, clock_memory));
  reading.temperature = real(Library::integer(l.temperature, handle_, sensor_gpu));
  if (l.clock_reasons(handle_, &value)) reading.clock_reasons = value;
  return reading;
}

GpuUse NvmlGpu::use() const {
  const Library& l = *library_;
  GpuUse use;
  int state = 0;
  constexpr int max_state = 15;  // NVML has 32 for an unknown one
  if (l.performance_state(handle_, &state) && state <= max_state) use.performance_state = state;
  Utilization utilization{};
  if (l.utilization(handle_, &utilization)) use.utilization = known<int>(utilization.gpu, -1);
  std::vector<Process> processes(max_processes);
  unsigned count = max_processes;
  if (l.processes(handle_, &count, processes.data())) use.processes = known<int>(count, -1);
  return use;
}

EccErrors NvmlGpu::ecc_errors() const {
  const auto count = [&](int counter) -> std::int64_t {
    unsigned long long errors = 0;
    if (!library_->ecc_errors(handle_, uncorrected, counter, &errors)) return -1;
    return known<std::int64_t>(errors, -1);
  };
  return {.since_load = count(counted_since_load), .ever = count(counted_ever)};
}

std::optional<bool> NvmlGpu::has_nvlink_to(const NvmlGpu& other) const {
  int status = 0;
  if (!library_->peer_status(handle_, other.handle_, peer_over_nvlink, &status)) return {};
  return status == 0;
}

Nvml::Nvml() : problem_("not loaded") {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

Nvml::Nvml(const std::string& library) {
  void* file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* words = dlerror();
    problem_ = words != nullptr ? words : library + " cannot be loaded";
    return;
  }
  library_ = std::make_unique<NvmlGpu::Library>(file);
  if (library_->init.pointer == nullptr || library_->shutdown.pointer == nullptr) {
    problem_ = library + " has no nvmlInit_v2: the driver is too old";
  } else if (const Status status = library_->init.pointer(); status != success) {
    problem_ = fmt::format("nvmlInit_v2 failed ({})", library_->words_for(status));
  } else {
    library_->initialised = true;
    return;
  }
  library_.reset();
}

std::string Nvml::driver_version() const {
  std::array<char, text_size> text{};
  if (!library_ || !library_->driver_version(text.data(), text_size)) return "";
  return text.data();
}

std::vector<NvmlGpu> Nvml::gpus() const {
  std::vector<NvmlGpu> found;
  unsigned count = 0;
  if (!library_ || !library_->count(&count)) return found;
  for (unsigned i = 0; i < count; ++i) {
    Handle gpu = nullptr;
    if (library_->by_index(i, &gpu)) found.push_back({*library_, gpu});
  }
  return found;
}

std::optional<NvmlGpu> Nvml::gpu_at(const std::string& pci) const {
  Handle gpu = nullptr;
  if (!library_ || !library_->by_pci(pci.c_str(), &gpu)) return {};
  return NvmlGpu{*library_, gpu};
}

}  // namespace shardstream::device
