#include "core/limits.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>
#include <vector>

#include "core/descriptor.hpp"
#include "core/failure.hpp"
#include "support/errors.hpp"
#include "support/lowered_limit.hpp"

namespace shardstream {
namespace {

using test::LoweredLimit;
using test::names;

TEST(Limits, AreNamedAsAShellPrintsThem) {
  const LoweredLimit size(RLIMIT_FSIZE, rlim_t{8000} << 10);
  EXPECT_TRUE(names(file_size_limit(), "ulimit -f", "8000 KiB"));
  EXPECT_TRUE(names(errno_text(EFBIG), "ulimit -f", "8000 KiB"));
  EXPECT_FALSE(names(errno_text(ENOSPC), "ulimit"));
}

TEST(Limits, ThatAreNotSetAreNotNamed) {
  const LoweredLimit space(RLIMIT_AS, RLIM_INFINITY);
  EXPECT_EQ(address_space_limit(), "");
  EXPECT_FALSE(names(errno_text(ENOMEM), "ulimit"));
}

TEST(Limits, AWriteBeyondTheFileSizeIsAnError) {
  ignore_file_size_signal();
  std::FILE* const file = std::tmpfile();
  const Descriptor descriptor(::dup(fileno(file)));
  std::fclose(file);
  const std::vector<std::byte> data(8192);
  const LoweredLimit size(RLIMIT_FSIZE, 4096);
  EXPECT_FALSE(descriptor.write_at(0, data));
  EXPECT_EQ(errno, EFBIG);
}

TEST(Limits, OfMemoryAndThreadsAreInTheMessage) {
  // Far above the use of this process, so that nothing fails.
  const LoweredLimit space(RLIMIT_AS, rlim_t{1} << 60), threads(RLIMIT_NPROC, 10'000);
  const std::string memory = message_of(std::bad_alloc(), "use --pipeline.gpu-memory");
  EXPECT_TRUE(names(memory, "ulimit -v", "1125899906842624 KiB"));
  const std::string thread =
      message_of(std::system_error(EAGAIN, std::generic_category(), "thread"));
  EXPECT_TRUE(names(thread, "ulimit -v", "1125899906842624 KiB", "ulimit -u", 10000));
}

}  // namespace
}  // namespace shardstream
