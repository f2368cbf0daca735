// The functions of cuBLASLt that this program calls, as cublasLt.h declares them. The first call
// loads the library. A program that is linked with it loads it before main(), and its relocations
// take 0.06 s of every command, also of those that do not multiply (src/execution/README.md).
#include <cublasLt.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void fail_to_load(const std::string& name) {
  const char* const why = dlerror();
  throw std::runtime_error(name + " cannot be loaded (" + (why != nullptr ? why : "unknown") +
                           "): install cuBLAS of CUDA " + std::to_string(CUBLAS_VER_MAJOR) +
                           ", or add its folder to LD_LIBRARY_PATH, to multiply matrices on GPUs");
}

void* open_library() {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  const std::string configured = std::string(SHARDSTREAM_CUBLASLT_FOLDER) + '/' + name;
  if (void* const file = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return file;
  if (void* const file = dlopen(configured.c_str(), RTLD_NOW | RTLD_LOCAL)) return file;
  fail_to_load(name);
}

/// The library. Throws std::runtime_error if it cannot be loaded; the next call tries again. It is
/// never closed, since calls may run until the process ends.
void* library() {
  static void* const file = open_library();
  return file;
}

/// The library's function with this declaration and name.
template <class Function>
Function* find(Function*, const char* name) {
  void* const symbol = dlsym(library(), name);
  if (symbol == nullptr) fail_to_load(name);
  return reinterpret_cast<Function*>(symbol);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static auto* const call = find(cublasLtCreate, "cublasLtCreate");
  return call(handle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  static auto* const call = find(cublasLtDestroy, "cublasLtDestroy");
  return call(handle);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static auto* const call = find(cublasLtGetStatusString, "cublasLtGetStatusString");
  return call(status);
}

std::size_t cublasLtGetVersion() {
  static auto* const call = find(cublasLtGetVersion, "cublasLtGetVersion");
  return call();
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, std::size_t size,
                                                 cudaDataType type, std::uint64_t rows,
                                                 std::uint64_t columns, std::int64_t ld) {
  static auto* const call =
      find(cublasLtMatrixLayoutInit_internal, "cublasLtMatrixLayoutInit_internal");
  return call(layout, size, type, rows, columns, ld);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t size) {
  static auto* const call =
      find(cublasLtMatrixLayoutSetAttribute, "cublasLtMatrixLayoutSetAttribute");
  return call(layout, name, value, size);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, std::size_t size,
                                               cublasComputeType_t compute, cudaDataType scale) {
  static auto* const call =
      find(cublasLtMatmulDescInit_internal, "cublasLtMatmulDescInit_internal");
  return call(product, size, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t size) {
  static auto* const call = find(cublasLtMatmulDescSetAttribute, "cublasLtMatmulDescSetAttribute");
  return call(product, name, value, size);
}

#if CUBLAS_VERSION >= 130100
cublasStatus_t cublasLtEmulationDescInit_internal(cublasLtEmulationDesc_t emulation,
                                                  std::size_t size) {
  static auto* const call =
      find(cublasLtEmulationDescInit_internal, "cublasLtEmulationDescInit_internal");
  return call(emulation, size);
}

cublasStatus_t cublasLtEmulationDescSetAttribute(cublasLtEmulationDesc_t emulation,
                                                 cublasLtEmulationDescAttributes_t name,
                                                 const void* value, std::size_t size) {
  static auto* const call =
      find(cublasLtEmulationDescSetAttribute, "cublasLtEmulationDescSetAttribute");
  return call(emulation, name, value, size);
}
#endif

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     std::size_t size) {
  static auto* const call =
      find(cublasLtMatmulPreferenceInit_internal, "cublasLtMatmulPreferenceInit_internal");
  return call(preference, size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, std::size_t size) {
  static auto* const call =
      find(cublasLtMatmulPreferenceSetAttribute, "cublasLtMatmulPreferenceSetAttribute");
  return call(preference, name, value, size);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int max,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  static auto* const call = find(cublasLtMatmulAlgoGetHeuristic, "cublasLtMatmulAlgoGetHeuristic");
  return call(handle, product, a, b, c, d, preference, max, results, count);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  static auto* const call = find(cublasLtMatmulAlgoCheck, "cublasLtMatmulAlgoCheck");
  return call(handle, product, a, b, c, d, algorithm, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value, std::size_t size,
                                                    std::size_t* written) {
  static auto* const call =
      find(cublasLtMatmulAlgoConfigGetAttribute, "cublasLtMatmulAlgoConfigGetAttribute");
  return call(algorithm, name, value, size, written);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t a_layout,
                              const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                              const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  static auto* const call = find(cublasLtMatmul, "cublasLtMatmul");
  return call(handle, product, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
              algorithm, workspace, workspace_bytes, stream);
}
