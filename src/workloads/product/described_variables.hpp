// The variables of a symmetric product as the result names and describes them: labels, means,
// standard deviations and counts beside C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/table.hpp"
#include "io/description/labelled_data.hpp"
#include "io/source/dimension_labels.hpp"
#include "workloads/product/data/finished_tile.hpp"
#include "workloads/product/data/operands.hpp"

namespace shardstream::workloads::product {

/// The names of the variables.
struct VariableNames {
  std::string data;                ///< of the data set: "sst"
  std::string units;               ///< of the data; empty if unknown
  std::vector<io::Labels> labels;  ///< of the dimensions that the variables are flattened from
  std::vector<std::string> warnings = {};  ///< sentences on labels that cannot be read

  /// "lat=-30, lon=120.5", or the number of the variable if there are no labels.
  std::string operator[](std::uint64_t variable) const;
};

/// "lat,lon", with "dim_1" for a dimension without a name. `dimensions`: indices into
/// Source::dimensions().
std::string names_of_dimensions(const io::Source& source, std::span<const std::size_t> dimensions,
                                std::string_view separator);

/// Reads the names of the variables of a symmetric product from its file.
VariableNames name_variables(const Operands& operands);

/// The labels of C, if it is `stored`, and arrays with the statistics of the variables, if there
/// are some.
io::LabelledData labelled(const Operands& operands, const VariableNames& names,
                          std::span<const VariableStatistics> statistics, bool stored);

/// The dimensions of C for a product that is not symmetric, if it is `stored`.
io::LabelledData labelled_product(const Operands& operands, bool stored);

/// An upper bound of the bytes that these data take in a file.
std::uint64_t labelled_bytes(const Operands& operands);

/// Variables of which the result has a list. Those with the weight 0 are usual.
enum class VariableKind : std::uint8_t {
  usual,
  empty,       ///< without samples
  constant,    ///< zero variance
  not_finite,  ///< with values that are not finite
};

/// The variables of this kind, in ascending order.
std::vector<std::uint64_t> variables_of(VariableKind kind, const Operands& operands,
                                        std::span<const VariableStatistics> statistics);

/// The first variables that are not usual.
Table special_variables(const Operands& operands, const VariableNames& names,
                        std::span<const VariableStatistics> statistics);

/// Sentences on the empty variables, and on the constant ones of scaled data: "2 variables are
/// constant (zero variance), so their rows and columns of C are 0: lat=1; lat=7".
std::vector<std::string> warnings_of_variables(const Operands& operands, const VariableNames& names,
                                               std::span<const VariableStatistics> statistics);

}  // namespace shardstream::workloads::product
