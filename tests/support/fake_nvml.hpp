// The knobs of a library that plays NVML: two GPUs that a test sets as it likes. It is loaded as
// NVML is; the test reaches the knobs through fake_nvml().
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <stdexcept>

namespace shardstream::test {

/// Set before the library is opened, or while nobody reads, but for the atomics.
struct FakeNvml {
  int init_status = 0;
  bool energy_supported = true;  ///< the counter
  bool power_supported = true;
  bool others_supported = true;                     ///< clocks, temperature, reasons, ECC, links
  std::atomic<unsigned> milliwatts = 250000;        ///< the first GPU's; the second's is double
  std::atomic<unsigned long long> millijoules = 0;  ///< the first GPU's; grows by 1000 at a look
  std::atomic<unsigned long long> clock_reasons = 0;
  std::atomic<unsigned long long> ecc_errors = 0;  ///< since load; in the GPU's life 100 more
  std::atomic<unsigned> microseconds = 0;          ///< that a look takes
  std::atomic<int> sessions = 0;                   ///< inits less shutdowns
};

/// Those of the library at FAKE_NVML, which stays loaded.
inline FakeNvml& fake_nvml() {
  static void* library = dlopen(FAKE_NVML, RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return *reinterpret_cast<FakeNvml* (*)()>(dlsym(library, "fake_nvml_knobs"))();
}

/// As they are at first.
inline FakeNvml& fresh_fake_nvml() {
  FakeNvml& knobs = fake_nvml();
  knobs.init_status = 0;
  knobs.energy_supported = knobs.power_supported = knobs.others_supported = true;
  knobs.milliwatts = 250000;
  knobs.millijoules = knobs.clock_reasons = knobs.ecc_errors = 0;
  knobs.microseconds = 0;
  return knobs;
}

}  // namespace shardstream::test
