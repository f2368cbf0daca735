// The settings of a fake NVML library with two GPUs. It is loaded like NVML; a test changes the
// settings through fake_nvml().
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>

namespace shardstream::test {

/// Change these before the library is opened or while no thread reads; atomics at any time.
struct FakeNvml {
  int init_status = 0;
  bool energy_supported = true;  ///< whether the energy counter exists
  bool power_supported = true;
  bool others_supported = true;                     ///< clocks, temperature, reasons, ECC, links
  std::atomic<unsigned> milliwatts = 250000;        ///< of the first GPU; the second has twice that
  std::atomic<unsigned long long> millijoules = 0;  ///< of the first GPU; +1000 with each reading
  std::atomic<unsigned long long> clock_reasons = 0;
  std::atomic<unsigned long long> ecc_errors = 0;  ///< since load; 100 more in the GPU's life
  std::atomic<unsigned> microseconds = 0;          ///< duration of a reading
  int compute_mode = 0;                            ///< NVML's number; 3: exclusive process
  int persistence_mode = 1;
  unsigned utilization = 0;       ///< percent
  unsigned processes = 0;         ///< on the first GPU; one more on the second
  std::atomic<int> sessions = 0;  ///< number of inits minus shutdowns
};

/// The settings of the library at FAKE_NVML, which stays loaded.
inline FakeNvml& fake_nvml() {
  static void* library = dlopen(FAKE_NVML, RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<FakeNvml* (*)()>(dlsym(library, "fake_nvml_knobs"))();
}

/// Resets the settings to their initial values.
inline FakeNvml& fresh_fake_nvml() {
  FakeNvml& knobs = fake_nvml();
  knobs.init_status = 0;
  knobs.energy_supported = knobs.power_supported = knobs.others_supported = true;
  knobs.milliwatts = 250000;
  knobs.millijoules = knobs.clock_reasons = knobs.ecc_errors = 0;
  knobs.microseconds = 0;
  knobs.compute_mode = 0;
  knobs.persistence_mode = 1;
  knobs.utilization = knobs.processes = 0;
  return knobs;
}

}  // namespace shardstream::test
