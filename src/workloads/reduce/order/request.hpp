// The requested order statistics: `median` and `quantile(Q,Q,...)` in a list of operations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardstream::workloads {

/// A requested quantile, and its name as the user would write it alone: "quantile(0.05)", "median".
struct Quantile {
  std::string op;
  double q;  ///< 0 to 1

  bool operator==(const Quantile&) const = default;
};

inline constexpr std::size_t max_quantiles = 100;

/// Whether the operation is an order statistic.
bool is_order_statistic(std::string_view op);

/// The quantiles in a list of operations, in their order; other operations are left out. Throws
/// UsageError if a number is wrong, a quantile is requested twice, or there are more than
/// max_quantiles.
std::vector<Quantile> quantiles_of(const std::vector<std::string>& ops);

}  // namespace shardstream::workloads
