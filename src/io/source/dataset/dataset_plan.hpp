// All that must be known of a data set before it is read. A plan keeps no file open, so that a data
// set can be opened again, without looking at it a second time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/description/format.hpp"
#include "io/source/chunks/reader.hpp"
#include "io/source/dataset/contiguous_source.hpp"

namespace shardstream::io {

/// How a data set is opened.
struct DatasetRequest {
  /// The type of the elements; without it, the type that fits the stored or unpacked values.
  std::optional<ElementType> type = {};
  ReadWay way = ReadWay::automatic;  ///< of contiguous data sets
  ReadOrder order = ReadOrder::elements;
  Unwritten unwritten = Unwritten::fill;  ///< as for OpenFile::trace()
  /// Whether attributes of the data set apply, as conventions_of() describes.
  bool conventions = false;
  /// For matrices: whether integers with missing values become f64, so that missing ones are NaN,
  /// and u64 becomes i64.
  bool missing_as_nan = false;
  /// The remedy in the message for a value that does not fit `type`; if it is empty, the message
  /// suggests a type.
  std::string misfit_remedy = {};
  std::uint64_t rows = 0;  ///< use only the first rows of the first dimension; 0: all
  /// Whether the data set is one of several that are joined. Then it may have no rows.
  bool is_part = false;
};

struct DatasetPlan {
  std::filesystem::path file = {};   ///< as named
  std::string path = {};             ///< of the data set in it
  std::string path_and_member = {};  ///< the path with the member in braces, if there is one
  /// The text of the name; `about.name` and `dimensions` are those of all elements until it is
  /// applied.
  std::optional<std::string> selection = {};
  Description about = {};
  std::vector<SourceDimension> dimensions = {};  ///< a scalar has one of extent 1
  Conversion conversion = {};                    ///< of elements as about.form has them
  Origin origin = {};
  std::vector<std::string> packed_by = {};  ///< Conventions::packed_by
  std::optional<std::uint64_t> offset =
      {};  ///< about.place.offset, if the data set is read from there
  std::optional<ChunkFilters> filters = {};  ///< set if readers decode the chunks themselves
};

/// Plans to read the data set `path` of `file`, which is open as `opened`, or its only data set if
/// `path` is empty. `path` may have a member and a selection. The plan is for all elements. If a
/// part has no rows, it has only a name and a shape. Throws UsageError; the caller adds the name of
/// the option.
DatasetPlan plan_dataset(const OpenFile& opened, const std::filesystem::path& file,
                         std::string path, const DatasetRequest& request);

/// Lets the stored integer `bits`, which is missing, stand for all missing values.
void set_missing_element(Conversion& conversion, std::uint64_t bits);

/// Source::access() of the data set. Contiguous data sets are read through the page cache.
std::string access_of(const DatasetPlan& plan);

/// How a ChunkReader reads the selected elements.
ChunkLayout layout_of(const DatasetPlan& plan, ReadOrder read_order,
                      std::shared_ptr<DecodingMemory> memory);

/// The bytes in the file of the selected elements. They are estimated for compressed data.
std::uint64_t selected_bytes(const DatasetPlan& plan);

/// Limits the selection to its first `rows` indices of the first dimension that is not an index.
/// Throws UsageError if it has fewer.
void take_rows(std::vector<SourceDimension>& dimensions, std::uint64_t rows,
               const std::string& name);

}  // namespace shardstream::io
