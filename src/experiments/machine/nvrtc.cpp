// NVRTC is loaded by its first call, as cuBLASLt is (kernels/gemm/multiply/cublaslt.cpp): the
// program also starts without it, and no other command loads its 100 MB.
#include "experiments/machine/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <string_view>
#include <type_traits>

#include "experiments/bench.hpp"

namespace shardstream::experiments::machine {
namespace {

[[noreturn]] void fail_to_load(std::string_view name) {
  const char* const why = dlerror();
  throw NotAvailable(
      fmt::format("{} cannot be loaded ({}): install NVRTC of the same CUDA version (package "
                  "cuda-nvrtc), or add its folder to LD_LIBRARY_PATH",
                  name, why != nullptr ? why : "unknown"));
}

/// The functions of NVRTC that are called here, as nvrtc.h declares them. The library is never
/// closed.
struct Library {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcGetErrorString) error_string;
  decltype(&nvrtcGetNumSupportedArchs) capability_count;
  decltype(&nvrtcGetSupportedArchs) capabilities;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;

  Library() {
    constexpr const char* name = SHARDSTREAM_NVRTC;
    const std::string configured = std::string(SHARDSTREAM_NVRTC_FOLDER) + '/' + name;
    void* file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) file = dlopen(configured.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) fail_to_load(name);
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(file, symbol));
      if (function == nullptr) fail_to_load(name);
    };
    find(version, "nvrtcVersion");
    find(error_string, "nvrtcGetErrorString");
    find(capability_count, "nvrtcGetNumSupportedArchs");
    find(capabilities, "nvrtcGetSupportedArchs");
    find(create, "nvrtcCreateProgram");
    find(destroy, "nvrtcDestroyProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(ptx_size, "nvrtcGetPTXSize");
    find(ptx, "nvrtcGetPTX");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
  }

  void check(nvrtcResult result, const char* call) const {
    if (result == NVRTC_SUCCESS) return;
    throw Error(
        fmt::format("{} failed ({}): check that libnvrtc-builtins of the same version is beside "
                    "libnvrtc, or else set TMPDIR to a folder with free space",
                    call, error_string(result)));
  }
  /// Since 12.9, NVRTC has a cache.
  bool has_cache() const {
    int major = 0, minor = 0;
    check(version(&major, &minor), "nvrtcVersion");
    return major > 12 || (major == 12 && minor >= 9);
  }
};

/// Throws NotAvailable if NVRTC cannot be loaded; the next call tries again.
const Library& library() {
  static const Library the_library;
  return the_library;
}

/// A program of NVRTC.
class Program {
 public:
  explicit Program(const std::string& source) {
    library().check(library().create(&program_, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
                    "nvrtcCreateProgram");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { library().destroy(&program_); }

  nvrtcProgram get() const { return program_; }

  /// The text or the code that a pair of functions returns.
  std::string read(nvrtcResult (*size_of)(nvrtcProgram, std::size_t*),
                   nvrtcResult (*copy)(nvrtcProgram, char*), const char* call) const {
    std::size_t size = 0;
    library().check(size_of(program_, &size), call);
    std::string bytes(size, '\0');
    library().check(copy(program_, bytes.data()), call);
    return bytes;
  }

 private:
  nvrtcProgram program_ = nullptr;
};

}  // namespace

std::vector<int> capabilities_of_nvrtc() {
  int count = 0;
  library().check(library().capability_count(&count), "nvrtcGetNumSupportedArchs");
  std::vector<int> capabilities(static_cast<std::size_t>(count));
  library().check(library().capabilities(capabilities.data()), "nvrtcGetSupportedArchs");
  std::ranges::sort(capabilities);
  return capabilities;
}

std::string compile(const std::string& source, Code code, int capability, OwnCache cache) {
  const Library& nvrtc = library();
  const Program program(source);
  const std::string architecture =
      fmt::format("--gpu-architecture={}_{}", code == Code::cubin ? "sm" : "compute", capability);
  std::vector<const char*> flags = {architecture.c_str(), "--fmad=false", "--std=c++20",
                                    "--include-path=" SHARDSTREAM_CUDA_HEADERS,
                                    "--include-path=" SHARDSTREAM_CUDA_HEADERS "/cccl"};
  if (cache == OwnCache::off && nvrtc.has_cache()) flags.push_back("--no-cache");
  const nvrtcResult result =
      nvrtc.compile(program.get(), static_cast<int>(flags.size()), flags.data());
  if (result == NVRTC_ERROR_COMPILATION) {
    throw SourceError(program.read(nvrtc.log_size, nvrtc.log, "nvrtcGetProgramLog"));
  }
  nvrtc.check(result, "nvrtcCompileProgram");
  if (code == Code::cubin) return program.read(nvrtc.cubin_size, nvrtc.cubin, "nvrtcGetCUBIN");
  return program.read(nvrtc.ptx_size, nvrtc.ptx, "nvrtcGetPTX");
}

}  // namespace shardstream::experiments::machine
