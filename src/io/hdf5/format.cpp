#include "io/hdf5/format.hpp"

#include <utility>

#include "io/hdf5/attribute_content.hpp"
#include "io/hdf5/chunk_index.hpp"
#include "io/hdf5/crash.hpp"
#include "io/hdf5/describe.hpp"
#include "io/hdf5/dimensions.hpp"
#include "io/hdf5/library_data.hpp"
#include "io/hdf5/lookup.hpp"
#include "io/hdf5/texts.hpp"
#include "io/hdf5/trace.hpp"

namespace shardstream::io {
namespace {

/// The lock, and the work that a crash is reported for.
class Guard {
 public:
  explicit Guard(const std::string& file) : at_work_(file, hdf5::Stage::opening) {}

 private:
  hdf5::AtWork at_work_;
  hdf5::Lock lock_;
};

class Hdf5Dataset final : public OpenDataset {
 public:
  /// `name` is that of the data set, `path` that of its file, which is open as `file`.
  Hdf5Dataset(std::string path, std::string name, hdf5::File file, hdf5::Dataset dataset)
      : path_(std::move(path)),
        name_(std::move(name)),
        file_(std::move(file)),
        dataset_(std::move(dataset)) {}
  ~Hdf5Dataset() override {
    const Guard guard(path_);
    dataset_.close();
    file_.close();
  }

  std::vector<Dimension> dimensions() const override {
    const Guard guard(path_);
    return dimensions_of(dataset_, name_);
  }
  std::optional<Coordinates> coordinates(std::size_t dimension) const override {
    const Guard guard(path_);
    return read_coordinates(dataset_, dimension, name_);
  }
  std::optional<Bounds> bounds(std::size_t dimension) const override {
    const Guard guard(path_);
    return read_bounds(dataset_, dimension, name_);
  }
  AttributeContent attribute(const std::string& name) const override {
    const Guard guard(path_);
    return attribute_content(dataset_.get(), name);
  }
  Description describe(const std::string& member, bool with_attributes) const override {
    const Guard guard(path_);
    return io::describe(dataset_, name_, member, with_attributes);
  }
  bool has_texts() const override {
    const Guard guard(path_);
    return TextData::are_in(dataset_);
  }
  void expect_readable_texts(std::uint64_t max) const override {
    const Guard guard(path_);
    TextData(dataset_, name_).expect_readable(max);
  }
  std::vector<std::string> read_texts() const override {
    const Guard guard(path_);
    return TextData(dataset_, name_).read();
  }

 private:
  std::string path_, name_;
  hdf5::File file_;
  hdf5::Dataset dataset_;
};

class Hdf5File final : public OpenFile {
 public:
  explicit Hdf5File(const std::filesystem::path& file) : path_(file), name_(file.string()) {
    const Guard guard(name_);
    file_ = open_input_file(path_);
  }
  ~Hdf5File() override {
    const Guard guard(name_);
    file_.close();
  }

  DatasetName resolve(const DatasetName& name) const override {
    const Guard guard(name_);
    if (!name.path.empty()) return resolve_braces(file_, name);
    return resolve_braces(file_, dataset_name(name_ + ":" + only_dataset(file_, name_)));
  }
  Origin trace(const std::string& path, Unwritten unwritten) const override {
    const Guard guard(name_);
    return trace_origin(file_, path_, path, unwritten);
  }
  std::unique_ptr<OpenDataset> open(const std::string& path,
                                    const std::string& name) const override {
    const Guard guard(name_);
    return std::make_unique<Hdf5Dataset>(name_, name, share(), open_dataset(file_, name_, path));
  }
  std::unique_ptr<LibraryData> open_data(const std::string& path, const Description& about,
                                         std::size_t cache_bytes) const override;

 private:
  /// Another owner of the file. Needs the lock.
  hdf5::File share() const {
    H5Iinc_ref(file_.get());
    return hdf5::File(file_.get());
  }

  std::filesystem::path path_;
  std::string name_;
  hdf5::File file_;
};

/// Access properties with a cache for chunks. Those that have been read completely are evicted
/// first.
hdf5::Properties cached_access(const Description& about, std::size_t cache_bytes) {
  hdf5::Properties access(H5Pcreate(H5P_DATASET_ACCESS), "cannot make data set properties");
  if (about.layout != Layout::chunked) return access;
  constexpr std::size_t slots = 10'007;  // a prime
  hdf5::check(H5Pset_chunk_cache(access.get(), slots, cache_bytes, 1.0),
              "cannot size the chunk cache");
  return access;
}

std::unique_ptr<LibraryData> Hdf5File::open_data(const std::string& path, const Description& about,
                                                 std::size_t cache_bytes) const {
  const hdf5::AtWork at_work(about.name, hdf5::Stage::opening);
  const hdf5::Lock lock;
  FollowedLinks links(cached_access(about, cache_bytes));
  hdf5::Dataset dataset = open_dataset(file_, name_, path, links);
  return std::make_unique<Hdf5Data>(share(), std::move(dataset), about);
}

}  // namespace

const Format hdf5_format = {
    .name = "HDF5",
    .read_call = "H5Dread",
    .open_bytes = std::uint64_t{768} << 10,  // mostly HDF5's table of cached metadata
    .chunk_store_bytes = ChunkIndex::bytes_of,
    .open = [](const std::filesystem::path& file) -> std::unique_ptr<OpenFile> {
      return std::make_unique<Hdf5File>(file);
    },
    .open_chunks = [](const Description& about) -> std::unique_ptr<ChunkStore> {
      return std::make_unique<ChunkIndex>(about);
    }};

}  // namespace shardstream::io
