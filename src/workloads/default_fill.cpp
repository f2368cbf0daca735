#include "workloads/default_fill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "core/log.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "io/description/conventions.hpp"

namespace shardstream::workloads {
namespace {

template <class T>
std::uint64_t count_in(std::span<const T> values) {
  return static_cast<std::uint64_t>(
      std::ranges::count(values, static_cast<T>(io::default_fill_value_of_floats)));
}

template <class T>
std::uint64_t read_and_count(const io::Source& source, Range elements) {
  std::vector<T> values(elements.count);
  source.read(elements.first, elements.count, reinterpret_cast<std::byte*>(values.data()));
  return count_in(std::span<const T>(values));
}

/// The number in `ranges(number)` for each number below `count`, or nothing if these elements
/// cannot be read.
template <class Ranges>
std::optional<std::uint64_t> count_in_ranges(const ranks::Session& session,
                                             const io::Source& source, std::uint64_t count,
                                             unsigned readers, const Ranges& ranges) {
  std::atomic<std::uint64_t> found = 0;
  try {
    parallel_for(count, readers, [&](std::uint64_t number) {
      const Range elements = ranges(number);
      found += source.type() == ElementType::f32 ? read_and_count<float>(source, elements)
                                                 : read_and_count<double>(source, elements);
      session.heartbeat().move();
    });
  } catch (const Error&) {
    return std::nullopt;  // the elements have been read before, so the result stands
  }
  return found;
}

}  // namespace

bool may_have_default_fill(const Options& options, const io::Source& source) {
  const bool is_float = source.type() == ElementType::f32 || source.type() == ElementType::f64;
  return is_float && !source.declares_missing() && !source.origin().files.empty() &&
         options.text("input.conventions") == "auto";
}

std::uint64_t count_default_fill(std::span<const float> values) {
  return count_in(values);
}
std::uint64_t count_default_fill(std::span<const double> values) {
  return count_in(values);
}

std::string default_fill_warning(const io::Source& source, std::uint64_t found, bool at_least) {
  return fmt::format(
      "{} has netCDF's default fill value, {}, in {}{}. They count as data, since nothing in the "
      "file says that netCDF wrote it: if they are missing, add the attribute _FillValue in the "
      "type of the data; if not, pass --input.conventions none",
      source.name(), io::default_fill_value_of_floats, at_least ? "at least " : "",
      counted(found, "element"));
}

void count_and_warn(runtime::Runtime& runtime, const io::Source& source, Range own,
                    std::uint64_t sampled, unsigned readers) {
  const ranks::Session& session = runtime.session;
  const std::uint64_t all_sampled = session.sum(sampled);
  if (all_sampled == 0) return;
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;
  Progress progress("counting fill values", static_cast<double>(own.count),
                    session.rank() == 0 && runtime.log.shows_progress());
  const auto found =
      count_in_ranges(session, source, ceil_div(own.count, piece), readers, [&](std::uint64_t i) {
        const Range elements = intersection({own.first + i * piece, piece}, own);
        progress.add(static_cast<double>(elements.count));
        return elements;
      });
  const bool all_read = session.sum(found ? 0 : 1) == 0;
  const std::uint64_t all = session.sum(found.value_or(0));
  if (session.rank() != 0 || (all_read && all == 0)) return;
  runtime.log.warn(default_fill_warning(source, all_read ? all : all_sampled, !all_read));
}

void sample_and_warn(runtime::Runtime& runtime, const io::Source& source, unsigned readers) {
  if (!may_have_default_fill(runtime.options, source)) return;
  constexpr std::uint64_t ranges = 16, of_range = std::uint64_t{1} << 16;
  const ranks::Session& session = runtime.session;
  const Range own = share(source.count(), static_cast<std::uint64_t>(session.rank()),
                          static_cast<std::uint64_t>(session.size()));
  const auto sampled =
      count_in_ranges(session, source, ranges, readers, [&](std::uint64_t i) -> Range {
        const Range part = share(own.count, i, ranges);
        return {own.first + part.first, std::min(part.count, of_range)};
      });
  count_and_warn(runtime, source, own, sampled.value_or(0), readers);
}

}  // namespace shardstream::workloads
