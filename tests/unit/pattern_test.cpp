// Names with wildcards, and the files that they stand for.
#include "io/source/joined/pattern.hpp"

#include <filesystem>
#include <fstream>

#include "support/errors.hpp"
#include "support/temporary_folder.hpp"

namespace shardstream::io {
namespace {

using test::error_of;
using test::names;

class Patterns : public testing::Test {
 protected:
  void make(std::initializer_list<const char*> files) {
    for (const char* const file : files) std::ofstream(folder_ / file) << "x";
  }
  /// The matching files, without their folder.
  std::vector<std::string> matches(const std::string& pattern) {
    std::vector<std::string> files = matching_files(folder_ / pattern);
    for (std::string& file : files) file = file.substr(folder_.path().string().size() + 1);
    return files;
  }

  test::TemporaryFolder folder_;
};

using Files = std::vector<std::string>;

TEST_F(Patterns, GiveFilesInTheOrderOfBytes) {
  make({"a10.h5", "a2.h5", "B.h5", "a\xc3\xa9.h5", "_.h5", "a1.nc"});
  EXPECT_EQ(matches("*.h5"), (Files{"B.h5", "_.h5", "a10.h5", "a2.h5", "a\xc3\xa9.h5"}));
  EXPECT_EQ(matches("a?.h5"), (Files{"a2.h5"}));
  EXPECT_EQ(matches("a[0-9]*"), (Files{"a1.nc", "a10.h5", "a2.h5"}));
  EXPECT_EQ(matches("[!a]*"), (Files{"B.h5", "_.h5"}));
}

TEST_F(Patterns, LeaveOutFoldersAndHiddenFiles) {
  make({"a.h5", ".b.h5"});
  std::filesystem::create_directories(folder_ / "c.h5");
  std::ofstream(folder_ / "c.h5/d.h5") << "x";
  EXPECT_EQ(matches("*"), (Files{"a.h5"}));
  EXPECT_EQ(matches("*/*.h5"), (Files{"c.h5/d.h5"}));
}

TEST_F(Patterns, AreNotTheNamesOfExistingFiles) {
  make({"a[1].h5", "a1.h5"});
  EXPECT_FALSE(is_pattern(folder_ / "a[1].h5"));
  EXPECT_FALSE(is_pattern(folder_ / "a1.h5"));
  EXPECT_FALSE(is_pattern(folder_ / "none.h5"));
  EXPECT_TRUE(is_pattern(folder_ / "a[12].h5"));
  EXPECT_TRUE(is_pattern(folder_ / "a?.h5"));
  EXPECT_TRUE(is_pattern(folder_ / "a*.h5"));
  EXPECT_EQ(matches("a\\[1].h5"), (Files{"a[1].h5"}));
}

TEST_F(Patterns, WithoutAnyFileAreAnError) {
  make({"a.h5"});
  for (const char* const pattern : {"b*.h5", "none/*.h5", "*/*.h5", "[a.h5"}) {
    const std::string name = folder_ / pattern;
    EXPECT_TRUE(names(error_of([&] { matching_files(name); }), name)) << pattern;
  }
}

}  // namespace
}  // namespace shardstream::io
