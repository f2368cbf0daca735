// The description of a data set: everything that is known before its elements are read. Each format
// describes its data sets, and gives their bytes (format.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/description/attributes.hpp"
#include "io/description/dimension.hpp"
#include "types/element.hpp"
#include "types/stored.hpp"

namespace shardstream::io {

struct Format;

/// How the elements of a type in a file become those of a StoredType.
struct StoredForm {
  StoredType type;
  bool is_reversed = false;  ///< the file has them in the other byte order
  bool by_library = false;   ///< only the format's library knows them; it makes them native `type`
};

/// The element type that holds every value of `stored`.
ElementType natural_type(StoredType stored);

/// The place of the elements in a file whose elements are records, such as a member of a compound
/// type. Bytes.
struct Record {
  std::uint64_t size;    ///< of a record
  std::uint64_t offset;  ///< of the element in it

  bool operator==(const Record&) const = default;
};

/// How the elements of a data set are stored.
enum class Layout : std::uint8_t {
  contiguous,  ///< one after another, row by row
  chunked,     ///< in blocks of the same shape
  compact,     ///< in the metadata of the file
  composed     ///< in other data sets
};

/// A filter that has changed the bytes of chunks.
struct Filter {
  enum class Kind : std::uint8_t { deflate, lzf, shuffle, fletcher32, other };

  Kind kind;
  std::uint64_t element;  ///< bytes, of shuffle
  std::string text;       ///< "32001 (blosc)"
};

/// Where a data set itself is, not a link to it.
struct StoredPlace {
  std::string file = {}, path = {};
  std::optional<std::uint64_t> offset = {};  ///< of its records in the file, if they are contiguous
};

struct Description {
  const Format* format = nullptr;          ///< of its file
  std::string name = {};                   ///< FILE:/PATH{MEMBER}
  std::string member = {};                 ///< of a compound type; may be empty
  std::string stored_as = {};              ///< the type in the file: "u16 (big-endian)"
  StoredForm form = {};                    ///< how stored elements are read
  Record record = {};                      ///< their place in the elements of the file
  std::vector<Dimension> dimensions = {};  ///< none for a scalar
  Extents shape = {};                      ///< {1} for a scalar
  Layout layout = Layout::contiguous;
  Extents box = {};                   ///< the extents of a chunk, or `shape`
  std::vector<Filter> filters = {};   ///< in the order in which they were applied
  bool filters_edges = true;          ///< whether they were applied to chunks at the edges, too
  std::vector<std::byte> fill = {};   ///< the record of elements that were never written
  bool may_have_gaps = true;          ///< whether there may be such elements; see Origin
  std::uint64_t stored_bytes = 0;     ///< of all elements in the file
  DatasetAttributes attributes = {};  ///< empty if they are not requested
  std::string units = {};             ///< the text of the attribute; may be empty
  StoredPlace place = {};
};

/// The number of its chunks.
std::uint64_t chunks_in(const Description& about);

}  // namespace shardstream::io
