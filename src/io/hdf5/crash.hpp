// libhdf5 crashes on some damaged files. Such a crash ends the process with one sentence that names
// the file; every other crash goes to the handler that was there before, or dumps core.
#pragma once

#include <chrono>
#include <string>

#include "core/error.hpp"

namespace shardstream::io::hdf5 {

/// What is being done with a file.
enum class Stage {
  opening,  ///< a crash ends with ExitCode::usage
  reading   ///< with ExitCode::failed
};

/// Names the file that this thread works on. While it lives, a crash of this thread while it holds
/// hdf5::Lock is reported as the file's fault. They nest: the innermost counts.
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

/// How the process ends after a crash inside HDF5.
struct CrashEnd {
  std::string prefix;              ///< of the sentence: "rank 3: "
  std::chrono::milliseconds wait;  ///< before the sentence, so that another rank may speak first
  void (*announce)();              ///< called first, async-signal-safe; may be null
  void (*end)(ExitCode);           ///< async-signal-safe, does not return; null: _exit(2)
};
/// For one thread, before others read files.
void set_crash_end(const CrashEnd& how);

/// Marks that this thread is inside HDF5. For hdf5::Lock alone, which is held meanwhile.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace shardstream::io::hdf5
