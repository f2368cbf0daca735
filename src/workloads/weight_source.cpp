#include "workloads/weight_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/source/strided.hpp"
#include "workloads/default_fill.hpp"

namespace shardstream::workloads {
namespace {

/// The position in the data set of the used element with this index.
io::Extents position_of(const io::Source& source, std::uint64_t index) {
  io::Extents position(source.dimensions().size());
  for (std::size_t d = position.size(); d-- > 0;) {
    const io::Axis& axis = source.dimensions()[d].axis;
    position[d] = axis[index % axis.count];
    index /= axis.count;
  }
  return position;
}

}  // namespace

std::unique_ptr<io::Source> open_weight_source(const Options& options, std::string_view key) {
  if (!io::names_file(options, key)) {
    throw UsageError(fmt::format("{} is {}, which names no file: write FILE:/PATH or FILE", key,
                                 excerpt(options.text(key))));
  }
  return io::open_source(
      options, {.key = key, .shape = {}, .type = ElementType::f64, .seed = 0, .keeps_type = true});
}

std::vector<double> read_weights(const io::Source& source) {
  std::vector<double> values(source.count());
  io::Extents extent;
  for (const io::SourceDimension& each : source.dimensions()) extent.push_back(each.axis.count);
  with_element_type(source.type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> stored(values.size());
    source.read_block(io::Extents(extent.size()), extent, io::dense_pitches(extent, sizeof(T)),
                      reinterpret_cast<std::byte*>(stored.data()));
    std::ranges::transform(stored, values.begin(), [](T x) { return static_cast<double>(x); });
  });
  return values;
}

std::uint64_t WeightPlaces::index_of(std::uint64_t element) const {
  std::uint64_t index = 0;
  for (std::size_t d = dimensions_.size(); d-- > 0; element /= dimensions_[d].pairs.count()) {
    const auto& [pairs, stride] = dimensions_[d];
    if (stride > 0) index += pairs[element % pairs.count()] * stride;
  }
  return index;
}

std::vector<double> WeightPlaces::pick(const std::vector<double>& all) const {
  std::uint64_t count = 1;
  for (const Dimension& each : dimensions_) count = saturating_product(count, each.pairs.count());
  std::vector<double> picked;
  picked.reserve(count);
  expect(!dimensions_.empty(), "elements with weights have dimensions");
  const auto& [last, stride] = dimensions_.back();
  while (picked.size() < count) {
    const std::uint64_t row = index_of(picked.size()) - (stride > 0 ? last[0] * stride : 0);
    for (std::uint64_t i = 0; i < last.count(); ++i) {
      picked.push_back(all[row + (stride > 0 ? last[i] * stride : 0)]);
    }
  }
  return picked;
}

void warn_of_default_fill(const Options& options, const io::Source& source,
                          std::span<const double> weights, std::vector<std::string>& warnings) {
  const std::uint64_t found =
      may_have_default_fill(options, source) ? count_default_fill(weights) : 0;
  if (found > 0) warnings.push_back(default_fill_warning(source, found));
}

void expect_weights(std::string_view key, const io::Source& source, std::span<const double> weights,
                    const WeightPlaces& places) {
  const auto wrong =
      std::ranges::find_if(weights, [](double w) { return !(w >= 0) || !std::isfinite(w); });
  if (wrong != weights.end()) {
    const std::uint64_t index =
        places.index_of(static_cast<std::uint64_t>(wrong - weights.begin()));
    throw UsageError(fmt::format(
        "{}: element [{}] of {} is {}: weights must be finite numbers that are not negative; write "
        "0 for what should not count",
        key, join(position_of(source, index), ", "), source.name(),
        std::isnan(*wrong) ? std::string("NaN, or missing") : fmt::format("{}", *wrong)));
  }
  if (std::ranges::all_of(weights, [](double w) { return w == 0; })) {
    throw UsageError(fmt::format("{}: all {} of {} are 0: name other weights", key,
                                 counted(weights.size(), "weight"), source.name()));
  }
}

}  // namespace shardstream::workloads
