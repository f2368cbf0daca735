// Data sets of several files as one: their elements, the properties that must agree, and the files
// that are open.
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <thread>

#include "core/error.hpp"
#include "io/source/joined/join.hpp"
#include "io/source/joined/part_pool.hpp"
#include "support/sources.hpp"

namespace shardstream::io {
namespace {

using test::make_dataset;
using test::make_file;
using test::names;

using Doubles = std::vector<double>;

class Joined : public testing::Test {
 protected:
  /// Writes /x as i16: `first`, `first` + 1, ...
  void write(const std::string& name, std::vector<hsize_t> shape, std::int16_t first,
             std::vector<hsize_t> chunk = {}, hid_t type = H5T_STD_I16LE) {
    const hdf5::Lock lock;
    std::size_t count = 1;
    for (const hsize_t extent : shape) count *= extent;
    make_dataset(make_file(folder_ / name), "x", type, {std::move(shape), std::move(chunk)},
                 H5T_NATIVE_INT16, test::counting<std::int16_t>(count, first).data());
  }
  template <class Value>
  void set(const std::string& name, const std::string& attribute, Value value) {
    const hdf5::Lock lock;
    const hdf5::File file(H5Fopen((folder_ / name).c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open");
    const hdf5::Dataset dataset(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open");
    hdf5::write_attribute(dataset.get(), attribute, value);
  }
  std::string all() const { return folder_ / "*.h5:/x"; }
  /// The message of the error for a.h5 and b.h5.
  std::string complaint() const { return refusal(all()); }

  test::TemporaryFolder folder_;
};

template <class T>
std::vector<T> of(std::initializer_list<int> values) {
  return {values.begin(), values.end()};
}

TEST_F(Joined, ElementsComeFileByFileInTheOrderOfStorage) {
  write("a.h5", {2, 3}, 0);
  write("b.h5", {1, 3}, 10);
  write("c.h5", {3, 3}, 20, {2, 2});
  const auto source = open(all(), "i32");
  EXPECT_EQ(source->shape(), (Extents{6, 3}));
  EXPECT_EQ(source->origin().files.size(), 3U);
  const auto expected =
      of<std::int32_t>({0, 1, 2, 3, 4, 5, 10, 11, 12, 20, 21, 23, 24, 22, 25, 26, 27, 28});
  EXPECT_EQ(read<std::int32_t>(*source), expected);
  for (std::uint64_t first = 0; first < expected.size(); ++first) {
    for (std::uint64_t count = 0; count <= expected.size() - first; ++count) {
      const auto begin = expected.begin() + static_cast<std::ptrdiff_t>(first);
      ASSERT_EQ(read<std::int32_t>(*source, first, count),
                std::vector(begin, begin + static_cast<std::ptrdiff_t>(count)));
    }
  }
  EXPECT_EQ(source->coordinates(7), (Extents{2, 1}));
  EXPECT_EQ(source->coordinates(13), (Extents{3, 2}));
}

TEST_F(Joined, SelectionsOfRowsLeaveOutFiles) {
  for (int i = 0; i < 4; ++i) {
    write(std::string(1, static_cast<char>('a' + i)) + ".h5", {3, 2},
          static_cast<std::int16_t>(10 * i));
  }
  const auto source = open(all() + "[1:12:5, 1]", "i32");
  EXPECT_EQ(source->shape(), (Extents{3}));
  EXPECT_EQ(read<std::int32_t>(*source), of<std::int32_t>({3, 21, 35}));
  EXPECT_EQ(source->coordinates(1), (Extents{6, 1}));
  EXPECT_EQ(read<std::int32_t>(*open(all() + "[-1]", "i32")), of<std::int32_t>({34, 35}));
  std::vector<std::int32_t> block(4, -1);
  const Pitches pitch{2 * sizeof(std::int32_t), sizeof(std::int32_t)};
  open(all(), "i32")->read_block({2, 1}, {2, 1}, pitch, reinterpret_cast<std::byte*>(block.data()));
  EXPECT_EQ(block, of<std::int32_t>({5, -1, 11, -1}));
}

TEST_F(Joined, EachFileHasItsOwnPacking) {
  write("a.h5", {2, 2}, 0);
  write("b.h5", {2, 2}, 0);
  set("a.h5", "scale_factor", 0.5);
  set("b.h5", "scale_factor", 2.0);
  set("a.h5", "_FillValue", 1.0);
  set("b.h5", "_FillValue", 2.0);
  const auto source = open(all());
  const auto values = read<double>(*source);
  EXPECT_TRUE(std::isnan(values[1]) && std::isnan(values[6]));
  EXPECT_EQ(values[3], 1.5);
  EXPECT_EQ(values[7], 6);
  std::vector<std::byte> stored(source->slot_bytes(8));
  Doubles converted(8);
  EXPECT_EQ(source->convert(0, 8, source->read_stored(0, 8, stored.data()),
                            reinterpret_cast<std::byte*>(converted.data())),
            2U);
  EXPECT_EQ(converted[5], 2);
}

TEST_F(Joined, PropertiesOfDataSetsMustAgree) {
  const auto expect = [&](const std::function<void()>& change,
                          const std::vector<std::string>& words) {
    for (const char* const name : {"a.h5", "b.h5"}) write(name, {2, 3}, 0);
    change();
    const std::string message = complaint();
    EXPECT_TRUE(names(message, words)) << message;
    EXPECT_TRUE(names(message, "a.h5", "b.h5")) << message;
  };
  expect([&] { write("b.h5", {2, 4}, 0); }, {"3", "4"});
  expect([&] { write("b.h5", {6}, 0); }, {"2", "1"});
  expect([&] { write("b.h5", {2, 3}, 0, {}, H5T_STD_I32LE); }, {"i16", "i32"});
  expect([&] { set("b.h5", "units", std::string("K")); }, {"units", "K"});
  expect([&] { set("a.h5", "_FillValue", 0.0); }, {"_FillValue", "input.conventions"});
  expect([&] { set("b.h5", "scale_factor", 0.5); }, {"scale_factor", "input.conventions"});
}

TEST_F(Joined, TypesOfElementsMustAgree) {
  for (const char* const name : {"a.h5", "b.h5"}) write(name, {2}, 3);
  set("a.h5", "scale_factor", 1.0);  // which unpacks nothing
  set("b.h5", "scale_factor", 0.5);
  EXPECT_TRUE(names(complaint(), "a.h5", "b.h5", "input.type"));
  EXPECT_EQ(read<double>(*open(all(), "f64")), (Doubles{3, 4, 1.5, 2}));
}

TEST_F(Joined, OneIntegerIsMissingInAllFiles) {
  for (const char* const name : {"a.h5", "b.h5"}) write(name, {3}, 0);
  set("a.h5", "_FillValue", 1.0);
  set("b.h5", "_FillValue", 2.0);
  EXPECT_TRUE(names(complaint(), "b.h5", "input.type"));
  EXPECT_TRUE(std::isnan(read<double>(*open(all(), "f64")).back()));
  set("a.h5", "missing_value", 2.0);
  set("b.h5", "missing_value", 5.0);
  const auto source = open(all(), "i32");
  EXPECT_EQ(source->conversions().front().missing_element, 2U);
  EXPECT_EQ(read<std::int32_t>(*source), of<std::int32_t>({0, 2, 2, 0, 1, 2}));
}

TEST_F(Joined, ThreadsReadFilesInParallel) {
  for (int i = 0; i < 6; ++i) {
    const hdf5::Lock lock;
    const auto deflate = [](hid_t creation) { H5Pset_deflate(creation, 1); };
    make_dataset(make_file(folder_ / (std::to_string(i) + ".h5")), "x", H5T_STD_I32LE,
                 {{500, 4}, {70, 4}, deflate}, H5T_NATIVE_INT32,
                 test::counting<std::int32_t>(2000, 2000 * i).data());
  }
  const auto source = open(all());
  source->prepare({0, source->count()});
  constexpr std::uint64_t piece = 1100;
  std::atomic<std::uint64_t> next = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (auto first = piece * next++; first < source->count(); first = piece * next++) {
        const std::uint64_t count = std::min(piece, source->count() - first);
        EXPECT_EQ(read<std::int32_t>(*source, first, count),
                  test::counting(count, static_cast<std::int32_t>(first)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Joined, FilesThatHaveChangedAreAnError) {
  for (const char* const name : {"a.h5", "b.h5"}) write(name, {2}, 3);
  const auto source = open(all(), "i32");
  write("b.h5", {2}, 4);
  read<std::int32_t>(*source, 0, 2);
  const auto read_all = [&] { read<std::int32_t>(*source); };
  EXPECT_TRUE(names(test::error_of(read_all, ExitCode::failed), "b.h5"));
  std::filesystem::remove(folder_ / "b.h5");
  EXPECT_TRUE(names(test::error_of(read_all, ExitCode::failed), "b.h5"));
}

TEST_F(Joined, DirectReadsOfOnePartStayInTheSlotOfAll) {
  write("a.h5", {3, 1000}, 0);
  write("b.h5", {2, 1000}, 3000);
  std::unique_ptr<Source> source;
  try {
    source = open_joined_source(folder_ / "*.h5", std::vector{folder_ / "a.h5", folder_ / "b.h5"},
                                "/x[0:5:2]", {.way = ReadWay::direct});
  } catch (const UsageError&) {
    GTEST_SKIP() << "the file system does not support direct reads";
  }
  const std::uint64_t bytes = source->slot_bytes(1000);
  AlignedBytes slot(DirectFile::block(), DirectFile::room(bytes + DirectFile::block()));
  std::fill_n(slot.data(), DirectFile::room(bytes), std::byte{0x55});
  const std::byte* const at = source->read_stored(2000, 1000, slot.data());
  std::int16_t first = 0;
  std::memcpy(&first, at, sizeof first);
  EXPECT_EQ(first, 4000);
  EXPECT_EQ(slot.data()[bytes], std::byte{0x55}) << "the part is a run, but not the first one";
}

// ---------------------------------------------------------------- open parts

/// A part without elements. Counts those that are open.
class EmptyPart final : public DatasetSource {
 public:
  explicit EmptyPart(std::atomic<int>& open)
      : DatasetSource("part", {}, unnamed_dimensions({1}), {1}, {"f32"}), open_(open) {
    ++open_;
  }
  ~EmptyPart() override { --open_; }
  std::uint64_t stored_bytes() const override { return 0; }

 private:
  void fetch_block(const Extents&, const Extents&, const Pitches&, std::byte*) const override {}

  std::atomic<int>& open_;
};

TEST(PartPool, KeepsTheLastPartsOpen) {
  std::atomic<int> open = 0, opened = 0;
  PartPool pool(std::vector<OpeningCost>(10, {2, 100}), {7, 1000},
                std::make_shared<DecodingMemory>(), [&](std::size_t) {
                  ++opened;
                  return std::make_unique<EmptyPart>(open);
                });
  for (std::size_t part = 0; part < 10; ++part) pool.get(part);
  EXPECT_EQ(open, 3);
  for (const std::size_t part : {7, 8, 9, 7}) pool.get(part);
  EXPECT_EQ(opened, 10);
  pool.get(0);
  pool.get(7);
  EXPECT_EQ(opened, 11) << "part 8 was the least recently used one";
  pool.get(9);
  EXPECT_EQ(open, 3);
  pool.close_all();
  EXPECT_EQ(open, 0);
}

TEST(PartPool, WaitsForRoomWhileOtherThreadsUseParts) {
  std::atomic<int> open = 0, most = 0, failed = 0;
  PartPool pool(std::vector<OpeningCost>(9, {1, 50}), {100, 100},
                std::make_shared<DecodingMemory>(), [&](std::size_t part) {
                  if (part == 8) throw Error("it cannot be opened");
                  auto made = std::make_unique<EmptyPart>(open);
                  if (open > most) most = open.load();
                  return made;
                });
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::size_t i = 0; i < 300; ++i) {
        try {
          const auto used = pool.get((thread + i) % 9);
          std::this_thread::yield();
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, 2);
  EXPECT_GT(failed, 0);
}

TEST(PartPool, OpensAPartThatAloneExceedsTheLimits) {
  std::atomic<int> open = 0;
  PartPool pool({{1, 1000}, {1, 10}}, {100, 100}, std::make_shared<DecodingMemory>(),
                [&](std::size_t) { return std::make_unique<EmptyPart>(open); });
  for (const std::size_t part : {1, 0, 1}) pool.get(part);
  EXPECT_EQ(open, 1);
}

TEST(PartPool, ClosesPartsWhoseDecodedChunksTakeTheRoom) {
  std::atomic<int> open = 0;
  const auto memory = std::make_shared<DecodingMemory>(1000);
  PartPool pool(std::vector<OpeningCost>(4, {1, 1}), {100, 100}, memory,
                [&](std::size_t) { return std::make_unique<EmptyPart>(open); });
  for (std::size_t part = 0; part < 3; ++part) pool.get(part);
  EXPECT_EQ(open, 3);
  memory->add(1001);
  pool.get(3);
  EXPECT_EQ(open, 3);
  memory->remove(1001);
}

TEST(PartPool, ThreadsShareAPart) {
  std::atomic<int> open = 0, opened = 0;
  PartPool pool(std::vector<OpeningCost>(4, {1, 1}), {2, 100}, std::make_shared<DecodingMemory>(),
                [&](std::size_t part) {
                  if (opened++ == 0) throw Error("the first attempt fails");
                  EXPECT_LT(part, 4U);
                  return std::make_unique<EmptyPart>(open);
                });
  EXPECT_THROW(pool.get(0), Error);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < 1000; ++i) EXPECT_EQ(pool.get(i / 250)->count(), 1U);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(open, 2);
}

}  // namespace
}  // namespace shardstream::io
