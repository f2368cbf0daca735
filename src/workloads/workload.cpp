#include "workloads/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace shardstream::workloads {

Scaled scaled_count(const Options& options, std::string_view key, double factor) {
  const auto base = static_cast<double>(options.count(key));
  const double count = std::max(1.0, std::round(base * factor));
  if (!(count < 0x1p62)) {
    throw UsageError(
        fmt::format("{} would be {:.3g} ({} times {}): choose fewer ranks or a smaller size", key,
                    count, factor, options.text(key)));
  }
  return {.options = {{std::string(key), fmt::format("{:.0f}", count)}}, .factor = count / base};
}

Scaled scaled_rows(const Options& options, double factor) {
  if (options.is_auto("input.rows")) {
    throw UsageError(
        fmt::format("input.rows is auto (all rows of {}), which cannot grow in a weak scaling "
                    "study: pass --input.rows with the number of rows at the smallest size",
                    options.text("input.data")));
  }
  return scaled_count(options, "input.rows", factor);
}

}  // namespace shardstream::workloads
