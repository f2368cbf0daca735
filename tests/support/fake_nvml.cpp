// A library with NVML's functions and no GPU. It lacks nvmlDeviceGetCurrentClocksEventReasons, as
// drivers before 535 do. NVML's types and numbers are declared here anew, on purpose: shared with
// nvml.cpp, a mistake in them would be on both sides.
#include "support/fake_nvml.hpp"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <thread>

using shardstream::test::FakeNvml;

namespace {

enum Status { success = 0, invalid_argument = 2, not_supported = 3, not_found = 6 };
enum Clock { clock_sm = 1, clock_memory = 2 };
enum Counter { since_load = 0, ever = 1 };
constexpr int uncorrected = 1, peer_over_nvlink = 2;

FakeNvml knobs;

struct Gpu {
  const char *pci, *long_pci, *uuid;
  unsigned bus;
} gpus[] = {{"0000:1b:00.0", "00000000:1B:00.0", "GPU-fake-1b", 0x1b},
            {"0000:43:00.0", "00000000:43:00.0", "GPU-fake-43", 0x43}};

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};

struct MemoryInfo {
  unsigned long long total, free, used;
};

struct Utilization {
  unsigned gpu, memory;
};

struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

int copy(const char* from, char* to, unsigned size) {
  if (std::strlen(from) >= size) return invalid_argument;
  std::strcpy(to, from);
  return success;
}

template <class Number>
int give(bool supported, Number value, Number* to) {
  if (!supported) return not_supported;
  *to = value;
  return success;
}

unsigned times(const Gpu* gpu) {
  return gpu == gpus ? 1 : 2;
}

}  // namespace

extern "C" {

FakeNvml* fake_nvml_knobs() {
  return &knobs;
}

int nvmlInit_v2() {
  if (knobs.init_status == success) ++knobs.sessions;
  return knobs.init_status;
}
int nvmlShutdown() {
  --knobs.sessions;
  return success;
}
const char* nvmlErrorString(int status) {
  return status == 9 ? "Driver Not Loaded" : "Something";
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return copy("999.88.77", text, size);
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  return give(true, static_cast<unsigned>(std::size(gpus)), count);
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu** gpu) {
  return index < std::size(gpus) ? give(true, gpus + index, gpu) : invalid_argument;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* pci, Gpu** gpu) {
  for (Gpu& each : gpus) {
    if (std::strcmp(pci, each.pci) == 0) return give(true, &each, gpu);
  }
  return not_found;
}
int nvmlDeviceGetName(Gpu*, char* text, unsigned size) {
  return copy("Fake GPU", text, size);
}
int nvmlDeviceGetUUID(Gpu* gpu, char* text, unsigned size) {
  return copy(gpu->uuid, text, size);
}
int nvmlDeviceGetPciInfo_v3(Gpu* gpu, PciInfo* info) {
  *info = {};
  info->bus = gpu->bus;
  return copy(gpu->long_pci, info->id, sizeof(info->id));
}
int nvmlDeviceGetMemoryInfo(Gpu*, MemoryInfo* info) {
  return give(true, MemoryInfo{80ULL << 30, 79ULL << 30, 1ULL << 30}, info);
}
int nvmlDeviceGetCudaComputeCapability(Gpu*, int* major, int* minor) {
  give(true, 9, major);
  return give(true, 0, minor);
}
int nvmlDeviceGetEccMode(Gpu* gpu, int* now, int* next) {
  give(true, 1, next);
  return give(knobs.others_supported, gpu == gpus ? 1 : 0, now);
}
int nvmlDeviceGetComputeMode(Gpu*, int* mode) {
  return give(knobs.others_supported, knobs.compute_mode, mode);
}
int nvmlDeviceGetPersistenceMode(Gpu*, int* mode) {
  return give(knobs.others_supported, knobs.persistence_mode, mode);
}
int nvmlDeviceGetPerformanceState(Gpu* gpu, int* state) {
  constexpr int unknown_state = 32;
  return give(knobs.others_supported, gpu == gpus ? 2 : unknown_state, state);
}
int nvmlDeviceGetUtilizationRates(Gpu*, Utilization* rates) {
  return give(knobs.others_supported, Utilization{knobs.utilization, 7}, rates);
}
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu* gpu, unsigned* count, Process* processes) {
  const unsigned found = knobs.processes + times(gpu) - 1;
  if (*count < found) return invalid_argument;
  for (unsigned i = 0; i < found; ++i) processes[i] = {100 + i, 1, 0, 0};
  return give(knobs.others_supported, found, count);
}
int nvmlDeviceGetPowerUsage(Gpu* gpu, unsigned* milliwatts) {
  return give(knobs.power_supported, times(gpu) * knobs.milliwatts, milliwatts);
}
int nvmlDeviceGetEnforcedPowerLimit(Gpu*, unsigned* milliwatts) {
  return give(knobs.power_supported, 700000U, milliwatts);
}
int nvmlDeviceGetTotalEnergyConsumption(Gpu* gpu, unsigned long long* millijoules) {
  std::this_thread::sleep_for(std::chrono::microseconds(knobs.microseconds));
  knobs.millijoules += 1000;
  return give(knobs.energy_supported, times(gpu) * knobs.millijoules, millijoules);
}
int nvmlDeviceGetClockInfo(Gpu*, int clock, unsigned* mhz) {
  return give(knobs.others_supported, clock == clock_sm ? 1980U : 2619U, mhz);
}
int nvmlDeviceGetMaxClockInfo(Gpu*, int clock, unsigned* mhz) {
  return give(knobs.others_supported, clock == clock_memory ? 2619U : 1981U, mhz);
}
int nvmlDeviceGetTemperature(Gpu*, int, unsigned* degrees) {
  return give(knobs.others_supported, 41U, degrees);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(Gpu*, unsigned long long* reasons) {
  return give<unsigned long long>(knobs.others_supported, knobs.clock_reasons, reasons);
}
int nvmlDeviceGetTotalEccErrors(Gpu*, int kind, int counter, unsigned long long* errors) {
  if (kind != uncorrected) return invalid_argument;
  const unsigned long long before = counter == ever ? 100 : 0;
  return give(knobs.others_supported, before + knobs.ecc_errors, errors);
}
int nvmlDeviceGetCurrPcieLinkGeneration(Gpu*, unsigned* generation) {
  return give(true, 1U, generation);
}
int nvmlDeviceGetCurrPcieLinkWidth(Gpu*, unsigned* width) {
  return give(true, 8U, width);
}
int nvmlDeviceGetMaxPcieLinkGeneration(Gpu*, unsigned* generation) {
  return give(true, 5U, generation);
}
int nvmlDeviceGetMaxPcieLinkWidth(Gpu*, unsigned* width) {
  return give(knobs.others_supported, 16U, width);
}
int nvmlDeviceGetNvLinkState(Gpu*, unsigned link, int* active) {
  if (link >= 18) return invalid_argument;
  return give(knobs.others_supported, link < 17 ? 1 : 0, active);
}
int nvmlDeviceGetP2PStatus(Gpu* one, Gpu* other, int capability, int* status) {
  return give(knobs.others_supported && capability == peer_over_nvlink, one == other ? 1 : 0,
              status);
}

}  // extern "C"
