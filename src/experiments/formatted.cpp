#include "experiments/formatted.hpp"

#include <fmt/args.h>
#include <fmt/format.h>

#include <variant>

namespace shardstream::experiments {

std::string format_cells(std::string_view pattern, const std::vector<Cell>& values) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  for (const Cell& value : values) {
    std::visit([&](const auto& each) { arguments.push_back(each); }, value);
  }
  try {
    return fmt::vformat(pattern, arguments);
  } catch (const fmt::format_error& error) {
    throw ContractError(std::string("the values do not fit the pattern of a text: ") +
                        error.what());
  }
}

std::string ratio_text(double ratio) {
  return fmt::format(fmt::runtime(ratio < 99.5 ? "{:.3g}" : "{:.0f}"), ratio);
}

}  // namespace shardstream::experiments
