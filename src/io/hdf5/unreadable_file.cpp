#include "io/hdf5/unreadable_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/description/dataset_name.hpp"
#include "io/hdf5/result_file.hpp"

namespace shardstream::io {
namespace {

using namespace std::string_view_literals;

/// A format of other files, by the bytes at its start.
struct ForeignFormat {
  std::string_view start, name, remedy;
};

constexpr std::array foreign_formats = {
    ForeignFormat{"CDF\x01"sv, "netCDF-3", "convert it with nccopy -k nc4 IN.nc OUT.nc"},
    ForeignFormat{"CDF\x02"sv, "netCDF-3", "convert it with nccopy -k nc4 IN.nc OUT.nc"},
    ForeignFormat{"CDF\x05"sv, "netCDF-3 (CDF-5)", "convert it with nccopy -k nc4 IN.nc OUT.nc"},
    ForeignFormat{"\x0e\x03\x13\x01"sv, "HDF4", "convert it with h4toh5"},
    ForeignFormat{"\x93NUMPY"sv, "npy (NumPy)",
                  "write it with h5py: h5py.File('OUT.h5', 'w')['x'] = numpy.load('IN.npy')"},
    ForeignFormat{"PK\x03\x04"sv, "zip or npz (NumPy)",
                  "unpack it, or write the arrays of an npz file with h5py: "
                  "h5py.File('OUT.h5', 'w').update(numpy.load('IN.npz'))"},
    ForeignFormat{"\x1f\x8b"sv, "gzip", "unpack it with gunzip"},
    ForeignFormat{"BZh"sv, "bzip2", "unpack it with bunzip2"},
    ForeignFormat{"\xfd\x37zXZ"sv, "xz", "unpack it with unxz"},
    ForeignFormat{"\x28\xb5\x2f\xfd"sv, "zstd", "unpack it with unzstd"},
    ForeignFormat{"MATLAB 5"sv, "MAT (MATLAB 5 to 7)", "save it in MATLAB with the option -v7.3"},
    ForeignFormat{"SIMPLE  ="sv, "FITS", "convert it with astropy and h5py"},
    ForeignFormat{"GRIB"sv, "GRIB", "convert it with cdo -f nc4 copy IN OUT.nc"},
    ForeignFormat{"PAR1"sv, "Parquet", "read it with pandas and write its columns with h5py"},
    ForeignFormat{"version https://git-lfs"sv, "a Git LFS pointer",
                  "fetch its content with git lfs pull"},
    ForeignFormat{"<"sv, "XML or HTML (a failed download?)", "fetch the file again"}};

/// The first bytes of a file.
std::string start_of(const std::string& name) {
  std::string start(512, '\0');
  const Descriptor file(name, O_RDONLY);
  const std::int64_t got =
      file.valid() ? file.read_at(0, reinterpret_cast<std::byte*>(start.data()), start.size()) : 0;
  start.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  return start;
}

/// Whether the first bytes of a file are lines of UTF-8. The last character may be incomplete.
bool is_text(std::string start) {
  std::ranges::replace_if(
      start, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  constexpr int max_bytes = 4;  // of a character
  for (int i = 0; i < max_bytes && !start.empty() && (start.back() & 0x80) != 0; ++i) {
    start.pop_back();
  }
  return printable(start) == start;
}

/// The driver of HDF5 that divides data among several files, if its mark is in the superblock of
/// their first file; else empty.
std::string driver_of(const std::string& start) {
  if (start.find("NCSAfami") != std::string::npos) return "family";
  return start.find("NCSAmult") != std::string::npos ? "split" : "";
}

/// The driver if `name` is another one of such files: the first one has 0 for its number, or, with
/// the driver split, is NAME-m.h5 instead of NAME-r.h5.
std::string driver_of_others(const std::string& name) {
  constexpr std::string_view digits = "0123456789";
  const auto driver_at = [&](std::size_t begin, std::size_t end, char c) {
    std::string first = name;
    std::fill(first.begin() + static_cast<std::ptrdiff_t>(begin),
              first.begin() + static_cast<std::ptrdiff_t>(end), c);
    return driver_of(start_of(first));
  };
  if (name.ends_with("-r.h5")) return driver_at(name.size() - 4, name.size() - 3, 'm');
  for (auto begin = name.find_first_of(digits, name.rfind('/') + 1); begin != std::string::npos;) {
    const auto end = std::min(name.find_first_not_of(digits, begin), name.size());
    if (std::string driver = driver_at(begin, end, '0'); !driver.empty()) return driver;
    begin = name.find_first_of(digits, end);
  }
  return {};
}

[[noreturn]] void fail_as_part(const std::string& name, const std::string& driver) {
  const char* const opened =
      driver == "family" ? "'NAME%d.h5', driver='family', memb_size=0" : "'NAME', driver='split'";
  throw UsageError(fmt::format(
      "'{}' is one of several files that are one HDF5 file together (driver {}): copy it to a "
      "single file with h5py, f = h5py.File({}); o = h5py.File('OUT.h5', 'w'); [f.copy(k, o) for k "
      "in f], and name that one",
      name, driver, opened));
}

[[noreturn]] void fail_as_other_format(const std::string& name) {
  const std::string start = start_of(name);
  if (const std::string driver = driver_of_others(name); !driver.empty()) {
    fail_as_part(name, driver);
  }
  for (const ForeignFormat& format : foreign_formats) {
    if (!start.starts_with(format.start)) continue;
    throw UsageError(
        fmt::format("the format of '{}' is {}, not HDF5: {}", name, format.name, format.remedy));
  }
  if (is_text(start)) {
    throw UsageError(fmt::format(
        "'{}' is text, such as CSV, not HDF5: read it with numpy and write it with h5py: "
        "h5py.File('OUT.h5', 'w')['x'] = numpy.loadtxt('IN.csv', delimiter=',')",
        name));
  }
  throw UsageError(
      fmt::format("'{}' is not an HDF5 file (it has no HDF5 signature): name an HDF5 file, or "
                  "FILE:/PATH for a data set in one",
                  name));
}

[[noreturn]] void fail_as_folder(const std::string& name) {
  for (const char* const file : {".zgroup", ".zarray", ".zattrs", ".zmetadata", "zarr.json"}) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::path(name) / file, ignored)) continue;
    throw UsageError(fmt::format(
        "'{}' is a Zarr folder, not HDF5: write its arrays with h5py, or convert it with "
        "xarray.open_zarr('IN.zarr').to_netcdf('OUT.nc')",
        name));
  }
  throw UsageError(fmt::format("'{}' is a folder: name an HDF5 file in it", name));
}

/// The path that a symbolic link contains; empty if there is no such link.
std::string link_target(const std::string& name) {
  std::error_code none;
  return std::filesystem::read_symlink(name, none).string();
}

/// FILE:/PATH if `name` is FILE/PATH, as if the file were a folder; else nothing.
std::string with_colon(const std::string& name) {
  for (auto slash = name.find('/', 1); slash != name.npos; slash = name.find('/', slash + 1)) {
    struct stat status {};
    const std::string file = name.substr(0, slash);
    if (::stat(file.c_str(), &status) != 0) return "";
    if (S_ISREG(status.st_mode)) return file + ":" + name.substr(slash);
  }
  return "";
}

[[noreturn]] void fail_to_find_file(const std::string& name, int error) {
  if (error != ENOENT && error != ENOTDIR) {
    throw UsageError(fmt::format(
        "'{}' cannot be accessed ({}): check its path and the permissions of its folders", name,
        errno_text(error)));
  }
  if (const std::string target = link_target(name); !target.empty()) {
    throw UsageError(fmt::format(
        "'{}' is a symbolic link to '{}', which does not exist: restore that file, or name another",
        name, target));
  }
  if (const std::string meant = with_colon(name); !meant.empty()) {
    throw UsageError(fmt::format("there is no file '{}': did you mean '{}'?", name, meant));
  }
  const auto generator = nearest(name, {"uniform", "ramp"});
  if (!generator.empty()) {
    throw UsageError(
        fmt::format("there is no file '{}': did you mean the generator {}?", name, generator));
  }
  const bool is_word = std::filesystem::path(name).extension().empty();
  throw UsageError(fmt::format("there is no file '{}'{}: check the path{}", name,
                               similar_path(name),
                               is_word ? ", or name a generator (uniform, ramp)" : ""));
}

}  // namespace

void expect_regular_file(const std::string& name) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) {
    const int reason = errno;
    expect_no_selection(name);
    fail_to_find_file(name, reason);
  }
  if (S_ISDIR(status.st_mode)) fail_as_folder(name);
  if (!S_ISREG(status.st_mode)) {
    throw UsageError(fmt::format("'{}' is a pipe or device: name an HDF5 file", name));
  }
  if (status.st_size == 0) {
    throw UsageError(fmt::format(
        "'{}' is an empty file (0 bytes), not HDF5: write it again or name another file", name));
  }
}

namespace {

/// `reason` is that of HDF5, with the system's reason. Only some reasons mean that another program
/// has locked the file; with all others, the file system has no locks.
[[noreturn]] void fail_to_lock(const std::string& name, const std::string& reason) {
  const auto is_reason = [&](int error) {
    return reason.find(std::strerror(error)) != std::string::npos;
  };
  if (is_reason(EWOULDBLOCK) || is_reason(EACCES)) {
    throw UsageError(fmt::format(
        "'{}' is open in another program, so it cannot be locked for reading ({}): wait until the "
        "program that writes it has closed it, or set HDF5_USE_FILE_LOCKING=FALSE if no program "
        "writes it",
        name, reason));
  }
  throw UsageError(
      fmt::format("the file system of '{}' has no locks ({}): set HDF5_USE_FILE_LOCKING=FALSE, and "
                  "make sure that no program is writing the file",
                  name, reason));
}

}  // namespace

void fail_to_open(const std::string& name) {
  const hdf5::Reasons reasons;
  const Descriptor file(name, O_RDONLY);
  if (!file.valid()) {
    throw UsageError(
        fmt::format("'{}' cannot be read ({}): change its permissions or name another file", name,
                    errno_text(errno)));
  }
  if (reasons.mention("unable to lock file")) {
    fail_to_lock(name, reasons.about("unable to lock file"));
  }
  if (reasons.mention("already open for")) {
    throw UsageError(fmt::format(
        "'{}' is marked as open for writing, perhaps with SWMR: wait until the program that writes "
        "it has closed it, or, if that program has died, remove the mark with h5clear -s {}",
        name, name));
  }
  if (const std::string driver = driver_of(start_of(name)); !driver.empty()) {
    fail_as_part(name, driver);
  }
  if (reasons.mention("truncated file")) {
    throw UsageError(fmt::format(
        "'{}' is truncated ({}): copy or write it again, or wait until the program that writes it "
        "has closed it",
        name, reasons.about("truncated file")));
  }
  if (reasons.mention("file signature not found")) fail_as_other_format(name);
  if (reasons.mention("superblock version")) {
    throw UsageError(fmt::format("'{}' cannot be opened: {}", name, *newer_format(reasons)));
  }
  throw UsageError(fmt::format(
      "'{}' cannot be opened (HDF5: {}), since its writer has not closed it, or it is damaged{}: "
      "wait for the writer, or copy or write it again",
      name, reasons.innermost(),
      newer_format(reasons) ? fmt::format(", or newer than HDF5 {}", hdf5_version()) : ""));
}

std::optional<std::string> newer_format(const hdf5::Reasons& reasons) {
  if (!reasons.mention("version")) return std::nullopt;
  return fmt::format(
      "HDF5 {} does not support its format, which needs a newer HDF5 ({}): rewrite the file with "
      "h5repack --high=v110 IN.h5 OUT.h5 of the newer HDF5, or copy it again if no newer HDF5 "
      "has written it",
      hdf5_version(), reasons.about("version"));
}

}  // namespace shardstream::io
