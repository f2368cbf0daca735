// Both ways to read a contiguous data set give the same bytes, from any offset to any address.
#include "io/source/dataset/contiguous_source.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "io/source/dataset/direct_file.hpp"
#include "kernels/data/generate.hpp"
#include "support/conversions.hpp"
#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::names;

constexpr auto cached_access = "contiguous, parallel pread";
constexpr auto direct_access = "contiguous, parallel O_DIRECT reads";

class ContiguousSources : public testing::Test {
 protected:
  ContiguousSources() {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(mix(i));
    const Descriptor file(path_, O_WRONLY | O_CREAT, 0600);
    EXPECT_TRUE(file.write_at(0, bytes_));
    EXPECT_EQ(::fsync(file.get()), 0);
  }

  bool can_read_direct() const { return DirectFile(Descriptor(path_, O_RDONLY)).valid(); }

  /// All of the file from `offset` on, to the last whole element.
  ContiguousSource open(ElementType type, std::uint64_t offset, ReadWay way) const {
    const std::uint64_t count = (bytes_.size() - offset) / size_of(type);
    return {"it",
            test::unchanged(type),
            unnamed_dimensions({count}),
            {},
            {Descriptor(path_, O_RDONLY), offset, {size_of(type), 0}},
            way};
  }

  /// Drops the file from the page cache; false where it stays.
  bool make_cold() const {
    const Descriptor file(path_, O_RDONLY);
    EXPECT_EQ(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    auto source = open(ElementType::u8, 0, ReadWay::automatic);
    source.prepare({0, bytes_.size()});
    return source.access() != cached_access;
  }

  void expect_same_bytes(const Source& source, std::uint64_t offset, Range elements) const {
    const std::size_t size = size_of(source.type());
    const std::byte* const wanted = bytes_.data() + offset + elements.first * size;
    std::vector<std::byte> out(elements.count * size);
    source.read(elements.first, elements.count, out.data());
    EXPECT_EQ(std::memcmp(out.data(), wanted, out.size()), 0) << "read";
    // Memory after the slot is not changed.
    const std::uint64_t slot_bytes = source.slot_bytes(elements.count), page = DirectFile::block();
    const AlignedBytes slot(page, DirectFile::room(slot_bytes));
    slot.data()[slot_bytes] = std::byte{42};
    const std::byte* const data = source.read_stored(elements.first, elements.count, slot.data());
    EXPECT_GE(data, slot.data());
    EXPECT_LE(data + out.size(), slot.data() + slot_bytes);
    EXPECT_EQ(std::memcmp(data, wanted, out.size()), 0) << "read_stored";
    EXPECT_EQ(slot.data()[slot_bytes], std::byte{42});
  }

  test::TemporaryFolder folder_;
  std::string path_ = folder_ / "file";
  std::vector<std::byte> bytes_ = std::vector<std::byte>((std::size_t{5} << 20) + 12'345);
};

TEST_F(ContiguousSources, BothWaysGiveTheSameBytes) {
  if (!can_read_direct()) GTEST_SKIP() << "this file system refuses O_DIRECT";
  for (const auto way : {ReadWay::cached, ReadWay::direct}) {
    for (const auto type : {ElementType::u8, ElementType::f32, ElementType::f64}) {
      for (const std::uint64_t offset : {0, 1, 511, 512, 2048, 4095, 4096, 4097, 70'000}) {
        const auto source = open(type, offset, way);
        EXPECT_EQ(source.access(), way == ReadWay::direct ? direct_access : cached_access);
        const std::uint64_t all = source.count();
        for (const Range elements :
             {Range{0, 1}, Range{0, 1000}, Range{3, 1}, Range{511, 513}, Range{1000, 65'536},
              Range{all - 1, 1}, Range{all - 777, 777}, Range{0, all}}) {
          SCOPED_TRACE(testing::Message()
                       << source.access() << ", " << word_of(type) << " at " << offset
                       << ", elements " << elements.first << "+" << elements.count);
          expect_same_bytes(source, offset, elements);
        }
      }
    }
  }
}

TEST_F(ContiguousSources, ManyThreadsMayReadDirect) {
  if (!can_read_direct()) GTEST_SKIP() << "this file system refuses O_DIRECT";
  const auto source = open(ElementType::i32, 2048, ReadWay::direct);
  std::vector<std::thread> readers;
  for (std::uint64_t reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      for (std::uint64_t i = reader; i < 40; i += 4) {
        expect_same_bytes(source, 2048, {i * 10'000, 10'000});
      }
    });
  }
  for (auto& reader : readers) reader.join();
}

TEST_F(ContiguousSources, ATruncatedFileIsReportedInBothWays) {
  const auto expect_truncated = [](const auto& read) {
    const std::string message = error_of(read, ExitCode::failed);
    EXPECT_TRUE(names(message, "truncated", "50000 bytes"));
  };
  for (const auto way : {ReadWay::cached, ReadWay::direct}) {
    if (way == ReadWay::direct && !can_read_direct()) {
      GTEST_SKIP() << "this file system refuses O_DIRECT";
    }
    const auto source = open(ElementType::u8, 512, way);
    for (const std::uint64_t left : {40'000, 40'960, 1'511, 100, 0}) {
      std::filesystem::resize_file(path_, left);
      std::vector<std::byte> out(50'000);
      expect_truncated([&] { source.read(1000, 50'000, out.data()); });
      const AlignedBytes slot(DirectFile::block(), DirectFile::room(50'000));
      expect_truncated([&] { source.read_stored(1000, 50'000, slot.data()); });
    }
    std::filesystem::resize_file(path_, bytes_.size());
  }
}

TEST_F(ContiguousSources, AutomaticReadsColdDataDirect) {
  if (!can_read_direct()) GTEST_SKIP() << "this file system refuses O_DIRECT";
  if (!make_cold()) GTEST_SKIP() << "this file system keeps its pages";
  const std::uint64_t half = bytes_.size() / 2;
  auto source = open(ElementType::u8, 0, ReadWay::automatic);
  EXPECT_EQ(source.access(), cached_access);
  source.prepare({0, half});
  EXPECT_EQ(source.access(), direct_access);
  EXPECT_TRUE(source.file_reads()->past_cache);
  expect_same_bytes(source, 0, {0, half});
  // Direct reads do not fill the page cache; reads through it do, with the bytes that are read.
  source.prepare({0, half});
  EXPECT_EQ(source.access(), direct_access);
  const auto through = open(ElementType::u8, 0, ReadWay::cached);
  expect_same_bytes(through, 0, {0, half});
  source.prepare({0, half});
  EXPECT_EQ(source.access(), cached_access);
  EXPECT_FALSE(source.file_reads()->past_cache);
  EXPECT_EQ(source.slot_bytes(100), 100U);
  expect_same_bytes(source, 0, {0, half});
}

TEST_F(ContiguousSources, TheRequestedWayIsKept) {
  if (!can_read_direct()) GTEST_SKIP() << "this file system refuses O_DIRECT";
  auto direct = open(ElementType::u8, 0, ReadWay::direct);
  direct.prepare({0, 1000});
  EXPECT_EQ(direct.access(), direct_access);
  make_cold();
  auto cached = open(ElementType::u8, 0, ReadWay::cached);
  cached.prepare({0, 1000});
  EXPECT_EQ(cached.access(), cached_access);
}

/// No system supports direct reads of a file of /proc.
TEST_F(ContiguousSources, UnsupportedDirectReadsNameTheAlternatives) {
  const auto proc = [] { return Descriptor("/proc/self/status", O_RDONLY); };
  ASSERT_FALSE(DirectFile(proc()).valid());
  const auto open_proc = [&](ReadWay way) {
    const Conversion bytes = test::unchanged(ElementType::u8);
    return ContiguousSource("it", bytes, unnamed_dimensions({10}), {}, {proc(), 0, {1, 0}}, way);
  };
  const std::string message = error_of([&] { open_proc(ReadWay::direct); });
  EXPECT_TRUE(names(message, "--input.read", "auto", "cached"));
  ContiguousSource source = open_proc(ReadWay::automatic);
  source.prepare({0, 10});
  EXPECT_EQ(source.access().find(cached_access), 0U) << source.access();
  std::vector<std::byte> out(5);
  source.read(0, 5, out.data());
  EXPECT_EQ(std::memcmp(out.data(), "Name:", 5), 0);
}

TEST_F(ContiguousSources, RangesEndInsideTheSource) {
  const auto source = open(ElementType::u8, 0, ReadWay::cached);
  EXPECT_THROW(source.visit_stored({bytes_.size(), 1}, [](const Descriptor&, Range) {}),
               ContractError);
  EXPECT_THROW(source.read_stored(0, bytes_.size() + 1, nullptr), ContractError);
}

}  // namespace
}  // namespace shardstream::io
