#include "io/output/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/output/part_file.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The maximum size of all journals of a result together; more cannot come from this program.
constexpr std::uint64_t max_journals_bytes = std::uint64_t{1} << 30;

/// The line of a journal for `json`. `checksum` has all earlier lines.
std::string line_of(JournalChecksum& checksum, const std::string& json) {
  return fmt::format("{:016x} {}\n", checksum.add(json), json);
}

/// The text after the checksum of a line; nothing if the checksum does not match after `before`.
std::optional<std::string_view> checked(std::string_view line, JournalChecksum& before) {
  constexpr std::size_t digits = 16;
  if (line.size() <= digits || line[digits] != ' ') return std::nullopt;
  const std::string_view json = line.substr(digits + 1);
  JournalChecksum with = before;
  if (fmt::format("{:016x}", with.add(json)) != line.substr(0, digits)) return std::nullopt;
  before = with;
  return json;
}

std::string text_of(const FinishedPiece& piece) {
  Json json = {{"piece", piece.number}, {"record", piece.record}};
  if (piece.group) json["group"] = *piece.group;
  return json.dump();
}

std::string text_of_group(std::uint64_t group) {
  return Json{{"group", group}}.dump();
}

/// The first line of a journal; it begins with journal_start().
std::string head(const std::string& run, std::uint64_t rank, std::uint64_t ranks,
                 const std::vector<std::uint64_t>& offsets, std::uint64_t restarts,
                 const Fingerprint& fingerprint) {
  return Json{{"run", run},         {"rank", rank},         {"ranks", ranks},
              {"offsets", offsets}, {"restarts", restarts}, {"fingerprint", fingerprint}}
      .dump();
}

/// Throws Json::exception also if the number is negative or not an integer.
std::uint64_t count(const Json& json) {
  return json.get_ref<const Json::number_unsigned_t&>();
}

/// Throws Json::exception if a value is missing or of another type.
FinishedPiece piece_of(const Json& json) {
  FinishedPiece piece{.number = count(json.at("piece"))};
  for (const Json& value : json.at("record")) piece.record.push_back(count(value));
  if (json.contains("group")) piece.group = count(json.at("group"));
  return piece;
}

/// The contents of the journals of one run.
struct RunJournals {
  Checkpoint::Run run;
  std::uint64_t ranks = 0, restarts = 0;
  std::map<std::uint64_t, std::set<std::uint64_t>> ranks_of_groups;
  std::vector<FinishedPiece> pieces;

  bool counts(const FinishedPiece& piece) const {
    if (!piece.group) return true;
    const auto found = ranks_of_groups.find(*piece.group);
    return found != ranks_of_groups.end() && found->second.size() == ranks;
  }
};

/// Reads journals, one after another.
class JournalReader {
 public:
  explicit JournalReader(const fs::path& result) : result_(result) {}

  void take(std::string_view journals) {
    for (const auto line : std::views::split(journals, '\n')) {
      try {
        take_line({line.begin(), line.end()});
      } catch (const Json::exception&) {
        journal_ = nullptr;
      }
    }
  }

  const std::map<std::string, RunJournals>& runs() const { return runs_; }

 private:
  void take_line(std::string_view line) {
    JournalChecksum from_start;
    if (const auto head = checked(line, from_start)) {
      checksum_ = from_start;
      journal_ = nullptr;
      take_head(Json::parse(*head));
    } else if (journal_ != nullptr) {
      const auto entry = checked(line, checksum_);
      if (entry) {
        take_entry(Json::parse(*entry));
      } else {
        journal_ = nullptr;  // until the first line of the next journal
      }
    }
  }

  void take_head(const Json& json) {
    const auto uuid = json.at("run").get<std::string>();
    RunJournals journals;
    journals.run.part = part_path_of(result_, uuid);
    for (const Json& offset : json.at("offsets")) journals.run.offsets.push_back(count(offset));
    journals.run.fingerprint = json.at("fingerprint").get<Fingerprint>();
    journals.ranks = count(json.at("ranks"));
    journals.restarts = count(json.at("restarts"));
    rank_ = count(json.at("rank"));
    if (rank_ >= journals.ranks) return;
    RunJournals& known = runs_.try_emplace(uuid, journals).first->second;
    if (known.ranks == journals.ranks && known.run.offsets == journals.run.offsets &&
        known.run.fingerprint == journals.run.fingerprint) {
      journal_ = &known;
    }
  }

  void take_entry(const Json& json) {
    if (json.contains("piece")) {
      journal_->pieces.push_back(piece_of(json));
    } else {
      journal_->ranks_of_groups[count(json.at("group"))].insert(rank_);
    }
  }

  fs::path result_;
  std::map<std::string, RunJournals> runs_;
  RunJournals* journal_ = nullptr;  // that of the current line; null after a damaged line
  JournalChecksum checksum_;        // of its lines so far
  std::uint64_t rank_ = 0;
};

/// The complete lines of a journal; nothing if it cannot be read.
std::string whole_lines(const Descriptor& journal) {
  struct stat status {};
  if (::fstat(journal.get(), &status) != 0) return {};
  // It may still grow.
  std::string text(std::min(static_cast<std::uint64_t>(status.st_size), max_journal_bytes), '\0');
  const auto got = journal.read_at(0, reinterpret_cast<std::byte*>(text.data()), text.size());
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

/// The files of each run with a journal. Runs without one have no finished pieces.
std::map<std::string, std::vector<TemporaryFile>> files_by_run(const fs::path& result) {
  std::map<std::string, std::vector<TemporaryFile>> runs;
  for (const TemporaryFile& file : temporary_files_of(result)) runs[file.uuid].push_back(file);
  std::erase_if(runs, [](const auto& run) {
    return std::ranges::none_of(run.second, [](const TemporaryFile& file) {
      return file.kind == TemporaryFile::Kind::journal;
    });
  });
  return runs;
}

/// The contents of the files of one run, each opened once.
struct InspectedRun {
  std::string journals = {};
  bool has_part = false, is_alive = false, has_locks = true;
  std::vector<fs::path> paths = {};
  std::vector<Descriptor> files = {};
  std::vector<std::string> warnings = {};
};
InspectedRun inspect_run(std::span<const TemporaryFile> files, Locking locking) {
  using Writer = OpenedTemporaryFile::Writer;
  InspectedRun inspected;
  for (const TemporaryFile& file : files) {
    OpenedTemporaryFile opened = open_temporary_file(file, locking);
    if (opened.writer == Writer::foreign) {
      inspected.warnings.push_back(
          fmt::format("'{}' is ignored: it has a name like a file of a run, but {}",
                      file.path.string(), opened.problem));
    }
    if (!opened.file.valid()) continue;
    // The rank that made the part file may have ended before others.
    inspected.is_alive = inspected.is_alive || opened.writer == Writer::alive;
    inspected.has_locks = inspected.has_locks && opened.writer != Writer::unknown;
    if (file.kind == TemporaryFile::Kind::journal) {
      inspected.journals += whole_lines(opened.file);
    } else {
      inspected.has_part = true;
    }
    inspected.paths.push_back(file.path);
    inspected.files.push_back(std::move(opened.file));
  }
  return inspected;
}

/// In the format of a journal's first line.
Fingerprint as_stored(Fingerprint fingerprint, bool stored) {
  fingerprint.emplace_back("output.store", stored ? "true" : "false");
  for (auto& [name, value] : fingerprint) value = printable(value);
  return fingerprint;
}

/// Throws UsageError with the first value in which `then` differs from `now`.
void expect_same(const Fingerprint& then, const Fingerprint& now, std::size_t pieces) {
  const auto fail = [&](const std::string& difference) {
    throw UsageError(fmt::format(
        "an interrupted run of the same output.file has left a checkpoint of {} finished piece{}, "
        "but of another computation ({}): choose another output.file, or pass --output.resume "
        "never, which removes the checkpoint and starts over",
        pieces, pieces == 1 ? "" : "s", difference));
  };
  const std::pair<std::string, std::string> none = {"nothing more", ""};
  for (std::size_t i = 0; i < std::max(then.size(), now.size()); ++i) {
    const auto& [name_then, was] = i < then.size() ? then[i] : none;
    const auto& [name_now, is] = i < now.size() ? now[i] : none;
    if (name_then != name_now) {  // another version of this program, or another workload
      fail(fmt::format("{} was {}, and {} is {}", name_then, excerpt(was), name_now, excerpt(is)));
    }
    if (was != is) fail(fmt::format("{} was {} and is {}", name_now, excerpt(was), excerpt(is)));
  }
}

}  // namespace

std::uint64_t JournalChecksum::add(std::string_view json) {
  crc_.process_bytes(json.data(), json.size());
  return crc_.checksum();
}

// ---------------------------------------------------------------- writing

Journal::Journal(const fs::path& result, const std::string& uuid, int rank, int ranks,
                 std::span<const RangeWriter> matrices, Log& log,
                 std::function<void()> on_checkpoint)
    : path_(journal_path_of(result, uuid, rank)),
      run_(uuid),
      rank_(rank),
      ranks_(ranks),
      log_(log),
      on_checkpoint_(std::move(on_checkpoint)) {
  for (const RangeWriter& matrix : matrices) offsets_.push_back(matrix.offset());
}

void Journal::begin(Fingerprint fingerprint, const Checkpoint* earlier,
                    const JournalExtent& extent) {
  expect(!begun_, "a journal is begun once");
  if (earlier != nullptr) {
    expect_same_computation(*earlier, fingerprint, !offsets_.empty(), {});
    restarts_ = earlier->restarts + 1;
  }
  const std::uint64_t bytes = std::min(journal_bytes(fingerprint, extent), max_journal_bytes);
  fingerprint = as_stored(std::move(fingerprint), !offsets_.empty());
  begun_ = true;
  {
    const std::lock_guard lock(mutex_);
    file_ = Descriptor(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, private_mode);
    if (!file_.valid()) {
      give_up("make", errno_text(errno));
    } else {
      lock_as_writer(file_);
      reserve_room(file_, {path_, Contents::result}, bytes);
      append(head(run_, static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(ranks_),
                  offsets_, restarts_, fingerprint));
    }
  }
  if (earlier != nullptr) report_checkpoint();
}

void Journal::add(const FinishedPiece& piece) {
  expect(begun_, "a journal is begun before pieces are added");
  const std::string json = text_of(piece);
  const std::lock_guard lock(mutex_);
  append(json);
}

void Journal::add_group(std::uint64_t group) {
  expect(begun_, "a journal is begun before groups are added");
  const std::string json = text_of_group(group);
  {
    const std::lock_guard lock(mutex_);
    append(json);
    if (!file_.valid()) return;
  }
  report_checkpoint();
}

bool Journal::sync() {
  const std::lock_guard lock(mutex_);
  if (!file_.valid()) return false;
  if (::fdatasync(file_.get()) == 0) return true;
  give_up("sync", errno_text(errno));
  return false;
}

void Journal::append(const std::string& json) {
  if (!file_.valid()) return;
  const std::string line = line_of(checksum_, json);
  if (bytes_ + line.size() > max_journal_bytes) {
    return give_up("extend", fmt::format("it would exceed {}", format_size(max_journal_bytes)));
  }
  if (file_.write_at(bytes_, std::as_bytes(std::span(line)))) {
    bytes_ += line.size();
    return;
  }
  const int error = errno;
  // An incomplete line is ignored anyway.
  [[maybe_unused]] const int result = ::ftruncate(file_.get(), static_cast<off_t>(bytes_));
  give_up("write", errno_text(error));
}

void Journal::give_up(const std::string& what, const std::string& reason) {
  log_.warn(fmt::format(
      "cannot {} '{}' ({}): the run continues, but what it finishes from now on is lost "
      "if it is interrupted",
      what, path_.string(), reason));
  file_ = {};
}

void Journal::report_checkpoint() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(reported_, true)) return;
  }
  on_checkpoint_();
}

// ---------------------------------------------------------------- reading

EarlierRuns::EarlierRuns(const fs::path& result) : result_(result) {
  for (const auto& [uuid, files] : files_by_run(result)) inspect(files);
}

void EarlierRuns::inspect(std::span<const TemporaryFile> files) {
  InspectedRun inspected = inspect_run(files, Locking::take);
  warnings_.insert(warnings_.end(), inspected.warnings.begin(), inspected.warnings.end());
  contested_ = contested_ || inspected.is_alive;
  if (inspected.is_alive) return;
  const bool fits = journals_.size() + inspected.journals.size() <= max_journals_bytes;
  if (inspected.has_part && fits && parse_checkpoint(result_, inspected.journals)) {
    journals_ += inspected.journals;
    runs_.push_back({std::move(inspected.paths), std::move(inspected.files)});
  } else if (inspected.has_locks || !inspected.has_part) {
    for (const fs::path& path : inspected.paths) ::unlink(path.c_str());
  }
}

void EarlierRuns::remove() {
  for (const Run& run : runs_) {
    for (const fs::path& path : run.paths) ::unlink(path.c_str());
  }
  runs_.clear();
}

std::optional<Checkpoint> parse_checkpoint(const fs::path& result, const std::string& journals) {
  JournalReader reader(result);
  reader.take(journals);
  Checkpoint checkpoint;
  std::map<std::uint64_t, Checkpoint::RunPiece> pieces;
  for (const auto& [uuid, of_run] : reader.runs()) {
    const std::size_t number = checkpoint.runs.size();
    for (const FinishedPiece& piece : of_run.pieces) {
      if (of_run.counts(piece))
        pieces.try_emplace(piece.number, Checkpoint::RunPiece{piece, number});
    }
    checkpoint.runs.push_back(of_run.run);
    checkpoint.restarts = std::max(checkpoint.restarts, of_run.restarts);
  }
  if (pieces.empty()) return std::nullopt;
  for (const auto& [number, piece] : pieces) checkpoint.pieces.push_back(piece);
  return checkpoint;
}

FoundCheckpoint find_checkpoint(const fs::path& result) {
  FoundCheckpoint found;
  std::string journals;
  for (const auto& [uuid, files] : files_by_run(result)) {
    const InspectedRun inspected = inspect_run(files, Locking::leave);
    found.warnings.insert(found.warnings.end(), inspected.warnings.begin(),
                          inspected.warnings.end());
    found.contested = found.contested || inspected.is_alive;
    if (inspected.has_part) journals += inspected.journals;
  }
  found.checkpoint = parse_checkpoint(result, journals);
  return found;
}

bool has_finished_pieces(const fs::path& result, const std::string& uuid) {
  const auto runs = files_by_run(result);
  const auto run = runs.find(uuid);
  if (run == runs.end()) return false;
  const InspectedRun inspected = inspect_run(run->second, Locking::leave);
  return inspected.has_part && parse_checkpoint(result, inspected.journals).has_value();
}

void expect_same_computation(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                             std::span<const std::string_view> unknown) {
  const auto known = [&](Fingerprint fingerprint) {
    std::erase_if(fingerprint, [&](const auto& value) {
      return std::ranges::find(unknown, value.first) != unknown.end();
    });
    return fingerprint;
  };
  const Fingerprint is = known(as_stored(now, stored));
  for (const auto& run : earlier.runs) {
    expect_same(known(run.fingerprint), is, earlier.pieces.size());
  }
}

std::uint64_t journal_bytes(const Fingerprint& fingerprint, const JournalExtent& extent) {
  const auto length = [](const std::string& json) {
    JournalChecksum any;
    return line_of(any, json).size();
  };
  constexpr std::uint64_t max = UINT64_MAX;
  const std::string uuid(36, '0');
  const FinishedPiece widest{max, max, std::vector<std::uint64_t>(extent.record, max)};
  const std::vector<std::uint64_t> offsets(extent.matrices, max);
  return length(head(uuid, max, max, offsets, max, as_stored(fingerprint, true))) +
         extent.pieces * length(text_of(widest)) + extent.groups * length(text_of_group(max)) +
         extent.numbers * fmt::format(",{}", max).size();
}

void remove_journals(const fs::path& result, const std::string& uuid) {
  for (const TemporaryFile& file : temporary_files_of(result)) {
    if (file.kind == TemporaryFile::Kind::journal && file.uuid == uuid) ::unlink(file.path.c_str());
  }
}

}  // namespace shardstream::io
