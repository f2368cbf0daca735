#include "core/metric.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "core/log.hpp"
#include "core/text.hpp"

namespace shardstream {
namespace {

std::string json_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// A finite number with all its digits, which a double may not have.
std::string json_value(const Metric& metric) {
  const double number = number_of(metric);
  const auto* const text = std::get_if<std::string>(&metric.value);
  if (text != nullptr && std::isnan(metric.number) && *text != "nan") return json_string(*text);
  if (!std::isfinite(number)) return "null";
  if (text != nullptr) return *text;
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, metric.value);
}

}  // namespace

double number_of(const Metric& metric) {
  if (const auto* const real = std::get_if<double>(&metric.value)) return *real;
  if (const auto* const integer = std::get_if<std::int64_t>(&metric.value)) {
    return static_cast<double>(*integer);
  }
  return metric.number;
}

std::string to_text(std::span<const Metric> metrics) {
  std::string lines;
  for (const Metric& metric : metrics) {
    const std::string value =
        std::visit([&](const auto& cell) { return fmt::format(fmt::runtime(metric.format), cell); },
                   metric.value);
    lines += fmt::format("{}={}{}{}\n", metric.key, printable(value),
                         metric.unit.empty() ? "" : " ", metric.unit);
  }
  return lines;
}

std::string to_json(std::span<const Metric> metrics) {
  std::string object = "{\n", units;
  for (const Metric& metric : metrics) {
    object += fmt::format("  {}: {},\n", json_string(metric.key), json_value(metric));
    if (metric.unit.empty()) continue;
    units += fmt::format("{}\n    {}: {}", units.empty() ? "" : ",", json_string(metric.key),
                         json_string(metric.unit));
  }
  return fmt::format("{}  \"units\": {{{}{}}}\n}}\n", object, units, units.empty() ? "" : "\n  ");
}

void print_metrics(std::span<const Metric> metrics, Printing printing,
                   std::string_view consolation) {
  if (printing == Printing::none) return;
  print_output(printing == Printing::json ? to_json(metrics) : to_text(metrics), consolation);
}

}  // namespace shardstream
