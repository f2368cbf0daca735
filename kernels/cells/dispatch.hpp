// From the choice of statistics at run time to the code compiled for it.
#pragma once

#include <type_traits>

#include "kernels/cells/moments.hpp"

namespace shardstream::cells {

template <Set S>
using SetConstant = std::integral_constant<Set, S>;

/// Calls f(SetConstant<set>{}).
template <class F>
void with_set(Set set, F&& f) {
  switch (set) {
    case Set::sum:
      return f(SetConstant<Set::sum>{});
    case Set::extremes:
      return f(SetConstant<Set::extremes>{});
    case Set::squares:
      return f(SetConstant<Set::squares>{});
    case Set::all:
      return f(SetConstant<Set::all>{});
    case Set::weighted:
      return f(SetConstant<Set::weighted>{});
  }
}

/// Words of Moments or of an Accumulator.
template <class T>
unsigned moment_words(Set set) {
  unsigned words = 0;
  with_set(set, [&](auto chosen) { words = words_of<T, chosen()>; });
  return words;
}

}  // namespace shardstream::cells
