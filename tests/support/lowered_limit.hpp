// A limit of the process (setrlimit) for the duration of a test.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace shardstream::test {

/// Lowers one soft limit of this process during its lifetime.
class LoweredLimit {
 public:
  LoweredLimit(decltype(RLIMIT_AS) resource, rlim_t value) : resource_(resource) {
    getrlimit(resource, &before_);
    const rlimit limit{value, before_.rlim_max};
    EXPECT_EQ(setrlimit(resource, &limit), 0);
  }
  ~LoweredLimit() { setrlimit(resource_, &before_); }
  LoweredLimit(const LoweredLimit&) = delete;
  LoweredLimit& operator=(const LoweredLimit&) = delete;

 private:
  decltype(RLIMIT_AS) resource_;
  rlimit before_{};
};

}  // namespace shardstream::test
