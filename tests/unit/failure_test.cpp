// Messages and exit codes for exceptions.
#include "core/failure.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "core/error.hpp"
#include "support/errors.hpp"

namespace shardstream {
namespace {

using test::names;

TEST(Failures, OtherErrorsKeepTheirText) {
  EXPECT_EQ(message_of(UsageError("give -o")), "give -o");
  EXPECT_EQ(message_of(std::runtime_error("no")), "no");
}

TEST(Failures, OfTheStandardLibraryBecomeSentences) {
  const std::string memory = message_of(std::bad_alloc());
  EXPECT_EQ(memory.find("--pipeline"), memory.npos) << memory;
  EXPECT_TRUE(names(message_of(std::bad_alloc(), "use --x"), "--x"));
  EXPECT_EQ(message_of(std::length_error("vector::_M_default_append")), memory);
  const auto file = [](std::errc code) {
    return std::filesystem::filesystem_error("status", "/a/b", std::make_error_code(code));
  };
  const auto denied = file(std::errc::permission_denied),
             full = file(std::errc::no_space_on_device);
  EXPECT_TRUE(names(message_of(denied), "'/a/b'", "Permission denied"));
  EXPECT_EQ(message_of(denied).find("filesystem error"), std::string::npos);
  EXPECT_EQ(code_of(denied), ExitCode::usage);
  EXPECT_EQ(code_of(full), ExitCode::failed);
  EXPECT_EQ(code_of(std::bad_alloc()), ExitCode::failed);
  EXPECT_EQ(code_of(UsageError("give -o")), ExitCode::usage);
  EXPECT_TRUE(names(message_of(std::invalid_argument("stod")), "internal error", "stod"));
}

}  // namespace
}  // namespace shardstream
