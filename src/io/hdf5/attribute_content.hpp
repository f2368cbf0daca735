// The contents of attributes of any type, also of damaged ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "kernels/data/stored_value.hpp"

namespace shardstream::io {

/// The content of an attribute: numbers, a text, or neither.
struct AttributeContent {
  /// Integers are exact, floats rounded to f64. Numbers of an enumeration, such as h5py's booleans,
  /// count as well. Empty if the attribute has none or too many, or if they cannot be read.
  std::vector<Number> numbers = {};
  bool is_f32 = false;  ///< the type of `numbers`
  /// The text of a string, as_utf8(); empty if it is too long or one of several.
  std::optional<std::string> text;

  bool operator==(const AttributeContent&) const = default;
};

/// Reads an attribute of at most 4 KiB. Its content is empty if the attribute does not exist or
/// cannot be read. Needs the lock.
AttributeContent attribute_content(hid_t object, const std::string& name);

}  // namespace shardstream::io
