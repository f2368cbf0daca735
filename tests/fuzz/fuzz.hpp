// The interface of a fuzz target: it makes cases, each a function of a seed and a number, and runs
// them. The driver (driver.hpp) runs the cases in child processes and checks their ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace shardstream::fuzz {

/// The run_uuid of files that a target writes.
inline constexpr auto uuid = "11111111-2222-3333-4444-555555555555";

/// Random numbers that are the same everywhere for a seed, unlike the distributions of the
/// standard.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }
  /// From 0 to `count` - 1.
  std::uint64_t below(std::uint64_t count) { return engine_() % count; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class Items>
  const auto& pick(const Items& items) {
    return *std::next(std::begin(items), static_cast<std::ptrdiff_t>(below(std::size(items))));
  }

 private:
  std::mt19937_64 engine_;
};

/// The files of a case, by name: contents.
using Files = std::map<std::string, std::string>;

/// The allowed exit codes for errors of a target.
enum class Ends {
  usage,           ///< 2
  usage_or_failed  ///< 2 or 1
};

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;
  virtual Ends ends() const { return Ends::usage; }
  virtual Files make(Random& random) const = 0;
  /// Runs the case whose files are in the current folder. Exceptions of the program are passed on.
  virtual void run() const = 0;
};

// Each target creates its seeds in its own `folder`.
std::unique_ptr<Target> ini_target();
std::unique_ptr<Target> units_target();
std::unique_ptr<Target> selections_target();
std::unique_ptr<Target> journals_target(const std::filesystem::path& folder);
std::unique_ptr<Target> rates_target(const std::filesystem::path& folder);
std::unique_ptr<Target> studies_target(const std::filesystem::path& folder);
std::unique_ptr<Target> hdf5_target(const std::filesystem::path& folder);

/// Changes up to a few places of `bytes`: bits, bytes, numbers, pieces that move, vanish or repeat.
void mutate(std::string& bytes, Random& random);

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& bytes);

}  // namespace shardstream::fuzz
