// libhdf5 crashes on some damaged files. Such a crash ends the process with one sentence that names
// the file. Every other crash goes to the previous handler, or dumps core.
#pragma once

#include <chrono>
#include <string>

#include "core/error.hpp"

namespace shardstream::io::hdf5 {

/// The current work on a file, which determines the exit code after a crash.
enum class Stage {
  opening,  ///< ExitCode::usage
  reading   ///< ExitCode::failed
};

/// Names the file that this thread works on. While an object of this class lives, a crash of this
/// thread inside hdf5::Lock is reported as an error of the file. Objects nest; the innermost one
/// applies.
class AtWork {
 public:
  AtWork(const std::string& file, Stage stage);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

  const std::string& file() const { return file_; }  ///< printable
  Stage stage() const { return stage_; }

 private:
  std::string file_;
  Stage stage_;
  const AtWork* outer_;
};

/// The end of the process after a crash inside HDF5.
struct CrashEnd {
  std::string prefix;              ///< of the sentence: "rank 3: "
  std::chrono::milliseconds wait;  ///< before the sentence, so that another rank can print first
  void (*announce)();              ///< called first, async-signal-safe; may be null
  void (*end)(ExitCode);           ///< async-signal-safe, does not return; null: _exit(2)
};
/// Not thread-safe: call it before other threads read files.
void set_crash_end(const CrashEnd& how);

/// Marks that this thread is inside HDF5. Only hdf5::Lock uses it.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace shardstream::io::hdf5
