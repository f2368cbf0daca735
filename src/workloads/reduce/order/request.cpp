#include "workloads/reduce/order/request.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"

namespace shardstream::workloads {
namespace {

constexpr std::string_view median = "median", quantile = "quantile", opening = "quantile(";

[[noreturn]] void reject(std::string_view op, const std::string& why) {
  throw UsageError(fmt::format(
      "reduce.ops: {}: {}: pass numbers from 0 to 1, such as --reduce.ops 'quantile(0.05,0.95)'",
      excerpt(op), why));
}

double number_in(std::string_view op, std::string_view text) {
  double q = 0;
  try {
    q = parse_number(text);
  } catch (const UsageError& error) {
    reject(op, error.what());
  }
  if (!(q >= 0 && q <= 1)) reject(op, fmt::format("{} is not in 0..1", excerpt(text)));
  return q == 0 ? 0 : q;  // not -0
}

void add(std::vector<Quantile>& quantiles, const Quantile& next) {
  if (std::ranges::find(quantiles, next.op, &Quantile::op) != quantiles.end()) {
    throw UsageError(fmt::format("reduce.ops: {} is listed twice: leave one out", next.op));
  }
  if (quantiles.size() == max_quantiles) {
    throw UsageError(fmt::format("reduce.ops: more than {} quantiles are listed: use several runs",
                                 max_quantiles));
  }
  quantiles.push_back(next);
}

}  // namespace

bool is_order_statistic(std::string_view op) {
  return op == median || op == quantile || op.starts_with(opening);
}

std::vector<Quantile> quantiles_of(const std::vector<std::string>& ops) {
  std::vector<Quantile> quantiles;
  for (const std::string_view op : ops) {
    if (op == median) add(quantiles, {std::string(op), 0.5});
    if (op == quantile) reject(op, "it has no numbers");
    if (!op.starts_with(opening)) continue;
    if (!op.ends_with(')')) reject(op, "the parenthesis is not closed");
    const std::string_view list = op.substr(opening.size(), op.size() - opening.size() - 1);
    if (trim(list).empty()) reject(op, "the list is empty");
    for (const std::string_view text : split(list, ',')) {
      const double q = number_in(op, text);
      // The same number is written in one way, so that it cannot be listed twice.
      add(quantiles, {fmt::format("quantile({})", q), q});
    }
  }
  return quantiles;
}

}  // namespace shardstream::workloads
