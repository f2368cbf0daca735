#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "kernels/gemm/cuda.hpp"
#include "kernels/gemm/panel/panel.hpp"
#include "kernels/gemm/panel/round_elements.hpp"
#include "kernels/gemm/panel/shifted.hpp"
#include "kernels/gemm/panel/transposed_blocks.hpp"
#include "kernels/vector_clones.hpp"

namespace shardstream::gemm {
namespace {

constexpr std::uint64_t changed_at_once = 512;  // doubles in the first-level cache

/// Subtracts whole_of(i) from element i, and converts the difference to a double. Compilers
/// vectorise the search for differences of more than 63 bits, which are rare. They do not vectorise
/// difference().
template <class WholeOf>
[[gnu::always_inline]] inline void differences(const std::int64_t* __restrict line,
                                               const WholeOf& whole_of, std::uint64_t width,
                                               double* __restrict out) {
  std::int64_t any = 0;
  for (std::uint64_t i = 0; i < width; ++i) {
    any |= wraps(line[i], whole_of(i), wrapped_difference(line[i], whole_of(i)));
  }
  for (std::uint64_t i = 0; i < width && any >= 0; ++i) {
    out[i] = static_cast<double>(wrapped_difference(line[i], whole_of(i)));
  }
  for (std::uint64_t i = 0; i < width && any < 0; ++i) out[i] = difference(line[i], whole_of(i));
}

/// Subtracts `whole` (null: nothing) from i64 elements, and converts elements to doubles. `one`:
/// all elements have the same `whole`; otherwise each has its own.
template <class T>
[[gnu::always_inline]] inline void to_doubles(const T* __restrict line,
                                              const std::int64_t* __restrict whole, bool one,
                                              std::uint64_t width, double* __restrict out) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    if (whole != nullptr && one) {
      return differences(
          line, [same = *whole](std::uint64_t) { return same; }, width, out);
    }
    if (whole != nullptr) {
      return differences(
          line, [whole](std::uint64_t i) { return whole[i]; }, width, out);
    }
  }
  for (std::uint64_t i = 0; i < width; ++i) {
    const auto x = static_cast<double>(line[i]);
    out[i] = std::is_floating_point_v<T> ? finite_or_nan(x) : x;
  }
}

/// Multiplies elements by one number, or each by its own; null means not at all.
[[gnu::always_inline]] inline void multiply(const double* __restrict by, bool one,
                                            std::uint64_t width, double* __restrict out) {
  if (by != nullptr && one) {
    const double same = *by;
    for (std::uint64_t i = 0; i < width; ++i) out[i] = multiplied(out[i], same);
  } else if (by != nullptr) {
    for (std::uint64_t i = 0; i < width; ++i) out[i] = multiplied(out[i], by[i]);
  }
}

/// The changes of neighbouring elements of a row: those of CanonicalizeArgs, for the first of them.
struct Changes {
  const std::int64_t* whole;
  const double *shift, *scale, *factor;
  bool one_variable;  ///< all elements have one variable; otherwise all have one sample
  bool one_shift;     ///< all elements have the same shift and `whole`
};

Changes changes_of(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t c) {
  const bool one = args.side == Side::a;
  const std::uint64_t variable = one ? r : c, sample = one ? c : r;
  const std::uint64_t shifted = args.shifts_samples ? sample : variable;
  const auto at = [](const auto* values, std::uint64_t i) {
    return values != nullptr ? values + i : nullptr;
  };
  return {.whole = at(args.whole, shifted),
          .shift = at(args.shift, shifted),
          .scale = at(args.scale, variable),
          .factor = at(args.factor, sample),
          .one_variable = one,
          .one_shift = one != args.shifts_samples};
}

/// Converts elements to doubles and changes them.
template <class T>
SHARDSTREAM_VECTOR_CLONES void change(const T* __restrict line, const Changes& changes,
                                      std::uint64_t width, double* __restrict out) {
  to_doubles(line, changes.whole, changes.one_shift, width, out);
  const double* __restrict const shift = changes.shift;
  if (shift != nullptr && changes.one_shift) {
    const double same = *shift;
    for (std::uint64_t i = 0; i < width; ++i) out[i] -= same;
  } else if (shift != nullptr) {
    for (std::uint64_t i = 0; i < width; ++i) out[i] -= shift[i];
  }
  multiply(changes.scale, changes.one_variable, width, out);
  multiply(changes.factor, !changes.one_variable, width, out);
}

SHARDSTREAM_VECTOR_CLONES bool any_vanishes(const double* values, std::uint64_t width,
                                            double limit) {
  std::uint64_t any = 0;
  for (std::uint64_t i = 0; i < width; ++i) any |= vanishes(values[i], limit) ? 1 : 0;
  return any != 0;
}

/// Marks the variables of values that vanish. Several threads may mark one variable.
void mark_lost(const double* values, std::uint64_t width, double limit, bool one,
               std::uint8_t* lost) {
  if (!any_vanishes(values, width, limit)) return;
  for (std::uint64_t i = 0; i < width; ++i) {
    if (!vanishes(values[i], limit)) continue;
    std::atomic_ref(lost[one ? 0 : i]).store(1, std::memory_order_relaxed);
  }
}

/// Converts some neighbouring elements of the panel's row r, from column c on; at most
/// `changed_at_once` if they change.
template <class T>
void convert_to(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t c, const T* line,
                std::uint64_t width, void* to) {
  if (!args.changes() && args.planes.count == 1) {
    (void)round_elements(args.from, args.precision, Backend::host, line, width, to);
    return;
  }
  double changed[changed_at_once];
  const Changes changes = changes_of(args, r, c);
  change(line, changes, width, changed);
  if (args.lost != nullptr) {
    mark_lost(changed, width, range_of(args.precision).vanishing, changes.one_variable,
              args.lost + (changes.one_variable ? r : c));
  }
  (void)round_elements(ElementType::f64, args.precision, Backend::host, changed, width, to);
}

/// The address of an element in a plane of the panel. `r` and `c` count variables and samples.
std::byte* place_of(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t c, Plane plane) {
  (args.side == Side::a ? r : c) = args.planes.place(args.side == Side::a ? r : c, plane);
  return static_cast<std::byte*>(args.panel) +
         (r * args.ld + c) * panel_element_bytes(args.precision, Backend::host);
}

template <class T>
constexpr bool is_missing(T x) {
  return x != x;  // NaN
}

/// Sets missing values to zero and writes the mask. E: of the panel.
template <class T, class E>
SHARDSTREAM_VECTOR_CLONES void write_mask(const T* __restrict line, std::uint64_t width,
                                          E* __restrict values, E* __restrict mask) {
  for (std::uint64_t i = 0; i < width; ++i) {
    mask[i] = is_missing(line[i]) ? E{0} : E{1};
    values[i] = is_missing(line[i]) ? E{0} : values[i];
  }
}

/// Writes all planes of some neighbouring elements, which belong to one tile.
template <class T>
void convert_planes(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t c, const T* line,
                    std::uint64_t width) {
  convert_to(args, r, c, line, width, place_of(args, r, c, Plane::values));
  with_host_panel_type(args.precision, [&](auto of) {
    using E = typename decltype(of)::type;
    auto* const values = reinterpret_cast<E*>(place_of(args, r, c, Plane::values));
    write_mask(line, width, values, reinterpret_cast<E*>(place_of(args, r, c, Plane::mask)));
    if (args.planes.count < 3) return;
    double squares[changed_at_once];
    for (std::uint64_t i = 0; i < width; ++i) {
      squares[i] = static_cast<double>(values[i]) * static_cast<double>(values[i]);
    }
    (void)round_elements(ElementType::f64, args.precision, Backend::host, squares, width,
                         place_of(args, r, c, Plane::squares));
  });
}

/// Writes some neighbouring elements of the panel's row r, from column c on; at most
/// `changed_at_once` if they are shifted or scaled, or if there are planes.
template <class T>
void convert(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t c, const T* line,
             std::uint64_t width) {
  if (args.planes.count == 1) {
    return convert_to(args, r, c, line, width, place_of(args, r, c, Plane::values));
  }
  const std::uint64_t tile = args.side == Side::a ? UINT64_MAX : args.planes.edge;
  while (width > 0) {
    const std::uint64_t some = std::min(width, tile - c % tile);
    convert_planes(args, r, c, line, some);
    c += some, line += some, width -= some;
  }
}

template <class T>
void convert_row(const CanonicalizeArgs& args, std::uint64_t r, std::uint64_t columns) {
  const T* const line = static_cast<const T*>(args.raw) + r * columns;
  const bool whole = !args.changes() && args.planes.count == 1;
  const std::uint64_t step = whole ? columns : changed_at_once;
  for (std::uint64_t c = 0; c < columns; c += step) {
    convert(args, r, c, line + c, std::min(step, columns - c));
  }
}

/// Sets some rows of a plane of the panel to zero beyond its valid rows and columns.
void zero_plane(const CanonicalizeArgs& args, Rows rows, Plane plane, std::uint64_t valid_rows,
                std::uint64_t valid_columns) {
  const std::size_t element = panel_element_bytes(args.precision, Backend::host);
  const std::uint64_t tile =
      args.planes.count == 1 || args.side == Side::a ? UINT64_MAX : args.planes.edge;
  for (std::uint64_t r = rows.begin; r < rows.end; ++r) {
    for (std::uint64_t c = r < valid_rows ? valid_columns : 0; c < args.columns;) {
      const std::uint64_t some = std::min(args.columns - c, tile - c % tile);
      std::memset(place_of(args, r, c, plane), 0, some * element);
      c += some;
    }
  }
}

void canonicalize(const CanonicalizeArgs& args, unsigned part, unsigned parts) {
  if (!takes(args.precision, args.from)) {
    throw std::logic_error("a panel of integers can only be made from its own type");
  }
  const Rows rows = rows_of(args.rows, part, parts);
  const std::uint64_t valid_rows = std::min(args.rows, args.valid_rows);
  const Rows valid = {rows.begin, std::max(rows.begin, std::min(rows.end, valid_rows))};
  const std::uint64_t columns = std::min(args.columns, args.valid_columns);
  with_element_type(args.from, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.transpose) {
      return detail::for_transposed(static_cast<const T*>(args.raw), valid_rows, valid, columns,
                                    [&](std::uint64_t r, std::uint64_t c, const T* line,
                                        std::uint64_t width) { convert(args, r, c, line, width); });
    }
    for (std::uint64_t r = valid.begin; r < valid.end; ++r) convert_row<T>(args, r, columns);
  });
  for (std::uint64_t plane = 0; plane < args.planes.count; ++plane) {
    zero_plane(args, rows, static_cast<Plane>(plane), valid_rows, columns);
  }
}

}  // namespace

Kernel<CanonicalizeArgs> canonicalize_kernel() {
  return {"gemm_canonicalize", canonicalize, with_cuda<cuda::canonicalize>()};
}

}  // namespace shardstream::gemm
