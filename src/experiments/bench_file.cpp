#include "experiments/bench_file.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "core/uuid.hpp"
#include "io/output/temporary_files.hpp"
#include "ranks/signals.hpp"

namespace shardstream::experiments {
namespace {

constexpr std::uint64_t room = std::uint64_t{4} << 20;  // bytes for all tables

}  // namespace

void BenchFile::expect_destination() const {
  io::expect_destination(destination_, room);
}

/// Throws Error if another process has replaced the file.
void BenchFile::expect_own_file() const {
  std::error_code ignored;
  if (published_.empty() || destination_.overwrite != io::Overwrite::never ||
      !std::filesystem::exists(path(), ignored)) {
    return;
  }
  std::string found;
  try {
    found = io::ResultReader(path()).text("/", "run_uuid");
  } catch (const UsageError&) {
    // The file is no result file, so this run has not written it.
  }
  if (found == published_) return;
  throw Error(
      fmt::format("output.file: another process has replaced '{}' during this run: run again "
                  "with another output.file",
                  path().string()));
}

void BenchFile::publish(const std::function<void(io::ResultFile&)>& store) {
  const std::string uuid = random_uuid();
  const ranks::RemoveOnSignal remove({io::part_path_of(path(), uuid)});
  expect_own_file();
  io::Destination destination = destination_;
  if (!published_.empty() && destination.overwrite == io::Overwrite::never) {
    destination.overwrite = io::Overwrite::own;
  }
  io::ResultFile file(std::move(destination), uuid, room);
  store(file);
  expect_own_file();  // again, since another process may have replaced the file meanwhile
  file.publish();
  published_ = uuid;
}

}  // namespace shardstream::experiments
