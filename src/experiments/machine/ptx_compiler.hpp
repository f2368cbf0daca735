// NVIDIA's PTX compiler library, which compiles PTX to machine code without a GPU and a driver.
#pragma once

#include <string>

namespace shardstream::experiments::machine {

/// Whether the program was built with the library (nvPTXCompiler).
bool has_ptx_compiler();

/// The machine code for GPUs of `capability`, 90 for 9.0. Throws Error if `ptx` is wrong or the
/// program was built without the library.
std::string cubin_of(const std::string& ptx, int capability);

}  // namespace shardstream::experiments::machine
