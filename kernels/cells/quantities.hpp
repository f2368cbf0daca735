// Which quantities the state of a cell has, and how its numbers are stored.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cells/number.hpp"

namespace shardstream::cells {

/// Quantities of a cell. Every cell also has a count and a sum.
enum class Quantity : std::uint16_t {
  extremes = 1,
  positions = 2,    ///< those of extremes. With `extremes`
  squares = 4,      ///< squares of deviations from the mean
  powers = 8,       ///< their third and fourth powers. With `squares`
  magnitudes = 16,  ///< the sum of absolute values
  weights = 32,     ///< weights; the sum and squares are then weighted
  nonzeros = 64,    ///< the number of values that are not 0
  product = 128,    ///< the product of all values
  units = 256       ///< the units of extremes. With `extremes`; units have it, but not lanes
};

/// Quantities that are chosen at run time.
class Quantities {
 public:
  constexpr Quantities() = default;
  constexpr Quantities(Quantity quantity) : bits_(static_cast<unsigned>(quantity)) {}  // NOLINT

  static constexpr Quantities all() {
    Quantities quantities;
    quantities.bits_ = 511;
    return quantities;
  }
  constexpr bool has(Quantity quantity) const {
    return (bits_ & static_cast<unsigned>(quantity)) != 0;
  }
  constexpr Quantities without(Quantity quantity) const {
    Quantities others = *this;
    others.bits_ &= ~static_cast<unsigned>(quantity);
    return others;
  }
  friend constexpr Quantities operator|(Quantities a, Quantities b);
  constexpr bool operator==(const Quantities&) const = default;

 private:
  unsigned bits_ = 0;
};
constexpr Quantities operator|(Quantities a, Quantities b) {
  a.bits_ |= b.bits_;
  return a;
}
constexpr Quantities operator|(Quantity a, Quantity b) {
  return Quantities(a) | Quantities(b);
}

/// Those of lanes, which have no units. The compiler knows that.
class LaneQuantities : public Quantities {
 public:
  explicit constexpr LaneQuantities(Quantities quantities) : Quantities(quantities) {}
  constexpr bool has(Quantity quantity) const {
    return quantity != Quantity::units && Quantities::has(quantity);
  }
};

/// Quantities that are known when code is compiled, so that it has no branches for the others.
template <Quantity... Q>
struct FixedQuantities {
  static constexpr bool has(Quantity quantity) { return (... || (quantity == Q)); }
  static constexpr Quantities all() { return (Quantities() | ... | Q); }
  constexpr FixedQuantities() = default;
  explicit constexpr FixedQuantities(Quantities) {}
};
template <class Q>
inline constexpr bool is_fixed = !std::is_base_of_v<Quantities, Q>;

/// Quantities that most results need. There is code for each of them, without branches.
using SumOnly = FixedQuantities<>;
using WithExtremes = FixedQuantities<Quantity::extremes>;
using WithSquares = FixedQuantities<Quantity::extremes, Quantity::squares>;
/// Those of skewness and kurtosis, for which GPUs have a kernel for dense rows.
using WithPowers = FixedQuantities<Quantity::extremes, Quantity::squares, Quantity::powers>;

/// Calls f(quantities), as fixed ones if there is code for them.
template <class F>
void with_common_quantities(Quantities quantities, F&& f) {
  if (quantities == SumOnly::all()) return f(SumOnly{});
  if (quantities == WithExtremes::all()) return f(WithExtremes{});
  if (quantities == WithSquares::all()) return f(WithSquares{});
  f(quantities);
}

/// The words of a number.
template <class Number>
inline constexpr unsigned word_count = (sizeof(Number) + 7) / 8;

/// Reads and writes numbers as 64-bit words whose addresses are `pitch` words apart. Smaller
/// integers are widened.
class Words {
 public:
  constexpr Words(std::uint64_t* first, std::uint64_t pitch) : next_(first), pitch_(pitch) {}

  template <class V>
  constexpr void load(V& value) {
    if constexpr (sizeof(V) == 16) {
      std::uint64_t low = 0, high = 0;
      load(low);
      load(high);
      value = static_cast<V>((static_cast<Int128>(high) << 64) | low);
    } else {
      if constexpr (sizeof(V) == 8) {
        value = std::bit_cast<V>(*next_);
      } else {
        value = static_cast<V>(*next_);
      }
      next_ += pitch_;
    }
  }
  template <class V>
  constexpr void store(V value) {
    if constexpr (sizeof(V) == 16) {
      store(static_cast<std::uint64_t>(value));
      store(static_cast<std::uint64_t>(value >> 64));
    } else {
      if constexpr (sizeof(V) == 8) {
        *next_ = std::bit_cast<std::uint64_t>(value);
      } else {
        *next_ = static_cast<std::uint64_t>(value);
      }
      next_ += pitch_;
    }
  }

 private:
  std::uint64_t* next_;
  std::uint64_t pitch_;
};

/// A state whose numbers are words in memory. `State` has visit(quantities, state, use), which
/// calls use(number) for each number of the quantities.
template <class State>
struct InWords {
  template <class Q>
  static constexpr State load(Q quantities, std::uint64_t* first, std::uint64_t pitch) {
    State state;
    State::visit(quantities, state,
                 [words = Words(first, pitch)](auto& number) mutable { words.load(number); });
    return state;
  }
  template <class Q>
  constexpr void store(Q quantities, std::uint64_t* first, std::uint64_t pitch) const {
    State::visit(
        quantities, static_cast<const State&>(*this),
        [words = Words(first, pitch)](const auto& number) mutable { words.store(number); });
  }
};

}  // namespace shardstream::cells
