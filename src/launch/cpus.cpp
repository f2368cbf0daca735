#include "launch/cpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::launch {
namespace {

int number(std::string_view text, std::string_view list) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) {
    throw Error(fmt::format("'{}' is no list of CPUs", list));
  }
  return value;
}

}  // namespace

std::string list_of(const Cpus& cpus) {
  std::string list;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    list += list.empty() ? "" : ",";
    list += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return list;
}

Cpus cpus_of(std::string_view list) {
  Cpus cpus;
  if (trim(list).empty()) return cpus;
  for (const std::string_view run : split(list, ',')) {
    const auto dash = run.find('-');
    const int first = number(run.substr(0, dash), list);
    const int last = dash == run.npos ? first : number(run.substr(dash + 1), list);
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

Cpus common(const Cpus& these, const Cpus& those) {
  Cpus both;
  std::ranges::copy_if(these, std::back_inserter(both),
                       [&](int cpu) { return std::ranges::find(those, cpu) != those.end(); });
  return both;
}

}  // namespace shardstream::launch
