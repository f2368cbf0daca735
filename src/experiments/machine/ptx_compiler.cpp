#include "experiments/machine/ptx_compiler.hpp"

#include <fmt/format.h>
#include <nvPTXCompiler.h>

#include <array>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::experiments::machine {
namespace {

void check(nvPTXCompileResult result, const char* call) {
  if (result == NVPTXCOMPILE_SUCCESS) return;
  throw Error(
      fmt::format("{} failed ({}): use the PTX compiler library of the CUDA version whose "
                  "NVRTC is installed",
                  call, static_cast<int>(result)));
}

/// The owner of a compiler for one text.
class Compiler {
 public:
  explicit Compiler(const std::string& ptx) {
    check(nvPTXCompilerCreate(&compiler_, ptx.size(), ptx.c_str()), "nvPTXCompilerCreate");
  }
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;
  ~Compiler() { nvPTXCompilerDestroy(&compiler_); }

  nvPTXCompilerHandle get() const { return compiler_; }

 private:
  nvPTXCompilerHandle compiler_ = nullptr;
};

}  // namespace

bool has_ptx_compiler() {
  return true;
}

std::string cubin_of(const std::string& ptx, int capability) {
  const Compiler compiler(ptx);
  const std::string architecture = fmt::format("--gpu-name=sm_{}", capability);
  const std::array<const char*, 1> flags = {architecture.c_str()};
  check(nvPTXCompilerCompile(compiler.get(), flags.size(), flags.data()), "nvPTXCompilerCompile");
  std::size_t size = 0;
  check(nvPTXCompilerGetCompiledProgramSize(compiler.get(), &size),
        "nvPTXCompilerGetCompiledProgramSize");
  std::string cubin(size, '\0');
  check(nvPTXCompilerGetCompiledProgram(compiler.get(), cubin.data()),
        "nvPTXCompilerGetCompiledProgram");
  return cubin;
}

}  // namespace shardstream::experiments::machine
