#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "experiments/machine/expression.hpp"
#include "experiments/machine/nvrtc.hpp"
#include "experiments/machine/ptx_compiler.hpp"
#include "experiments/machine/runtime_compile.hpp"

namespace shardstream::experiments::machine {
namespace {

/// Adds a row with the time that `make` takes. It returns code.
void add(Bench& bench, Measurements& rows, const char* way,
         const std::function<std::string()>& make) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  std::size_t bytes = 0;
  const Measured seconds = bench.repeat([&] {
    const auto begin = Clock::now();
    bytes = make().size();
    return seconds_since(begin);
  });
  rows.add({way, static_cast<std::int64_t>(bytes)}, seconds.times(1e3), none, "compiled; not run");
}

}  // namespace

std::string checked_expression(const Bench& bench, int capability) {
  std::string expression = bench.options().text("runtime-compile.map");
  check_expression(expression);
  try {
    (void)compile(kernel_source(expression), Code::ptx, capability, OwnCache::off);
  } catch (const SourceError& error) {
    throw UsageError(sentence_on(first_complaint(error.log(), expression), expression));
  }
  return expression;
}

Table compile_without_gpu(Bench& bench) {
  check_expression(bench.options().text("runtime-compile.map"));  // also without NVRTC
  const std::vector<int> known = capabilities_of_nvrtc();
  constexpr int hopper = 90;
  const bool knows_hopper = std::ranges::find(known, hopper) != known.end();
  const int capability = knows_hopper ? hopper : known.back();
  const std::string source = kernel_source(checked_expression(bench, capability));
  bench.draw({.look = Look::bars, .x = "way", .y = "compile", .more_is_better = false});
  bench.note(fmt::format("Compiled for compute capability {}.{} and not run: no GPU is used.",
                         capability / 10, capability % 10));
  Measurements rows({{"way", ColumnType::text}, {"code", ColumnType::integer, "B"}},
                    {"compile", ColumnType::real, "ms"});
  const auto compiled = [&](Code code) { return compile(source, code, capability, OwnCache::off); };
  add(bench, rows, "NVRTC to PTX", [&] { return compiled(Code::ptx); });
  add(bench, rows, "NVRTC to cubin", [&] { return compiled(Code::cubin); });
  if (has_ptx_compiler()) {
    add(bench, rows, "NVRTC, PTX compiler",
        [&] { return cubin_of(compiled(Code::ptx), capability); });
  }
  return std::move(rows).table();
}

}  // namespace shardstream::experiments::machine
