#include "io/hdf5/handles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/descriptor.hpp"
#include "core/utf8.hpp"

namespace shardstream::io::hdf5 {
namespace {

/// The maximum size of a text attribute, since a damaged type may have any size.
constexpr std::size_t max_text = std::size_t{1} << 20;

std::recursive_mutex& the_one_lock() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Shortens "file write failed: time = …\n, …, error message = 'No space left on device', buf = …"
/// to "file write failed (No space left on device)".
std::string without_noise(const std::string& text) {
  constexpr std::string_view before = "error message = '";
  const std::size_t start = text.find(before);
  if (start == std::string::npos) return text;
  const std::size_t message = start + before.size();
  const std::string reason = text.substr(message, text.find('\'', message) - message);
  return fmt::format("{} ({})", text.substr(0, std::min(text.find(": "), text.find(", "))),
                     reason == std::strerror(EFBIG) ? errno_text(EFBIG) : reason);
}

herr_t collect_reason(unsigned, const H5E_error2_t* entry, void* texts) {
  if (entry->desc != nullptr && *entry->desc != '\0') {
    static_cast<std::vector<std::string>*>(texts)->push_back(without_noise(entry->desc));
  }
  return 0;
}

/// `data` has the type `memory`.
void write_attribute(hid_t object, const std::string& name, hid_t stored, hid_t memory,
                     const Space& space, const void* data) {
  const auto what = fmt::format("cannot write the attribute '{}'", name);
  if (check(H5Aexists(object, name.c_str()), what) > 0) {
    check(H5Adelete(object, name.c_str()), what);
  }
  Attribute attribute(
      H5Acreate2(object, name.c_str(), stored, space.get(), H5P_DEFAULT, H5P_DEFAULT), what);
  check(H5Awrite(attribute.get(), memory, data), what);
  check(attribute.close(), what);
}

void write_attribute(hid_t object, const std::string& name, hid_t type, const Space& space,
                     const void* data) {
  write_attribute(object, name, type, type, space, data);
}

Space scalar() {
  return Space(H5Screate(H5S_SCALAR), "cannot make a scalar space");
}

}  // namespace

Lock::Lock() : guard_(the_one_lock()) {}

Lock::Silence::Silence() {
  // Owners close everything. Closing by HDF5 at exit would be useless, and it crashes if a file
  // could not be closed because its disk was full. The call only has an effect before all other
  // calls.
  [[maybe_unused]] static const herr_t no_closing_at_exit = H5dont_atexit();
  // Not only once per process, since a thread-safe build has one error stack per thread.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Reasons::Reasons() {
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_reason, &texts_);
  if (texts_.empty()) texts_.emplace_back("no reason given");
}

bool Reasons::mention(std::string_view words) const {
  return std::any_of(texts_.begin(), texts_.end(),
                     [&](const auto& text) { return text.find(words) != std::string::npos; });
}

const std::string& Reasons::about(std::string_view words) const {
  for (const auto& text : texts_) {
    if (text.find(words) != std::string::npos) return text;
  }
  return innermost();
}

void fail(std::string_view what, std::source_location where) {
  throw Error(fmt::format("{}: HDF5: {}", what, Reasons().innermost()), where);
}

Properties posix_access(FileLocking locking) {
  Properties access(H5Pcreate(H5P_FILE_ACCESS), "cannot make file access properties");
  check(H5Pset_fapl_sec2(access.get()), "cannot choose the POSIX driver");
  // With this degree, closing fails if a handle is still open. Otherwise it would be postponed.
  check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI), "cannot set how files are closed");
  if (locking == FileLocking::off) {
    check(H5Pset_file_locking(access.get(), false, true), "cannot turn file locking off");
  }
  return access;
}

Type text_type() {
  Type type(H5Tcopy(H5T_C_S1), "cannot make a string type");
  check(H5Tset_size(type.get(), H5T_VARIABLE), "cannot size a string type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "cannot set a string type's characters");
  return type;
}

void write_attribute(hid_t object, const std::string& name, const std::string& value) {
  const std::string in_utf8 = as_utf8(value);
  const char* text = in_utf8.c_str();
  write_attribute(object, name, text_type().get(), scalar(), &text);
}

void write_attribute(hid_t object, const std::string& name, double value) {
  write_attribute(object, name, H5T_NATIVE_DOUBLE, scalar(), &value);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value) {
  write_attribute(object, name, H5T_NATIVE_INT64, scalar(), &value);
}

void write_attribute(hid_t object, const std::string& name,
                     const std::vector<std::int64_t>& value) {
  const hsize_t extent = value.size();
  const Space space(H5Screate_simple(1, &extent, nullptr), "cannot make the space of a list");
  const std::int64_t nothing = 0;  // HDF5 accepts no null pointer, even for an empty list
  write_attribute(object, name, H5T_NATIVE_INT64, space, value.empty() ? &nothing : value.data());
}

void write_attribute(hid_t object, const std::string& name, double value, const Type& type) {
  write_attribute(object, name, type.get(), H5T_NATIVE_DOUBLE, scalar(), &value);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value, const Type& type) {
  write_attribute(object, name, type.get(), H5T_NATIVE_INT64, scalar(), &value);
}

void write_fixed_attribute(hid_t object, const std::string& name, const std::string& value) {
  Type type(H5Tcopy(H5T_C_S1), "cannot make a string type");
  check(H5Tset_size(type.get(), value.size() + 1), "cannot size a string type");
  write_attribute(object, name, type.get(), scalar(), value.c_str());
}

ScalarAttribute::ScalarAttribute(hid_t object, const std::string& name) {
  if (H5Aexists(object, name.c_str()) <= 0) return;
  attribute = Attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT));
  if (!attribute.valid()) return;
  const Space space(H5Aget_space(attribute.get()));
  if (H5Sget_simple_extent_npoints(space.get()) == 1) type = Type(H5Aget_type(attribute.get()));
}

std::string read_text_attribute(hid_t object, const std::string& name) {
  const auto [attribute, stored] = ScalarAttribute(object, name);
  if (!stored.valid() || H5Tget_class(stored.get()) != H5T_STRING) return {};
  if (H5Tis_variable_str(stored.get()) > 0) {
    char* text = nullptr;
    if (H5Aread(attribute.get(), stored.get(), &text) < 0 || text == nullptr) return {};
    std::string value(text);
    H5free_memory(text);
    return value;
  }
  const std::size_t bytes = H5Tget_size(stored.get());
  if (bytes > max_text) {
    throw Error(fmt::format("the attribute '{}' is a text of {} bytes", name, bytes));
  }
  std::string value(bytes, '\0');
  if (H5Aread(attribute.get(), stored.get(), value.data()) < 0) return {};
  return value.substr(0, std::strlen(value.c_str()));
}

std::vector<std::string> attribute_names(hid_t object) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names),
        "cannot list attributes");
  return names;
}

std::optional<std::int64_t> read_integer_attribute(hid_t object, const std::string& name) {
  const auto [attribute, stored] = ScalarAttribute(object, name);
  std::int64_t value = 0;
  if (!stored.valid() || H5Tget_class(stored.get()) != H5T_INTEGER ||
      H5Aread(attribute.get(), H5T_NATIVE_INT64, &value) < 0) {
    return std::nullopt;
  }
  return value;
}

}  // namespace shardstream::io::hdf5
