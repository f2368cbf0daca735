#include "io/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "core/units.hpp"
#include "io/part_file.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// All journals of a result are read together: more is not this program's.
constexpr std::uint64_t max_journals_bytes = std::uint64_t{1} << 30;

/// Doubles stand in the journal as their bits: what is not finite comes back, too.
std::uint64_t bits(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

/// A line of a journal behind what `checksum` has seen so far.
std::string line_of(JournalChecksum& checksum, const std::string& json) {
  return fmt::format("{:016x} {}\n", checksum.add(json), json);
}

/// The text behind the checksum of a line; nothing if that is not what follows `before`.
std::optional<std::string_view> checked(std::string_view line, JournalChecksum& before) {
  constexpr std::size_t digits = 16;
  if (line.size() <= digits || line[digits] != ' ') return std::nullopt;
  const std::string_view json = line.substr(digits + 1);
  JournalChecksum with = before;
  if (fmt::format("{:016x}", with.add(json)) != line.substr(0, digits)) return std::nullopt;
  before = with;
  return json;
}

Json json_of(const FinishedTile& tile) {
  Json json = {{"tile", tile.tile},
               {"weighted", tile.weighted},
               {"squares", bits(tile.squares)},
               {"worst", bits(tile.worst)},
               {"smallest_caught", bits(tile.smallest_caught)},
               {"unchecked", tile.unchecked}};
  if (tile.group) json["group"] = *tile.group;
  return json;
}

Json json_of_group(std::uint64_t group) {
  return {{"group", group}};
}

/// A journal's first line; journal_start() is how it begins.
std::string head(const std::string& run, std::uint64_t rank, std::uint64_t ranks,
                 std::optional<std::uint64_t> offset, std::uint64_t restarts,
                 const Fingerprint& product) {
  Json json = {{"run", run},        {"rank", rank},         {"ranks", ranks},
               {"offset", nullptr}, {"restarts", restarts}, {"product", product}};
  if (offset) json["offset"] = *offset;
  return json.dump();
}

/// Throws Json::exception also for a number that is negative or no whole one.
std::uint64_t count(const Json& json, const char* name) {
  return json.at(name).get_ref<const Json::number_unsigned_t&>();
}

/// Throws Json::exception if a value is missing or of another type, Error if it cannot be: a tile
/// that is in a journal has passed its check.
FinishedTile tile_of(const Json& json) {
  const auto real = [&](const char* name) { return std::bit_cast<double>(count(json, name)); };
  FinishedTile tile{.tile = count(json, "tile"),
                    .weighted = count(json, "weighted"),
                    .squares = real("squares"),
                    .worst = real("worst"),
                    .smallest_caught = real("smallest_caught"),
                    .unchecked = count(json, "unchecked")};
  if (json.contains("group")) tile.group = count(json, "group");
  // The sum of squares of what is not finite may be anything but negative.
  if (!(tile.worst >= 0 && tile.worst <= 1) || tile.smallest_caught < 0 || tile.squares < 0) {
    throw Error("a finished tile has a value that cannot be");
  }
  return tile;
}

/// What the journals of one run say.
struct RunJournals {
  Checkpoint::Run run;
  std::uint64_t ranks = 0, restarts = 0;
  std::map<std::uint64_t, std::set<std::uint64_t>> ranks_of_groups;
  std::vector<FinishedTile> tiles;

  bool counts(const FinishedTile& tile) const {
    if (!tile.group) return true;
    const auto found = ranks_of_groups.find(*tile.group);
    return found != ranks_of_groups.end() && found->second.size() == ranks;
  }
};

/// Reads journals, one behind another.
class JournalReader {
 public:
  explicit JournalReader(const fs::path& result) : result_(result) {}

  void take(std::string_view journals) {
    while (!journals.empty()) {
      const std::size_t end = std::min(journals.find('\n'), journals.size());
      take_line(journals.substr(0, end));
      journals.remove_prefix(std::min(end + 1, journals.size()));
    }
  }

  const std::map<std::string, RunJournals>& runs() const { return runs_; }

 private:
  void take_line(std::string_view line) {
    JournalChecksum from_start;
    if (const auto head = checked(line, from_start)) {
      checksum_ = from_start;
      return take_json(*head, &JournalReader::take_head);
    }
    if (journal_ == nullptr) return;
    if (const auto json = checked(line, checksum_)) {
      take_json(*json, &JournalReader::take_entry);
    } else {
      journal_ = nullptr;  // until the next one's head
    }
  }

  void take_json(std::string_view text, void (JournalReader::*taker)(const Json&)) {
    try {
      (this->*taker)(Json::parse(text));
    } catch (const Json::exception&) {
      journal_ = nullptr;
    } catch (const Error&) {
      journal_ = nullptr;
    }
  }

  void take_head(const Json& json) {
    journal_ = nullptr;
    const auto uuid = json.at("run").get<std::string>();
    RunJournals journals;
    journals.run.part = part_path_of(result_, uuid);
    if (!json.at("offset").is_null()) journals.run.offset = count(json, "offset");
    journals.run.fingerprint = json.at("product").get<Fingerprint>();
    journals.ranks = count(json, "ranks");
    journals.restarts = count(json, "restarts");
    rank_ = count(json, "rank");
    if (rank_ >= journals.ranks) throw Error("a rank is not one of its run's");
    RunJournals& known = runs_.try_emplace(uuid, journals).first->second;
    if (known.ranks != journals.ranks || known.run.offset != journals.run.offset ||
        known.run.fingerprint != journals.run.fingerprint) {
      throw Error("the journals of a run differ");
    }
    journal_ = &known;
  }

  void take_entry(const Json& json) {
    if (json.contains("weighted")) {
      journal_->tiles.push_back(tile_of(json));
    } else {
      journal_->ranks_of_groups[count(json, "group")].insert(rank_);
    }
  }

  fs::path result_;
  std::map<std::string, RunJournals> runs_;
  RunJournals* journal_ = nullptr;  // the one that lines belong to; none behind a damaged line
  JournalChecksum checksum_;        // of its lines so far
  std::uint64_t rank_ = 0;
};

/// The whole lines of a journal; nothing if it cannot be read.
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

/// The files of each run that has a journal; others have finished nothing.
std::map<std::string, std::vector<RunFile>> files_by_run(const fs::path& result) {
  std::map<std::string, std::vector<RunFile>> runs;
  for (const RunFile& file : run_files_beside(result)) runs[file.uuid].push_back(file);
  std::erase_if(runs, [](const auto& run) {
    return std::ranges::none_of(
        run.second, [](const RunFile& file) { return file.kind == RunFile::Kind::journal; });
  });
  return runs;
}

/// What the files of one run say, each opened once.
struct Seen {
  std::string journals = {};
  bool has_part = false, is_alive = false, has_locks = true;
  std::vector<fs::path> paths = {};
  std::vector<Descriptor> files = {};
  std::vector<std::string> warnings = {};
};
Seen look_at_run(std::span<const RunFile> files, Locking locking) {
  using Writer = OpenedRunFile::Writer;
  Seen seen;
  for (const RunFile& file : files) {
    OpenedRunFile opened = open_run_file(file, locking);
    if (opened.writer == Writer::foreign) {
      seen.warnings.push_back(
          fmt::format("'{}' is ignored: it has the name of a run's file, but {}",
                      file.path.string(), opened.problem));
    }
    if (!opened.file.valid()) continue;
    // The rank that made the part file may have ended before others.
    seen.is_alive = seen.is_alive || opened.writer == Writer::alive;
    seen.has_locks = seen.has_locks && opened.writer != Writer::unknown;
    if (file.kind == RunFile::Kind::journal) {
      seen.journals += whole_lines(opened.file);
    } else {
      seen.has_part = true;
    }
    seen.paths.push_back(file.path);
    seen.files.push_back(std::move(opened.file));
  }
  return seen;
}

/// As a journal's first line has it.
Fingerprint as_stored(Fingerprint fingerprint, bool stored) {
  fingerprint.emplace_back("output.store", stored ? "true" : "false");
  for (auto& [name, value] : fingerprint) value = printable(value);
  return fingerprint;
}

/// Throws UsageError naming the first value in which `then` is not `now`.
void expect_same(const Fingerprint& then, const Fingerprint& now, std::size_t tiles) {
  const auto fail = [&](const std::string& difference) {
    throw UsageError(fmt::format(
        "an interrupted run of the same output.file has left a checkpoint of {} tile{}, but of "
        "another product ({}): choose another output.file, or pass --output.resume never, which "
        "removes the checkpoint and starts over",
        tiles, tiles == 1 ? "" : "s", difference));
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

// ---------------------------------------------------------------- written

Journal::Journal(const fs::path& result, const std::string& uuid, int rank, int ranks,
                 const RangeWriter* matrix, Log& log, std::function<void()> on_checkpoint)
    : path_(journal_path_of(result, uuid, rank)),
      run_(uuid),
      rank_(rank),
      ranks_(ranks),
      log_(log),
      on_checkpoint_(std::move(on_checkpoint)) {
  if (matrix == nullptr) return;
  offset_ = matrix->offset();
}

void Journal::begin(Fingerprint fingerprint, const Checkpoint* earlier, std::uint64_t tiles,
                    std::uint64_t groups) {
  expect(!begun_, "a journal is begun once");
  if (earlier != nullptr) {
    expect_same_product(*earlier, fingerprint, offset_.has_value(), {});
    restarts_ = earlier->restarts + 1;
  }
  const std::uint64_t bytes =
      std::min(journal_bytes(fingerprint, tiles, groups), max_journal_bytes);
  fingerprint = as_stored(std::move(fingerprint), offset_.has_value());
  begun_ = true;
  {
    const std::lock_guard lock(mutex_);
    file_ = Descriptor(path_, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, private_mode);
    if (!file_.valid()) {
      give_up("make", errno_text(errno));
    } else {
      lock_as_writer(file_);
      reserve_room(file_, path_, bytes);
      append(head(run_, static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(ranks_),
                  offset_, restarts_, fingerprint));
    }
  }
  if (earlier != nullptr) tell();
}

void Journal::add(const FinishedTile& tile) {
  expect(begun_, "a journal is begun before tiles are added");
  const std::string json = json_of(tile).dump();
  const std::lock_guard lock(mutex_);
  append(json);
}

void Journal::add_group(std::uint64_t group) {
  expect(begun_, "a journal is begun before groups are added");
  const std::string json = json_of_group(group).dump();
  {
    const std::lock_guard lock(mutex_);
    append(json);
    if (!file_.valid()) return;
  }
  tell();
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
  // A line that is there in part would not count anyway.
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

void Journal::tell() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(told_, true)) return;
  }
  on_checkpoint_();
}

// ---------------------------------------------------------------- read

EarlierRuns::EarlierRuns(const fs::path& result) : result_(result) {
  for (const auto& [uuid, files] : files_by_run(result)) look_at(files);
}

void EarlierRuns::look_at(std::span<const RunFile> files) {
  Seen seen = look_at_run(files, Locking::take);
  warnings_.insert(warnings_.end(), seen.warnings.begin(), seen.warnings.end());
  contested_ = contested_ || seen.is_alive;
  if (seen.is_alive) return;
  const bool fits = journals_.size() + seen.journals.size() <= max_journals_bytes;
  if (seen.has_part && fits && parse_checkpoint(result_, seen.journals)) {
    journals_ += seen.journals;
    runs_.push_back({std::move(seen.paths), std::move(seen.files)});
  } else if (seen.has_locks || !seen.has_part) {
    for (const fs::path& path : seen.paths) ::unlink(path.c_str());
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
  std::map<std::uint64_t, Checkpoint::Tile> tiles;
  for (const auto& [uuid, of_run] : reader.runs()) {
    const std::size_t number = checkpoint.runs.size();
    for (const FinishedTile& tile : of_run.tiles) {
      if (of_run.counts(tile)) tiles.try_emplace(tile.tile, Checkpoint::Tile{tile, number});
    }
    checkpoint.runs.push_back(of_run.run);
    checkpoint.restarts = std::max(checkpoint.restarts, of_run.restarts);
  }
  if (tiles.empty()) return std::nullopt;
  for (const auto& [tile, finished] : tiles) checkpoint.tiles.push_back(finished);
  return checkpoint;
}

Remains look_for_remains(const fs::path& result) {
  Remains remains;
  std::string journals;
  for (const auto& [uuid, files] : files_by_run(result)) {
    const Seen seen = look_at_run(files, Locking::leave);
    remains.warnings.insert(remains.warnings.end(), seen.warnings.begin(), seen.warnings.end());
    remains.contested = remains.contested || seen.is_alive;
    if (seen.has_part) journals += seen.journals;
  }
  remains.checkpoint = parse_checkpoint(result, journals);
  return remains;
}

bool has_finished_tiles(const fs::path& result, const std::string& uuid) {
  const auto runs = files_by_run(result);
  const auto run = runs.find(uuid);
  if (run == runs.end()) return false;
  const Seen seen = look_at_run(run->second, Locking::leave);
  return seen.has_part && parse_checkpoint(result, seen.journals).has_value();
}

void expect_same_product(const Checkpoint& earlier, const Fingerprint& now, bool stored,
                         std::span<const std::string_view> unknown) {
  const auto known = [&](Fingerprint fingerprint) {
    std::erase_if(fingerprint, [&](const auto& value) {
      return std::ranges::find(unknown, value.first) != unknown.end();
    });
    return fingerprint;
  };
  const Fingerprint is = known(as_stored(now, stored));
  for (const auto& run : earlier.runs) {
    expect_same(known(run.fingerprint), is, earlier.tiles.size());
  }
}

std::uint64_t journal_bytes(const Fingerprint& product, std::uint64_t tiles, std::uint64_t groups) {
  const auto length = [](const std::string& json) {
    JournalChecksum any;
    return line_of(any, json).size();
  };
  constexpr std::uint64_t max = UINT64_MAX;
  const auto widest = std::bit_cast<double>(max);
  const std::uint64_t tile = length(json_of({.tile = max,
                                             .group = max,
                                             .weighted = max,
                                             .squares = widest,
                                             .worst = widest,
                                             .smallest_caught = widest,
                                             .unchecked = max})
                                        .dump());
  const std::string uuid(36, '0');
  return length(head(uuid, max, max, max, max, as_stored(product, true))) + tiles * tile +
         groups * length(json_of_group(max).dump());
}

void remove_journals(const fs::path& result, const std::string& uuid) {
  for (const RunFile& file : run_files_beside(result)) {
    if (file.kind == RunFile::Kind::journal && file.uuid == uuid) ::unlink(file.path.c_str());
  }
}

CheckpointReader::CheckpointReader(const Checkpoint& checkpoint, std::uint64_t columns,
                                   std::uint64_t element)
    : checkpoint_(checkpoint), columns_(columns), element_(element) {
  for (const auto& run : checkpoint.runs) {
    const RunFile part{.path = run.part, .uuid = {}, .kind = RunFile::Kind::part};
    parts_.push_back(run.offset ? open_run_file(part, Locking::leave).file : Descriptor());
  }
}

bool CheckpointReader::read(const Checkpoint::Tile& tile, Range rows, Range columns, std::byte* out,
                            std::size_t pitch) const {
  const Checkpoint::Run& run = checkpoint_.runs.at(tile.run);
  const Descriptor& part = parts_.at(tile.run);
  if (!part.valid()) return false;
  expect(columns.first <= columns_ && columns.count <= columns_ - columns.first,
         "a rectangle ends inside its matrix");
  const std::uint64_t row_bytes = columns.count * element_;
  const std::uint64_t end = saturating_product(rows.end(), columns_ * element_);
  if (*run.offset > INT64_MAX || end > INT64_MAX - *run.offset) return false;  // no file's
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    const std::uint64_t element = (rows.first + row) * columns_ + columns.first;
    const std::int64_t got =
        part.read_at(*run.offset + element * element_, out + row * pitch, row_bytes);
    if (got != static_cast<std::int64_t>(row_bytes)) return false;
  }
  return true;
}

}  // namespace shardstream::io
