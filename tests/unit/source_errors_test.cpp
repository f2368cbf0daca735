// Names of data sets, and errors of inputs: damaged, missing or unusable files and data sets.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "io/source/dataset/planned_source.hpp"
#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using test::counting;
using test::error_of;
using test::make_dataset;
using test::make_file;
using test::names;

// ---------------------------------------------------------------- damaged

/// Replaces the little-endian 32-bit numbers `from`, which occur once in the file, by `to`.
void damage(const std::string& path, const std::vector<std::uint32_t>& from,
            const std::vector<std::uint32_t>& to) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto as_text = [](const std::vector<std::uint32_t>& numbers) {
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 4);
  };
  const auto at = bytes.find(as_text(from));
  ASSERT_NE(at, bytes.npos);
  ASSERT_EQ(bytes.find(as_text(from), at + 1), bytes.npos);
  bytes.replace(at, from.size() * 4, as_text(to));
  std::ofstream(path, std::ios::binary) << bytes;
}

/// refusal() in its own process, since libhdf5 leaks memory on damaged metadata.
std::string rejection_elsewhere(const std::string& data, const std::string& type = "auto") {
  int ends[2] = {};
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string message = refusal(data, type);
    ::_exit(::write(ends[1], message.data(), message.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string message;
  std::array<char, 512> piece{};
  for (ssize_t got = 0; (got = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    message.append(piece.data(), static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return message;
}

TEST_F(Sources, ImpossibleChunksAreErrors) {
  const auto values = counting<float>(11 * 13);
  const std::vector<std::uint32_t> chunk = {5, 7, 4};  // and the size of an element
  for (const auto& [to, words] : std::map<std::vector<std::uint32_t>, std::string>{
           {{0, 7, 4}, ""}, {{12, 7, 4}, "12x7"}, {{5, 14, 4}, "5x14"}, {{1U << 31, 7, 4}, ""}}) {
    make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{11, 13}, {5, 7}}, H5T_NATIVE_FLOAT,
                 values.data());
    damage(file_, chunk, to);
    const auto message = rejection_elsewhere(file_ + ":/x");
    EXPECT_TRUE(names(message, "input.data", "data.h5", words));
  }
}

TEST_F(Sources, TypesWithBitsOutsideTheirBytesAreErrors) {
  const auto values = counting<float>(16);
  // Size; offset and precision in bits.
  for (const auto& to : {std::vector<std::uint32_t>{4, 32 << 16 | 2048}, {4 | 8 << 24, 32 << 16}}) {
    make_dataset(make_file(file_), "x", H5T_IEEE_F32LE, {{16}, {4}}, H5T_NATIVE_FLOAT,
                 values.data());
    damage(file_, {4, 32 << 16}, to);
    EXPECT_TRUE(names(rejection_elsewhere(file_ + ":/x", "f64"), "data.h5"));
  }
}

TEST_F(Sources, StorageThatIsTooSmallForItsElementsIsAnError) {
  const hdf5::Type compound(H5Tcreate(H5T_COMPOUND, 12));
  H5Tinsert(compound.get(), "a", 0, H5T_NATIVE_INT32);
  const std::vector<std::byte> bytes(60);
  for (const std::uint32_t size : {13, 1 << 20, 1 << 30}) {
    make_dataset(make_file(file_), "x", compound.get(), {{5}}, compound.get(), bytes.data());
    damage(file_, {0x116, 12}, {0x116, size});  // a compound type with one member and its size
    EXPECT_TRUE(names(rejection_elsewhere(file_ + ":/x{a}"), "data.h5", "bytes"));
  }
}

// ---------------------------------------------------------------- names

TEST_F(Sources, NamesMayContainColons) {
  const auto one = counting<float>(3), two = counting<float>(4);
  std::filesystem::create_directories(folder_ / "a:");
  const std::string odd = folder_ / "run:12:00.h5", odder = folder_ / "a:/b.h5";
  make_dataset(make_file(odd), "x", H5T_NATIVE_FLOAT, {{3}}, H5T_NATIVE_FLOAT, one.data());
  make_dataset(make_file(odder), "x", H5T_NATIVE_FLOAT, {{4}}, H5T_NATIVE_FLOAT, two.data());
  EXPECT_EQ(open(odd)->count(), 3u);
  EXPECT_EQ(open(odd + ":/x")->count(), 3u);
  EXPECT_EQ(open(odder)->count(), 4u);
  EXPECT_EQ(open(odder + ":/x")->count(), 4u);
}

TEST_F(Sources, AFileNameMeansItsOnlyUsableDataSet) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    test::make_group(file, "deep");
    test::make_group(file, "deep/er");
    make_dataset(file, "deep/er/x", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    make_dataset(file, "text", H5T_C_S1, {{1}}, H5T_C_S1, nullptr);
    make_dataset(file, "empty", H5T_NATIVE_FLOAT, {{0}}, H5T_NATIVE_FLOAT, nullptr);
  }
  EXPECT_EQ(open(file_)->name(), file_ + ":/deep/er/x");
}

TEST_F(Sources, AMissingSlashIsSuggested) {
  make_file(file_);
  EXPECT_TRUE(names(refusal(file_ + ":x"), file_ + ":/x"));
}

TEST_F(Sources, OptionsOfGeneratorsAreErrorsForAFile) {
  make_file(file_);
  const char* const variables[] = {"SHARDSTREAM_INPUT_COUNT=7", nullptr};
  for (const char* key : {"input.count", "input.seed"}) {
    const OptionTable table({input_options()});
    CommandLine given;
    given.values = {{"input.data", file_ + ":/x"}, {key, "7"}};
    try {
      open_source(table.resolve(given, variables, {}));
      ADD_FAILURE() << key << " was taken";
    } catch (const UsageError& error) {
      EXPECT_TRUE(names(error.what(), key));
    }
    given.values.erase(key);
    try {  // environment variables may be for other commands
      open_source(table.resolve(given, variables, {}));
    } catch (const UsageError& error) {
      EXPECT_FALSE(names(error.what(), key));
    }
  }
}

TEST_F(Sources, SeveralDataSetsAreListedButNotAll) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    for (int i = 10; i < 24; ++i) {
      make_dataset(file, fmt::format("d{}", i), H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    }
  }
  const auto message = refusal(file_);
  EXPECT_TRUE(names(message, "/d10", "/d11", 4));
  EXPECT_EQ(message.find("/d20"), std::string::npos);
}

TEST_F(Sources, MissingPathsNameNearOnes) {
  const float one = 1;
  {
    const auto file = make_file(file_);
    test::make_group(file, "sea");
    make_dataset(file, "sea/elevation", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    make_dataset(file, "depth", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
    H5Lcreate_soft("/nowhere", file.get(), "dangling", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_TRUE(names(refusal(file_ + ":/sea/elevatoin"), "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/elevation"), "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/qqqqqqq"), "/depth", "/sea/elevation"));
  EXPECT_TRUE(names(refusal(file_ + ":/depth/x"), "'/depth/x'"));
  EXPECT_TRUE(names(refusal(file_ + ":/dangling"), "'/dangling'"));
  const auto group = refusal(file_ + ":/sea");
  EXPECT_TRUE(names(group, "group", "/sea/elevation"));
  EXPECT_EQ(group.find("/depth"), std::string::npos);
  EXPECT_TRUE(names(refusal(file_ + ":/"), "/depth", "/sea/elevation"));
}

// ---------------------------------------------------------------- files that cannot be used

TEST_F(Sources, UnusableFilesAreNamed) {
  EXPECT_TRUE(names(refusal(folder_ / "missing.h5"), folder_ / "missing.h5"));
  EXPECT_TRUE(names(refusal(folder_ / "missing.h5:/x"), "missing.h5'"));
  EXPECT_TRUE(names(refusal("unifrom"), "unifrom", "uniform"));
  EXPECT_TRUE(names(refusal(folder_.path().string()), folder_.path().string(), "folder"));
  EXPECT_TRUE(names(refusal("/dev/null"), "/dev/null", "device"));
  EXPECT_TRUE(names(refusal(":/x"), "input.data", "':/x'"));
  std::ofstream(folder_ / "notes.txt") << "not HDF5, but longer than a signature\n";
  EXPECT_TRUE(names(refusal(folder_ / "notes.txt"), "notes.txt", "HDF5"));
  std::ofstream(folder_ / "empty.h5").close();
  EXPECT_TRUE(names(refusal(folder_ / "empty.h5"), "0 bytes"));
}

TEST_F(Sources, AFileWithoutPermissionIsNamed) {
  make_file(file_).close();
  ASSERT_EQ(::chmod(file_.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  const bool root = ::geteuid() == 0;
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto message = refusal(file_);
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_TRUE(names(message, file_, "Permission denied"));
}

TEST_F(Sources, TruncatedFilesAreReported) {
  const auto values = counting<double>(10'000);
  make_dataset(make_file(file_), "x", H5T_NATIVE_DOUBLE, {{10'000}}, H5T_NATIVE_DOUBLE,
               values.data());
  for (const std::uint64_t bytes : {80'000, 3000, 100}) {
    truncate_to(file_, bytes);
    EXPECT_TRUE(names(refusal(file_ + ":/x"), "truncated"));
  }
}

TEST_F(Sources, ALockedFileNamesTheVariable) {
  if (std::getenv("HDF5_USE_FILE_LOCKING") != nullptr) {
    GTEST_SKIP() << "HDF5_USE_FILE_LOCKING is set: HDF5 may not look at locks";
  }
  make_file(file_).close();
  const Descriptor other(file_, O_RDONLY);
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(names(refusal(file_), "HDF5_USE_FILE_LOCKING"));
}

TEST_F(Sources, DamagedMetadataAreUsageErrors) {
  const float one = 1;
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{1}}, H5T_NATIVE_FLOAT, &one);
  std::fstream bytes(file_, std::ios::in | std::ios::out | std::ios::binary);
  for (int at = 96; at < 2000; ++at) bytes.seekp(at).put('\x5a');
  bytes.close();
  refusal(file_ + ":/x");
}

// ---------------------------------------------------------------- data sets that cannot be used

TEST_F(Sources, DataSetsWithoutNumbersAreNamed) {
  using io::hdf5::Type;
  const Type compound(H5Tcreate(H5T_COMPOUND, 4)), opaque(H5Tcreate(H5T_OPAQUE, 3)),
      list(H5Tvlen_create(H5T_NATIVE_INT));
  const hsize_t three = 3;
  const Type array(H5Tarray_create2(H5T_NATIVE_INT, 1, &three));
  H5Tinsert(compound.get(), "a", 0, H5T_NATIVE_INT32);
  const std::map<std::string, std::pair<hid_t, const char*>> types = {
      {"string", {H5T_C_S1, "strings"}},
      {"compound", {compound.get(), "compound values"}},
      {"reference", {H5T_STD_REF_OBJ, "references"}},
      {"vlen", {list.get(), "variable-length lists"}},
      {"opaque", {opaque.get(), "opaque values"}},
      {"array", {array.get(), "arrays"}}};
  {
    const auto file = make_file(file_);
    for (const auto& [name, type] : types) {
      make_dataset(file, name, type.first, {{2}}, type.first, nullptr);
    }
    const Type named(H5Tcopy(H5T_NATIVE_INT));  // a committed type keeps its file open
    H5Tcommit2(file.get(), "named", named.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  }
  for (const auto& [name, type] : types) {
    EXPECT_TRUE(names(refusal(file_ + ":/" + name), type.second));
    EXPECT_TRUE(names(refusal(file_ + ":/" + name, "f32"), type.second));
  }
  EXPECT_TRUE(names(refusal(file_ + ":/named"), "named", "type"));
  EXPECT_TRUE(names(refusal(file_), file_, "numbers"));
}

TEST_F(Sources, EmptyDataSetsAreErrors) {
  {
    const auto file = make_file(file_);
    make_dataset(file, "zero", H5T_NATIVE_FLOAT, {{3, 0}}, H5T_NATIVE_FLOAT, nullptr);
    const io::hdf5::Space null(H5Screate(H5S_NULL));
    const io::hdf5::Dataset dataset(H5Dcreate2(file.get(), "null", H5T_NATIVE_FLOAT, null.get(),
                                               H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  }
  EXPECT_TRUE(names(refusal(file_ + ":/zero"), file_ + ":/zero", "elements"));
  EXPECT_TRUE(names(refusal(file_ + ":/null"), file_ + ":/null", "elements"));
}

TEST_F(Sources, TooManyElementsAreAnError) {
  const hsize_t wide = hsize_t{1} << 32;
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{wide, wide / 2}, {4, 4}},
               H5T_NATIVE_FLOAT, nullptr);
  EXPECT_TRUE(names(refusal(file_), "2^63"));
}

TEST_F(Sources, AMissingFilterIsNamed) {
  const auto blosc = [](hid_t p) { H5Pset_filter(p, 32001, H5Z_FLAG_OPTIONAL, 0, nullptr); };
  make_dataset(make_file(file_), "x", H5T_NATIVE_FLOAT, {{10}, {5}, blosc}, H5T_NATIVE_FLOAT,
               nullptr);
  EXPECT_TRUE(names(refusal(file_), "filter 32001"));
}

TEST_F(Sources, ACorruptedChunkIsNamed) {
  const auto values = counting<float>(4000);
  haddr_t where = 0;
  {
    const auto file = make_file(file_);
    make_dataset(file, "x", H5T_NATIVE_FLOAT,
                 {{40, 100}, {20, 50}, [](hid_t p) { H5Pset_deflate(p, 6); }}, H5T_NATIVE_FLOAT,
                 values.data());
    const io::hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT));
    hsize_t size = 0;
    unsigned mask = 0;
    const hsize_t second[] = {0, 50};
    ASSERT_GE(H5Dget_chunk_info_by_coord(dataset.get(), second, &mask, &where, &size), 0);
  }
  std::fstream bytes(file_, std::ios::in | std::ios::out | std::ios::binary);
  for (int i = 0; i < 64; ++i) bytes.seekp(static_cast<std::streamoff>(where) + i).put('\x5a');
  bytes.close();
  const auto by_hdf5 = open_dataset_source(file_, "/x", {.way = ReadWay::by_library});
  const auto decoded = open(file_);
  for (const Source* const source : {by_hdf5.get(), decoded.get()}) {
    EXPECT_EQ(read<float>(*source, 0, 1000)[51], 101.0f);
    const auto message = error_of([&] { read<float>(*source, 1000, 1000); }, ExitCode::failed);
    EXPECT_TRUE(names(message, source->name(), "[0, 50]"));
    if (source == decoded.get()) continue;
    EXPECT_TRUE(names(message, "inflate()", "20x50"));
  }
}

}  // namespace
}  // namespace shardstream::io
