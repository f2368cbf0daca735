#include "io/hdf5/result_file.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <variant>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/tables.hpp"
#include "io/output/dataset_file.hpp"

namespace shardstream::io {
namespace {

using hdf5::check;

constexpr OptionRow rows[] = {
    {"output.file", OptionKind::text, "{workload}-{ranks}-{jobid}.h5", "",
     "The result file; {workload}, {ranks} and {jobid} are replaced by their values."},
    {"output.overwrite", OptionKind::choice, "false", "false|true|anything",
     "Which existing files may be replaced: only an unfinished result (false), also a result of a "
     "run (true), or any regular file that is not an input (anything)."},
    {"output.resume", OptionKind::choice, "auto", "auto|never",
     "auto resumes a matrix product from the checkpoint of an interrupted run with the same "
     "output.file; never removes the checkpoint and starts over."},
    {"output.store", OptionKind::flag, "true", "",
     "Whether to store a result matrix; if not, only its norm and checksum are stored."},
};

/// ISO 8601, UTC, to the second.
std::string now_utc() {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(now));
}

/// Opens the group `path`, and creates it and the groups above it if necessary.
hdf5::Group open_group(const hdf5::File& file, const std::string& path) {
  hdf5::Group group(H5Gopen2(file.get(), "/", H5P_DEFAULT), "cannot open the root group");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    const auto what = fmt::format("cannot open the group '{}'", path);
    const bool there = check(H5Lexists(group.get(), name.c_str(), H5P_DEFAULT), what) > 0;
    group = hdf5::Group(
        there ? H5Gopen2(group.get(), name.c_str(), H5P_DEFAULT)
              : H5Gcreate2(group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        what);
  }
  return group;
}

/// On a full disk, HDF5 may report success although it did not write the whole file.
void expect_whole(const std::filesystem::path& path, const std::string& status,
                  const std::string& what) {
  const auto access = hdf5::posix_access(hdf5::FileLocking::off);
  const hdf5::File file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), what);
  const hdf5::Group root(H5Gopen2(file.get(), "/", H5P_DEFAULT), what);
  if (hdf5::read_text_attribute(root.get(), "status") == status) return;
  throw Error(what + ": it reads back incomplete: check that its disk is not full");
}

constexpr std::int64_t schema_version = 1;

/// Disk space for what follows labelled data in a file, in bytes: its attributes and small tables.
constexpr std::uint64_t room_after_labelled = std::uint64_t{256} << 10;

[[noreturn]] void fail_as_no_result(const std::string& name, const std::string& why) {
  throw UsageError(fmt::format(
      "'{}' is not a result of a run ({}): name a file that a run has written (-o)", name, why));
}

void expect_status(const hdf5::File& file, const std::string& name, ResultStatus wanted) {
  const hdf5::Group root(H5Gopen2(file.get(), "/", H5P_DEFAULT), "cannot open the root group");
  if (hdf5::read_text_attribute(root.get(), "schema") != result_schema) {
    fail_as_no_result(name, "it is not marked as one");
  }
  const auto version = hdf5::read_integer_attribute(root.get(), "schema_version");
  if (version != schema_version) {
    fail_as_no_result(name,
                      fmt::format("its schema_version is {}, but this program reads {}",
                                  version ? std::to_string(*version) : "missing", schema_version));
  }
  const std::string status = hdf5::read_text_attribute(root.get(), "status");
  if (status == "complete" || wanted == ResultStatus::any) return;
  if (status == "unverified") {
    throw UsageError(
        fmt::format("'{}' has not passed its verification (it is marked unverified): run its "
                    "command again, which replaces it, or name another result",
                    name));
  }
  if (status == "partial") {
    fail_as_no_result(name, "its run has not finished");
  }
  fail_as_no_result(name, fmt::format("its status is {}", excerpt(status)));
}

/// A result of this status. Needs the lock.
hdf5::File open_result(const std::string& name, ResultStatus wanted) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) fail_as_no_result(name, errno_text(errno));
  if (!S_ISREG(status.st_mode)) fail_as_no_result(name, "it is no regular file");
  const auto access = hdf5::posix_access(hdf5::FileLocking::on);
  hdf5::File opened(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!opened.valid()) fail_as_no_result(name, "HDF5 cannot open it");
  expect_status(opened, name, wanted);
  return opened;
}

/// Whether `path` exists. Throws Error if a link on the way leads to another file: results have no
/// such links, and it could lead to any file. Needs the lock.
bool is_there(const hdf5::File& opened, const std::string& file, const std::string& path) {
  const auto what = fmt::format("cannot look for '{}' in '{}'", path, file);
  for (auto end = path.find('/', 1); true; end = path.find('/', end + 1)) {
    const std::string so_far = path.substr(0, end);
    if (check(H5Lexists(opened.get(), so_far.c_str(), H5P_DEFAULT), what) == 0) return false;
    H5L_info_t link{};
    check(H5Lget_info(opened.get(), so_far.c_str(), &link, H5P_DEFAULT), what);
    if (link.type != H5L_TYPE_HARD) throw Error(fmt::format("{}: '{}' is a link", what, so_far));
    if (end == path.npos) return true;
  }
}

/// Opens the table at `path`. Throws Error if its bytes are not in the file itself. This program
/// writes no external storage and no virtual tables, and they could name any file. Needs the lock.
hdf5::Dataset open_table(const hdf5::File& opened, const std::string& file,
                         const std::string& path) {
  // open_dataset() lists the existing data sets.
  static_cast<void>(is_there(opened, file, path));
  hdf5::Dataset table = open_dataset(opened, file, path);
  const auto what = fmt::format("cannot read the table {}", path);
  const hdf5::Properties creation(H5Dget_create_plist(table.get()), what);
  if (check(H5Pget_layout(creation.get()), what) == H5D_VIRTUAL) {
    throw Error(what + ": it is virtual, so its rows are in other files");
  }
  if (check(H5Pget_external_count(creation.get()), what) > 0) {
    throw Error(what + ": its rows are in another file (external storage)");
  }
  return table;
}

/// Nothing if there is no such group. Needs the lock.
std::optional<hdf5::Group> find_group(const hdf5::File& opened, const std::string& file,
                                      const std::string& group) {
  const auto what = fmt::format("cannot open '{}' in '{}'", group, file);
  if (group == "/") return hdf5::Group(H5Gopen2(opened.get(), "/", H5P_DEFAULT), what);
  if (!is_there(opened, file, group)) return std::nullopt;
  return hdf5::Group(H5Gopen2(opened.get(), group.c_str(), H5P_DEFAULT), what);
}

/// The name of member `i` of a group, in the order of the names.
std::string name_of_member(hid_t group, hsize_t i, const std::string& what) {
  const auto name_into = [&](char* text, std::size_t bytes) {
    return check(
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, text, bytes, H5P_DEFAULT),
        what);
  };
  std::string name(static_cast<std::size_t>(name_into(nullptr, 0)) + 1, '\0');
  name_into(name.data(), name.size());
  name.pop_back();
  return name;
}

/// Whether a member of a group is a data set of compound type in this file.
bool is_table(hid_t group, const std::string& name) {
  H5L_info_t link{};
  if (H5Lget_info(group, name.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
    return false;
  }
  const hdf5::Object object(H5Oopen(group, name.c_str(), H5P_DEFAULT));
  if (!object.valid() || H5Iget_type(object.get()) != H5I_DATASET) return false;
  const hdf5::Type type(H5Dget_type(object.get()));
  return type.valid() && H5Tget_class(type.get()) == H5T_COMPOUND;
}

}  // namespace

struct ResultReader::Handle {
  std::string name;
  hdf5::File file;

  /// The value of `read`, called under the lock. Every error is reported as an error of the file.
  template <class Read>
  auto guarded(const Read& read) {
    const hdf5::AtWork at_work(name, hdf5::Stage::opening);
    const hdf5::Lock lock;
    try {
      return read();
    } catch (const ContractError&) {
      throw;
    } catch (const UsageError&) {
      throw;
    } catch (const Error& error) {
      throw UsageError(
          fmt::format("'{}' is damaged or not a result of this program ({}): name another result",
                      name, error.what()),
          error.where());
    }
  }

  /// The value of `read` for the attribute `key` of `group`; an empty one if there is no such
  /// group.
  template <class Value>
  Value attribute(const std::string& group, const std::string& key,
                  Value (*read)(hid_t, const std::string&)) {
    return guarded([&] {
      const auto found = find_group(file, name, group);
      return found ? read(found->get(), key) : Value();
    });
  }
};

ResultReader::ResultReader(const std::filesystem::path& file, ResultStatus status)
    : handle_(std::make_unique<Handle>(file.string())) {
  handle_->guarded([&] { handle_->file = open_result(handle_->name, status); });
}

ResultReader::~ResultReader() {
  handle_->guarded([&] { handle_->file.close(); });
}

void ResultReader::rows(const std::string& path, const std::vector<Column>& columns,
                        const std::function<void(std::span<const Cell>)>& take) const {
  handle_->guarded(
      [&] { read_rows(open_table(handle_->file, handle_->name, path), path, columns, take); });
}

Table ResultReader::table(const std::string& path, const std::vector<Column>& columns) const {
  return handle_->guarded(
      [&] { return read_table(open_table(handle_->file, handle_->name, path), path, columns); });
}

Table ResultReader::table(const std::string& path) const {
  return handle_->guarded([&] {
    const hdf5::Dataset dataset = open_table(handle_->file, handle_->name, path);
    return read_table(dataset, path, columns_of(dataset, path));
  });
}

std::vector<std::string> ResultReader::tables(const std::string& group) const {
  constexpr hsize_t max_members = 64;
  return handle_->guarded([&] {
    std::vector<std::string> paths;
    const auto found = find_group(handle_->file, handle_->name, group);
    if (!found) return paths;
    const auto what = fmt::format("cannot list '{}' in '{}'", group, handle_->name);
    H5G_info_t info{};
    check(H5Gget_info(found->get(), &info), what);
    for (hsize_t i = 0; i < std::min(info.nlinks, max_members); ++i) {
      const std::string name = name_of_member(found->get(), i, what);
      if (is_table(found->get(), name)) paths.push_back(fmt::format("{}/{}", group, name));
    }
    return paths;
  });
}

std::vector<Column> ResultReader::columns(const std::string& path) const {
  return handle_->guarded(
      [&] { return columns_of(open_table(handle_->file, handle_->name, path), path); });
}

std::string ResultReader::text(const std::string& group, const std::string& name) const {
  return handle_->attribute(group, name, hdf5::read_text_attribute);
}

std::map<std::string, std::string> ResultReader::texts(const std::string& group) const {
  return handle_->guarded([&] {
    std::map<std::string, std::string> texts;
    const auto found = find_group(handle_->file, handle_->name, group);
    if (!found) return texts;
    for (const std::string& name : hdf5::attribute_names(found->get())) {
      texts[name] = hdf5::read_text_attribute(found->get(), name);
    }
    return texts;
  });
}

std::optional<std::int64_t> ResultReader::integer(const std::string& group,
                                                  const std::string& name) const {
  return handle_->attribute(group, name, hdf5::read_integer_attribute);
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  const hdf5::Lock lock;
  check(H5get_libversion(&major, &minor, &release), "cannot ask HDF5 for its version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

std::span<const OptionRow> output_options() {
  return rows;
}

struct ResultFile::Handle {
  PartFile part;
  std::uint64_t reserve;
  hdf5::File file;
  bool kept = false;

  Handle(Destination destination, const std::string& uuid, std::uint64_t reserve_bytes)
      : part(std::move(destination), uuid), reserve(reserve_bytes) {}
  /// A file that is still open was not published. HDF5 writes to it once more when it closes.
  ~Handle() {
    if (file.valid() && !kept) part.abandon();
  }
};

ResultFile::ResultFile(std::filesystem::path path, Overwrite overwrite, const std::string& run_uuid,
                       std::uint64_t reserve)
    : ResultFile(Destination{std::move(path), Contents::result, overwrite}, run_uuid, reserve) {}

ResultFile::ResultFile(Destination destination, const std::string& run_uuid, std::uint64_t reserve)
    : handle_(std::make_unique<Handle>(std::move(destination), run_uuid, reserve)) {
  // HDF5 first truncates the file, which ends a reservation. Reserving still tests for a full disk.
  handle_->part.reserve(reserve);
  const hdf5::Lock lock;
  const auto access = aligned_access();
  handle_->file =
      hdf5::File(H5Fcreate(part_path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                 fmt::format("cannot create '{}'", part_path().string()));
  handle_->part.reserve(reserve);
  attribute("/", "schema", std::string(result_schema));
  attribute("/", "schema_version", schema_version);
  attribute("/", "run_uuid", run_uuid);
  attribute("/", "created_utc", now_utc());
  attribute("/", "status", std::string("partial"));
}

ResultFile::~ResultFile() = default;

void ResultFile::attribute(const std::string& group, const std::string& name,
                           const AttributeValue& value) {
  const hdf5::Lock lock;
  expect(handle_->file.valid(), "a result file is written before it is published");
  const auto object = open_group(handle_->file, group);
  std::visit([&](const auto& v) { hdf5::write_attribute(object.get(), name, v); }, value);
}

void ResultFile::table(const std::string& group, const Table& table) {
  const hdf5::Lock lock;
  expect(handle_->file.valid(), "a result file is written before it is published");
  write_table(open_group(handle_->file, group).get(), table);
}

void ResultFile::labelled(const std::string& group, const LabelledData& data) {
  const hdf5::Lock lock;
  expect(handle_->file.valid(), "a result file is written before it is published");
  // The file already has the large tables, so `reserve`, which is for all of them, would be too
  // much.
  if (const std::uint64_t bytes = bytes_of(data); bytes > 0) {
    handle_->part.reserve(std::filesystem::file_size(part_path()) + bytes + room_after_labelled);
  }
  write_labelled(open_group(handle_->file, group).get(), data);
}

std::uint64_t ResultFile::dataset(const std::string& group, const std::string& name,
                                  ElementType type, const std::vector<std::uint64_t>& shape,
                                  std::uint64_t labelled_bytes) {
  const hdf5::Lock lock;
  expect(handle_->file.valid(), "a result file is written before it is published");
  const std::uint64_t bytes = bytes_of(type, shape);
  handle_->reserve += labelled_bytes;
  // Space is reserved before HDF5 can find the disk full, and again after the data set is
  // allocated, since the tables follow it.
  handle_->part.reserve(std::filesystem::file_size(part_path()) + bytes + handle_->reserve);
  const std::uint64_t offset =
      lay_out(handle_->file, fmt::format("{}/{}", group, name), type, shape);
  handle_->part.reserve(offset + bytes + handle_->reserve);
  return offset;
}

void ResultFile::keep() {
  handle_->kept = true;
  handle_->part.keep();
}

void ResultFile::publish(const std::string& status) {
  const hdf5::Lock lock;
  attribute("/", "status", status);
  const auto what = fmt::format("cannot write '{}'", part_path().string());
  check(H5Fflush(handle_->file.get(), H5F_SCOPE_GLOBAL), what);
  check(handle_->file.close(), what);
  expect_whole(part_path(), status, what);
  handle_->part.publish();
}

bool ResultFile::is_overtaken() const {
  return handle_->part.is_overtaken();
}

const std::filesystem::path& ResultFile::path() const {
  return handle_->part.path();
}

const std::filesystem::path& ResultFile::part_path() const {
  return handle_->part.part_path();
}

}  // namespace shardstream::io
