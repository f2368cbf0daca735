#include "io/description/conventions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>
#include <variant>

#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {
namespace {

using Numbers = std::vector<Number>;

constexpr auto remedy =
    "correct the attribute, or add --input.conventions none to take values as they are stored";

std::string text_of(const Number& number) {
  return std::visit([](auto n) { return fmt::format("{}", n); }, number);
}

double as_double(const Number& number) {
  return std::visit([](auto n) { return static_cast<double>(n); }, number);
}

bool is_nan(const Number& number) {
  return std::isnan(as_double(number));
}

std::optional<StoredType> unsigned_type(StoredType type) {
  switch (type) {
    case StoredType::i8:
      return StoredType::u8;
    case StoredType::i16:
      return StoredType::u16;
    case StoredType::i32:
      return StoredType::u32;
    case StoredType::i64:
      return StoredType::u64;
    default:
      return std::nullopt;
  }
}

/// Whether numpy gives products and sums of this type and f32 as f32.
bool is_exact_in_f32(StoredType type) {
  return size_of(type) <= 2 || type == StoredType::f32;
}

/// Whether no value of the type is below the value of `bits`.
bool is_lowest(std::uint64_t bits, StoredType type) {
  return with_value(bits, type, [](auto value) {
    using T = decltype(value);
    if constexpr (std::floating_point<T>) {
      return std::isnan(value) || value == -std::numeric_limits<T>::infinity();
    }
    return value == std::numeric_limits<T>::min();
  });
}

/// Whether no value of the type is above the value of `bits`.
bool is_highest(std::uint64_t bits, StoredType type) {
  return with_value(bits, type, [](auto value) {
    using T = decltype(value);
    if constexpr (std::floating_point<T>) {
      return std::isnan(value) || value == std::numeric_limits<T>::infinity();
    }
    return value == std::numeric_limits<T>::max();
  });
}

bool is_above(std::uint64_t a, std::uint64_t b, StoredType type) {
  return with_stored_type(type, [=](auto id) {
    using Stored = typename decltype(id)::type;
    return conversion::number_of_bits<Stored>(a) > conversion::number_of_bits<Stored>(b);
  });
}

bool are_equal(std::uint64_t a, std::uint64_t b, StoredType type) {
  return with_stored_type(type, [=](auto id) {
    using Stored = typename decltype(id)::type;
    return conversion::number_of_bits<Stored>(a) == conversion::number_of_bits<Stored>(b);
  });
}

/// Reads the attributes of one data set, one kind of attribute after the other.
class Reader {
 public:
  Reader(const DatasetAttributes& attributes, StoredType stored, const std::string& name)
      : attributes_(attributes), stored_(stored), name_(name) {
    found_.type = stored;
  }

  void check_shape();
  void read_sign();
  /// Missing values: `max` at most. Returns whether the attribute was applied.
  bool read_missing(const std::string& attribute, std::size_t max);
  void add_default_fill_value();
  void read_limits();
  void read_unpacking();

  Conventions result() { return std::move(found_); }

 private:
  /// A factor or an addend.
  struct Operand {
    std::string attribute;
    double value;
    bool is_f32;
  };

  /// Null if the data set does not have the attribute.
  const AttributeContent* find(const std::string& attribute) const;
  void warn(const std::string& attribute, const std::string& reason);
  std::optional<std::vector<std::uint64_t>> stored_values(const std::string& attribute,
                                                          std::size_t min, std::size_t max);
  void add_missing(std::uint64_t bits);
  std::optional<Operand> operand(const std::string& attribute) const;
  void check_operand(const Operand& operand, bool is_factor) const;
  void warn_about_offset(const Operand& offset);

  const DatasetAttributes& attributes_;
  StoredType stored_;  // numbers of attributes are of this type, even if elements are unsigned
  const std::string& name_;
  Conventions found_;
};

const AttributeContent* Reader::find(const std::string& attribute) const {
  const auto found = attributes_.contents.find(attribute);
  return found == attributes_.contents.end() ? nullptr : &found->second;
}

void Reader::warn(const std::string& attribute, const std::string& reason) {
  found_.warnings.push_back(
      fmt::format("the attribute '{}' of {} is not applied: {}; if it marks missing or packed "
                  "values, correct it, or write decoded values to another file",
                  attribute, name_, reason));
  found_.explained.push_back(attribute);
}

/// The numbers of an attribute as stored values. If it does not have min to max numbers, or if one
/// of them is no value of the stored type, then there is a warning and no result.
std::optional<std::vector<std::uint64_t>> Reader::stored_values(const std::string& attribute,
                                                                std::size_t min, std::size_t max) {
  const AttributeContent* const content = find(attribute);
  if (content == nullptr) return std::nullopt;
  const Numbers& numbers = content->numbers;
  if (content->text) {
    warn(attribute, "it is a text");
    return std::nullopt;
  }
  if (numbers.size() < min || numbers.size() > max) {
    warn(attribute, numbers.empty() ? "it has no numbers, or too many"
                                    : "it has " + counted(numbers.size(), "number"));
    return std::nullopt;
  }
  if (!is_float(stored_) && std::ranges::all_of(numbers, is_nan)) return std::nullopt;
  std::vector<std::uint64_t> values;
  for (const Number& number : numbers) {
    const auto bits = bits_of(number, stored_);
    if (!bits) {
      warn(attribute, fmt::format("{} is no value of {}", text_of(number), word_of(stored_)));
      return std::nullopt;
    }
    values.push_back(*bits);
  }
  return values;
}

void Reader::check_shape() {
  const AttributeContent* const empty = find("MATLAB_empty");
  const auto is_zero = [](const Number& n) { return as_double(n) == 0; };
  if (empty == nullptr || std::ranges::all_of(empty->numbers, is_zero)) return;
  throw UsageError(
      fmt::format("{} is the shape of an empty MATLAB array (MATLAB_empty): name another data set, "
                  "or add --input.conventions none to take the shape as data",
                  name_));
}

void Reader::read_sign() {
  const auto type = unsigned_type(stored_);
  const AttributeContent* const content = find("_Unsigned");
  if (!type || content == nullptr) return;
  if (content->text != "true" && content->text != "True") return;
  found_.type = *type;
  found_.applied.emplace_back("_Unsigned");
}

void Reader::add_missing(std::uint64_t bits) {
  MissingValues& missing = found_.missing;
  if (shardstream::is_nan(bits, found_.type)) {
    missing.nan = true;
    return;
  }
  const auto end = missing.value + missing.count;
  if (std::any_of(missing.value, end, [&](auto v) { return are_equal(v, bits, found_.type); })) {
    return;
  }
  if (missing.count == MissingValues::max_values) {
    throw UsageError(fmt::format("{} has more than {} different missing values: {}", name_,
                                 MissingValues::max_values, remedy));
  }
  missing.value[missing.count++] = bits;
}

bool Reader::read_missing(const std::string& attribute, std::size_t max) {
  const auto values = stored_values(attribute, 1, max);
  if (!values) return false;
  for (const std::uint64_t bits : *values) add_missing(bits);
  found_.applied.push_back(attribute);
  return true;
}

void Reader::add_default_fill_value() {
  const auto number = default_fill_value(stored_);
  if (!number || found_.type != stored_) return;
  add_missing(bits_of(*number, stored_).value());
  found_.applied.emplace_back("default fill value");
}

void Reader::read_limits() {
  std::optional<std::uint64_t> min, max;
  std::vector<std::string> names;
  if (const auto range = stored_values("valid_range", 2, 2)) {
    names = {"valid_range"};
    min = range->at(0);
    max = range->at(1);
  } else {
    const auto limit = [&](const std::string& attribute) -> std::optional<std::uint64_t> {
      const auto value = stored_values(attribute, 1, 1);
      if (!value) return std::nullopt;
      names.push_back(attribute);
      return value->front();
    };
    min = limit("valid_min");
    max = limit("valid_max");
  }
  const StoredType type = found_.type;
  if (min && max && is_above(*min, *max, type)) {
    throw UsageError(fmt::format("no value of {} is valid, since {} to {} is no range ({}): {}",
                                 name_, shardstream::text_of(*min, type),
                                 shardstream::text_of(*max, type), join(names, ", "), remedy));
  }
  MissingValues& missing = found_.missing;
  missing.has_min = min && !is_lowest(*min, type);
  missing.has_max = max && !is_highest(*max, type);
  missing.min = missing.has_min ? *min : 0;
  missing.max = missing.has_max ? *max : 0;
  found_.applied.insert(found_.applied.end(), names.begin(), names.end());
}

/// The single number of an attribute, if it has the attribute. HDF-EOS5's names are common words,
/// so they count only with a number.
std::optional<Reader::Operand> Reader::operand(const std::string& attribute) const {
  const AttributeContent* const content = find(attribute);
  if (content == nullptr) return std::nullopt;
  if (content->numbers.size() == 1) {
    return Operand{attribute, as_double(content->numbers[0]), content->is_f32};
  }
  if (attribute == "ScaleFactor" || attribute == "Offset") return std::nullopt;
  throw UsageError(
      fmt::format("the attribute '{}' of {} is not a single number: {}", attribute, name_, remedy));
}

void Reader::check_operand(const Operand& operand, bool is_factor) const {
  if (std::isfinite(operand.value) && !(is_factor && operand.value == 0)) return;
  throw UsageError(fmt::format("values of {} cannot be unpacked, since '{}' is {}: {}", name_,
                               operand.attribute, operand.value, remedy));
}

void Reader::warn_about_offset(const Operand& offset) {
  if (offset.attribute != "Offset") return;
  found_.warnings.push_back(fmt::format(
      "'Offset' ({}) of {} is added to the values after their multiplication with 'ScaleFactor', "
      "but for some products it must be subtracted before: read the description of the data",
      offset.value, name_));
}

void Reader::read_unpacking() {
  const bool is_netcdf_pair = find("scale_factor") != nullptr || find("add_offset") != nullptr;
  const auto scale = operand(is_netcdf_pair ? "scale_factor" : "ScaleFactor");
  const auto offset = operand(is_netcdf_pair ? "add_offset" : "Offset");
  if (scale) check_operand(*scale, true);
  if (offset) check_operand(*offset, false);
  for (const auto& each : {scale, offset}) {
    if (each) found_.packed_by.push_back(each->attribute);
  }
  const bool changes = (scale && scale->value != 1) || (offset && offset->value != 0);
  if (!changes) return;
  Unpacking& unpacking = found_.unpacking;
  unpacking.multiplies = scale.has_value();
  unpacking.adds = offset.has_value();
  bool is_f32 = is_exact_in_f32(stored_);
  if (scale) {
    unpacking.scale = scale->value;
    is_f32 = is_f32 && scale->is_f32;
    found_.applied.push_back(scale->attribute);
  }
  unpacking.product_is_f32 = is_f32;
  if (offset) {
    unpacking.offset = offset->value;
    is_f32 = is_f32 && offset->is_f32;
    found_.applied.push_back(offset->attribute);
    if (offset->value != 0) warn_about_offset(*offset);
  }
  unpacking.sum_is_f32 = is_f32;
}

}  // namespace

std::optional<Number> default_fill_value(StoredType type) {
  switch (type) {
    case StoredType::i16:
      return std::int64_t{-32767};
    case StoredType::u16:
      return std::uint64_t{65535};
    case StoredType::i32:
      return std::int64_t{-2147483647};
    case StoredType::u32:
      return std::uint64_t{4294967295};
    case StoredType::i64:
      return std::int64_t{-9223372036854775806};
    case StoredType::u64:
      return std::uint64_t{18446744073709551614u};
    case StoredType::f32:
    case StoredType::f64:
      return default_fill_value_of_floats;
    case StoredType::i8:
    case StoredType::u8:
    case StoredType::f16:
      break;
  }
  return std::nullopt;
}

Conventions conventions_of(const DatasetAttributes& attributes, StoredType stored,
                           const std::string& name) {
  if (!attributes.problem.empty()) {
    throw UsageError(
        fmt::format("the attributes of {} cannot be read ({}): copy the file again, or add "
                    "--input.conventions none to take values as they are stored",
                    name, attributes.problem));
  }
  Reader reader(attributes, stored, name);
  reader.check_shape();
  reader.read_sign();
  const bool has_fill_value = reader.read_missing("_FillValue", 1);
  if (!has_fill_value && attributes.by_netcdf) reader.add_default_fill_value();
  constexpr auto any_number = std::numeric_limits<std::size_t>::max();
  reader.read_missing("missing_value", any_number);
  reader.read_missing("MissingValue", any_number);
  reader.read_limits();
  reader.read_unpacking();
  return reader.result();
}

std::optional<ElementType> unpacked_type(const Unpacking& unpacking) {
  if (!unpacking.any()) return std::nullopt;
  return unpacking.gives_f32() ? ElementType::f32 : ElementType::f64;
}

}  // namespace shardstream::io
