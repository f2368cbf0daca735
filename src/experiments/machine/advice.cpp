#include "experiments/machine/advice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace shardstream::experiments::machine {
namespace {

constexpr double undisturbed = 0.9;  // shares from here on are as good as alone
constexpr double saturated = 0.95;   // of the largest total

/// The smallest number of ranks that reach the largest total.
int enough_ranks(std::span<const BusyLinks> links) {
  const double largest = std::ranges::max(links, {}, &BusyLinks::total).total;
  return std::ranges::find_if(
             links, [&](const BusyLinks& each) { return each.total >= saturated * largest; })
      ->ranks;
}

}  // namespace

std::string advice_on(std::string_view traffic, std::span<const BusyLinks> links) {
  const BusyLinks& all = links.back();
  if (all.min_share >= undisturbed) {
    return fmt::format("The {} of {} ranks do not disturb each other: use all of them.", traffic,
                       all.ranks);
  }
  const auto first = std::ranges::find_if(
      links, [](const BusyLinks& each) { return each.min_share < undisturbed; });
  const bool alike = all.max_share < undisturbed;
  const int enough = enough_ranks(links);
  const std::string remedy =
      enough < all.ranks
          ? fmt::format(
                "work that waits for {} gains little from more than {} ranks per host: "
                "spread them over more hosts, keep the data in device memory "
                "(pipeline.mode resident), or use a smaller element type",
                traffic, enough)
          : "the total still grows: use all of them, and expect this share for each";
  return fmt::format(
      "The {} of {} ranks disturb each other from {} ranks on, down to {:.2f} of the rate alone. "
      "{}; {}.",
      traffic, all.ranks, first->ranks, all.min_share,
      alike ? "All ranks lose, so that they may share the memory of the host or the link between "
              "its sockets"
            : "Some ranks keep their rate, so that the others may share a PCIe switch",
      remedy);
}

}  // namespace shardstream::experiments::machine
