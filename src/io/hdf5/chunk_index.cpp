#include "io/hdf5/chunk_index.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace shardstream::io {

namespace {

/// The number of chunks whose places an index remembers.
constexpr std::uint64_t max_known = std::uint64_t{1} << 18;

std::shared_ptr<const Descriptor> open_file(const std::string& name) {
  auto file = std::make_shared<const Descriptor>(name, O_RDONLY);
  if (!file->valid()) throw Error(fmt::format("cannot open '{}': {}", name, errno_text(errno)));
  return file;
}

}  // namespace

/// Records the reads that H5Dread_chunk requests from the driver. It is armed only during that
/// call.
struct ChunkIndex::Probe {
  bool armed = false;
  unsigned reads = 0;
  std::uint64_t address = 0, bytes = 0;
};

/// A driver that reads like HDF5's own POSIX driver, except that it reads no raw data while its
/// probe is armed. HDF5 calls its functions under the lock; they must not throw.
struct ChunkIndex::Driver {
  struct Access {
    Probe* probe;
  };
  struct File : H5FD_t {
    Descriptor file;
    std::uint64_t size = 0;
    haddr_t allocated = 0;
    Probe* probe = nullptr;
  };

  static File& of(H5FD_t* file) { return *static_cast<File*>(file); }
  static const File& of(const H5FD_t* file) { return *static_cast<const File*>(file); }

  static H5FD_t* open(const char* name, unsigned flags, hid_t access, haddr_t) {
    const auto* const about = static_cast<const Access*>(H5Pget_driver_info(access));
    if (about == nullptr || (flags & H5F_ACC_RDWR) != 0) return nullptr;
    std::unique_ptr<File> file(new (std::nothrow) File);
    if (!file) return nullptr;
    file->file = Descriptor(::open(name, O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!file->file.valid() || ::fstat(file->file.get(), &status) != 0) return nullptr;
    file->size = static_cast<std::uint64_t>(status.st_size);
    file->probe = about->probe;
    return file.release();
  }
  static herr_t close(H5FD_t* file) {
    delete &of(file);
    return 0;
  }
  static herr_t query(const H5FD_t*, unsigned long* features) {
    if (features != nullptr) *features = 0;
    return 0;
  }
  static haddr_t allocated(const H5FD_t* file, H5FD_mem_t) { return of(file).allocated; }
  static herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t end) {
    of(file).allocated = end;
    return 0;
  }
  static haddr_t end(const H5FD_t* file, H5FD_mem_t) { return of(file).size; }
  static herr_t read(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t at, std::size_t bytes,
                     void* to) {
    const File& self = of(file);
    if (type == H5FD_MEM_DRAW && self.probe->armed) {
      self.probe->address = at;
      self.probe->bytes = bytes;
      ++self.probe->reads;
      return 0;
    }
    const std::int64_t got = self.file.read_at(at, static_cast<std::byte*>(to), bytes);
    if (got < 0) return -1;
    const auto there = static_cast<std::size_t>(got);
    std::memset(static_cast<std::byte*>(to) + there, 0, bytes - there);  // as HDF5's own driver
    return 0;
  }
  static herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

  static H5FD_class_t about() {
    H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION  // since HDF5 1.14; values from 256 on are for private use
    driver.version = H5FD_CLASS_VERSION;
    driver.value = 256;
#endif
    driver.name = "shardstream_chunk_index";
    driver.maxaddr = HADDR_MAX;
    driver.fc_degree = H5F_CLOSE_SEMI;
    driver.fapl_size = sizeof(Access);
    driver.open = open;
    driver.close = close;
    driver.query = query;
    driver.get_eoa = allocated;
    driver.set_eoa = set_allocated;
    driver.get_eof = end;
    driver.read = read;
    driver.write = write;
    std::fill(std::begin(driver.fl_map), std::end(driver.fl_map), H5FD_MEM_SUPER);
    return driver;
  }
};

ChunkIndex::ChunkIndex(const Description& about)
    : name_(about.name),
      bytes_(open_file(about.place.file)),
      probe_(std::make_unique<Probe>()),
      recent_(std::min(chunks_in(about), max_known), {UINT64_MAX, 0, 0, 0}) {
  const auto what = "cannot look up the chunks of " + name_;
  const hdf5::AtWork at_work(name_, hdf5::Stage::opening);
  const hdf5::Lock lock;
  const H5FD_class_t driver = Driver::about();
  driver_ = hdf5::Owner<H5FDunregister>(H5FDregister(&driver), what);
  const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), what);
  const Driver::Access info{probe_.get()};
  hdf5::check(H5Pset_driver(access.get(), driver_.get(), &info), what);
  file_ = hdf5::File(H5Fopen(about.place.file.c_str(), H5F_ACC_RDONLY, access.get()), what);
  dataset_ = hdf5::Dataset(H5Dopen2(file_.get(), about.place.path.c_str(), H5P_DEFAULT), what);
}

std::uint64_t ChunkIndex::bytes_of(std::uint64_t chunks) {
  return std::min(chunks, max_known) * sizeof(Known);
}

/// Closes the file while a crash can still be reported.
ChunkIndex::~ChunkIndex() {
  const hdf5::AtWork at_work(name_, hdf5::Stage::reading);
  dataset_.close();
  file_.close();
}

StoredChunk ChunkIndex::find(std::uint64_t number, std::span<const std::uint64_t> start) const {
  Known& place = recent_[number % recent_.size()];
  {
    const std::lock_guard guard(mutex_);
    if (place.number == number) return {bytes_, place.address, place.bytes, place.mask};
  }
  const StoredChunk found = look_up(start);
  const std::lock_guard guard(mutex_);
  place = {number, found.address, found.bytes, found.mask};
  return found;
}

StoredChunk ChunkIndex::look_up(std::span<const std::uint64_t> start) const {
  const std::vector<hsize_t> first(start.begin(), start.end());
  const hdf5::AtWork at_work(name_, hdf5::Stage::reading);
  const hdf5::Lock lock;
  const auto fail = [&](const std::string& reason) {
    throw Error(
        fmt::format("cannot look up the chunk at [{}] of {}, its file may be damaged: {}: "
                    "copy or write it again",
                    join(start, ", "), name_, reason));
  };
  StoredChunk chunk{.file = bytes_};
  std::byte unused{};  // the driver reads nothing
  *probe_ = {.armed = true};
  const herr_t status =
      H5Dread_chunk(dataset_.get(), H5P_DEFAULT, first.data(), &chunk.mask, &unused);
  probe_->armed = false;
  if (status < 0) {
    const hdf5::Reasons reasons;
    if (reasons.mention("chunk address isn't defined")) return {};
    // Another version of HDF5 may use other words. This call walks over all chunks, but is
    // reliable.
    haddr_t address = 0;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info_by_coord(dataset_.get(), first.data(), &chunk.mask, &address, &bytes) >=
            0 &&
        address == HADDR_UNDEF) {
      return {};
    }
    fail("HDF5: " + reasons.innermost());
  }
  if (probe_->reads != 1 || probe_->bytes == 0) {
    fail(fmt::format("HDF5 reads it in {} pieces", probe_->reads));
  }
  chunk.address = probe_->address;
  chunk.bytes = probe_->bytes;
  return chunk;
}

}  // namespace shardstream::io
