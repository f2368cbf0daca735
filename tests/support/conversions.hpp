// Conversions for tests.
#pragma once

#include "types/stored.hpp"

namespace shardstream::test {

/// The conversion that leaves elements of a type as they are.
inline Conversion unchanged(ElementType type) {
  for (const StoredType stored : all_stored_types) {
    if (word_of(stored) == word_of(type)) return {.from = stored, .to = type};
  }
  return {};
}

}  // namespace shardstream::test
