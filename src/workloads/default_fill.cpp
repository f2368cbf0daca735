#include "workloads/default_fill.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/log.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "io/hdf5/netcdf.hpp"

namespace shardstream::workloads {
namespace {

bool may_have_them(const Options& options, const io::Source& source) {
  const bool is_float = source.type() == ElementType::f32 || source.type() == ElementType::f64;
  return is_float && !source.origin().files.empty() && options.text("input.conventions") == "auto";
}

/// The number of them among elements that are read for this purpose.
std::uint64_t read_and_count(const Options& options, const io::Source& source, Range elements) {
  std::vector<std::byte> read(elements.count * size_of(source.type()));
  source.read(elements.first, elements.count, read.data());
  return default_fills(options, source, read.data(), elements.count);
}

/// The elements of whole boxes, of about a million elements, since parts of chunks cost as much.
std::uint64_t piece_of(const io::Source& source) {
  constexpr std::uint64_t enough = std::uint64_t{1} << 20;
  const std::uint64_t box = saturating_product(source.box());
  return box >= enough ? enough : enough / box * box;
}

std::uint64_t count_all(runtime::Runtime& runtime, const io::Source& source, Range own,
                        unsigned readers) {
  const std::uint64_t piece = piece_of(source);
  std::atomic<std::uint64_t> found = 0;
  Progress progress("counting fill values", static_cast<double>(own.count),
                    runtime.session.rank() == 0 && runtime.log.shows_progress());
  runtime.session.collectively([&] {
    parallel_for(ceil_div(own.count, piece), readers, [&](std::uint64_t number) {
      const Range elements = intersection({own.first + number * piece, piece}, own);
      found += read_and_count(runtime.options, source, elements);
      runtime.session.heartbeat().move();
      progress.add(static_cast<double>(elements.count));
    });
  });
  return runtime.session.sum(found);
}

}  // namespace

std::uint64_t default_fills(const Options& options, const io::Source& source,
                            const std::byte* elements, std::uint64_t count) {
  if (!may_have_them(options, source)) return 0;
  const auto count_in = [&](const auto* values) {
    return static_cast<std::uint64_t>(
        std::count(values, values + count, io::default_fill_value_of_floats));
  };
  return source.type() == ElementType::f32 ? count_in(reinterpret_cast<const float*>(elements))
                                           : count_in(reinterpret_cast<const double*>(elements));
}

std::string default_fill_warning(const io::Source& source, std::uint64_t found) {
  return fmt::format(
      "{} of {} equal netCDF's default fill value ({}), but count as data, since nothing in the "
      "file says that netCDF wrote them: if they are missing, add the attribute _FillValue",
      counted(found, "value"), source.name(), io::default_fill_value_of_floats);
}

void warn_of_default_fills(runtime::Runtime& runtime, const io::Source& source, Range own,
                           std::uint64_t sampled, unsigned readers) {
  if (runtime.session.sum(sampled) == 0) return;
  const std::uint64_t found = count_all(runtime, source, own, readers);
  if (runtime.session.rank() == 0) runtime.log.warn(default_fill_warning(source, found));
}

void warn_of_default_fills(runtime::Runtime& runtime, const io::Source& source, unsigned readers) {
  if (!may_have_them(runtime.options, source)) return;
  constexpr std::uint64_t ranges = 16, of_range = 4096;
  const ranks::Session& session = runtime.session;
  const Range own = share(source.count(), static_cast<std::uint64_t>(session.rank()),
                          static_cast<std::uint64_t>(session.size()));
  std::uint64_t sampled = 0;
  session.collectively([&] {
    for (std::uint64_t i = 0; i < ranges; ++i) {
      Range part = share(own.count, i, ranges);
      part = {own.first + part.first, std::min(part.count, of_range)};
      if (part.count > 0) sampled += read_and_count(runtime.options, source, part);
    }
  });
  warn_of_default_fills(runtime, source, own, sampled, readers);
}

}  // namespace shardstream::workloads
