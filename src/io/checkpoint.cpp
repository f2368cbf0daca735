#include "io/checkpoint.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/text.hpp"
#include "io/part_file.hpp"

namespace shardstream::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Doubles stand in the journal as their bits: what is not finite comes back, too.
std::uint64_t bits(double x) {
  return std::bit_cast<std::uint64_t>(x);
}

std::string line_of(const Json& json) {
  return json.dump() + '\n';
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

std::uint64_t count(const Json& json, const char* name) {
  return json.at(name).get<std::uint64_t>();
}

FinishedTile tile_of(const Json& json) {
  const auto real = [&](const char* name) { return std::bit_cast<double>(count(json, name)); };
  FinishedTile tile{.tile = count(json, "tile"),
                    .weighted = count(json, "weighted"),
                    .squares = real("squares"),
                    .worst = real("worst"),
                    .smallest_caught = real("smallest_caught"),
                    .unchecked = count(json, "unchecked")};
  if (json.contains("group")) tile.group = count(json, "group");
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

/// Reads journals that stand behind one another.
class JournalReader {
 public:
  explicit JournalReader(const fs::path& result) : result_(result) {}

  void take(const std::string& journals) {
    for (const std::string_view line : split(journals, '\n')) {
      const Json json = Json::parse(line, nullptr, false);
      try {
        if (json.is_object() && json.contains("run")) {
          take_head(json);
        } else if (journal_ != nullptr && json.contains("weighted")) {
          journal_->tiles.push_back(tile_of(json));
        } else if (journal_ != nullptr) {
          journal_->ranks_of_groups[count(json, "group")].insert(rank_);
        }
      } catch (const Json::exception&) {
        journal_ = nullptr;  // until the next one's head
      }
    }
  }

  const std::map<std::string, RunJournals>& runs() const { return runs_; }

 private:
  void take_head(const Json& json) {
    journal_ = nullptr;
    const auto uuid = json.at("run").get<std::string>();
    RunJournals journals;
    journals.run.part = part_path_of(result_, uuid);
    if (!json.at("offset").is_null()) journals.run.offset = count(json, "offset");
    journals.run.columns = count(json, "columns");
    journals.run.element = count(json, "element");
    journals.run.fingerprint = json.at("product").get<Fingerprint>();
    journals.ranks = count(json, "ranks");
    journals.restarts = json.value("restarts", std::uint64_t{0});
    rank_ = count(json, "rank");
    journal_ = &runs_.try_emplace(uuid, std::move(journals)).first->second;
  }

  fs::path result_;
  std::map<std::string, RunJournals> runs_;
  RunJournals* journal_ = nullptr;  // the one that lines belong to; none behind a broken line
  std::uint64_t rank_ = 0;
};

/// The whole lines of a file; nothing if it cannot be read.
std::string whole_lines(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

std::vector<fs::path> journals_of(const fs::path& result, const std::string& uuid) {
  std::vector<fs::path> paths;
  for (const std::string& middle : middles_beside(result, "checkpoint", 1)) {
    if (!middle.starts_with(uuid + ".")) continue;
    paths.push_back(result.parent_path() /
                    fmt::format(".{}.{}.checkpoint", result.filename().string(), middle));
  }
  return paths;
}

std::string read_journals(const fs::path& result, const std::string& uuid) {
  std::string text;
  for (const fs::path& journal : journals_of(result, uuid)) text += whole_lines(journal);
  return text;
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
        "removes the checkpoint and begins anew",
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

fs::path journal_path_of(const fs::path& result, const std::string& uuid, int rank) {
  return result.parent_path() /
         fmt::format(".{}.{}.{}.checkpoint", result.filename().string(), uuid, rank);
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
  columns_ = matrix->columns();
  element_ = size_of(matrix->type());
}

void Journal::begin(Fingerprint fingerprint, const Checkpoint* earlier) {
  expect(!begun_, "a journal is begun once");
  if (earlier != nullptr) {
    expect_same_product(*earlier, fingerprint, offset_.has_value(), {});
    restarts_ = earlier->restarts + 1;
  }
  fingerprint = as_stored(std::move(fingerprint), offset_.has_value());
  begun_ = true;
  {
    const std::lock_guard lock(mutex_);
    file_ = Descriptor(path_, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (!file_.valid()) {
      give_up("make", errno);
    } else {
      lock_as_writer(file_);
      Json head = {{"run", run_},           {"rank", rank_},         {"ranks", ranks_},
                   {"columns", columns_},   {"element", element_},   {"offset", nullptr},
                   {"restarts", restarts_}, {"product", fingerprint}};
      if (offset_) head["offset"] = *offset_;
      append(line_of(head));
    }
  }
  if (earlier != nullptr) tell();
}

void Journal::add(const FinishedTile& tile) {
  expect(begun_, "a journal is begun before tiles are added");
  const std::string line = line_of(json_of(tile));
  const std::lock_guard lock(mutex_);
  append(line);
}

void Journal::add_group(std::uint64_t group) {
  expect(begun_, "a journal is begun before groups are added");
  const std::string line = line_of({{"group", group}});
  {
    const std::lock_guard lock(mutex_);
    append(line);
    if (!file_.valid()) return;
  }
  tell();
}

bool Journal::sync() {
  const std::lock_guard lock(mutex_);
  if (!file_.valid()) return false;
  if (::fdatasync(file_.get()) == 0) return true;
  give_up("sync", errno);
  return false;
}

void Journal::append(const std::string& line) {
  if (!file_.valid()) return;
  if (file_.write_at(bytes_, std::as_bytes(std::span(line)))) {
    bytes_ += line.size();
    return;
  }
  const int error = errno;
  // A line that is there in part would be passed over as well.
  [[maybe_unused]] const int result = ::ftruncate(file_.get(), static_cast<off_t>(bytes_));
  give_up("write", error);
}

void Journal::give_up(const std::string& what, int error) {
  log_.warn(
      fmt::format("cannot {} '{}' ({}): this run goes on, but what it finishes from now on "
                  "is lost if it is interrupted",
                  what, path_.string(), errno_text(error)));
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
  std::set<std::string> uuids;
  for (const std::string& middle : middles_beside(result, "checkpoint", 1)) {
    uuids.insert(middle.substr(0, middle.find('.')));
  }
  for (const std::string& uuid : uuids) look_at(uuid);
}

void EarlierRuns::look_at(const std::string& uuid) {
  using Writer = HeldFile::Writer;
  const fs::path path = part_path_of(result_, uuid);
  HeldFile part = hold(path);
  // The rank that made the part file may have ended before others.
  const auto is_written = [](const fs::path& journal) {
    return hold(journal).writer == Writer::alive;
  };
  if (part.writer == Writer::alive || std::ranges::any_of(journals_of(result_, uuid), is_written)) {
    contested_ = true;
    return;
  }
  const std::string journals = read_journals(result_, uuid);
  if (part.writer != Writer::no_file && parse_checkpoint(result_, journals)) {
    journals_ += journals;
    runs_.push_back({uuid, std::move(part.file)});
  } else if (part.writer != Writer::unknown) {
    remove_journals(result_, uuid);
    ::unlink(path.c_str());
  }
}

void EarlierRuns::remove() {
  for (const Run& run : runs_) {
    remove_journals(result_, run.uuid);
    ::unlink(part_path_of(result_, run.uuid).c_str());
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
  std::set<std::string> uuids;
  for (const std::string& middle : middles_beside(result, "checkpoint", 1)) {
    uuids.insert(middle.substr(0, middle.find('.')));
  }
  Remains remains;
  std::string journals;
  for (const std::string& uuid : uuids) {
    const fs::path part = part_path_of(result, uuid);
    std::error_code not_there;
    if (!fs::exists(part, not_there)) continue;
    remains.contested = remains.contested || has_writer(part) ||
                        std::ranges::any_of(journals_of(result, uuid), has_writer);
    journals += read_journals(result, uuid);
  }
  remains.checkpoint = parse_checkpoint(result, journals);
  return remains;
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

std::uint64_t journal_bytes(const Fingerprint& product, std::uint64_t ranks, std::uint64_t tiles,
                            std::uint64_t groups) {
  // Most of a tile's line are doubles and sums of nearly 20 digits.
  const std::uint64_t most = UINT64_MAX;
  const std::uint64_t of_tile = line_of(json_of({.tile = tiles,
                                                 .group = groups,
                                                 .weighted = most,
                                                 .squares = 1e9,
                                                 .worst = 0.1,
                                                 .smallest_caught = 0.1}))
                                    .size();
  const std::uint64_t of_group = line_of({{"group", groups}}).size();
  const std::uint64_t of_head =
      line_of({{"run", std::string(36, '0')}, {"product", as_stored(product, true)}}).size();
  return tiles * of_tile + ranks * (of_head + groups * of_group);
}

void remove_journals(const fs::path& result, const std::string& uuid) {
  for (const fs::path& journal : journals_of(result, uuid)) ::unlink(journal.c_str());
}

CheckpointReader::CheckpointReader(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
  for (const auto& run : checkpoint.runs) {
    parts_.push_back(run.offset ? Descriptor(run.part, O_RDONLY) : Descriptor());
  }
}

bool CheckpointReader::read(const Checkpoint::Tile& tile, Range rows, Range columns, std::byte* out,
                            std::size_t stride) const {
  const Checkpoint::Run& run = checkpoint_.runs.at(tile.run);
  const Descriptor& part = parts_.at(tile.run);
  if (!part.valid()) return false;
  expect(columns.first <= run.columns && columns.count <= run.columns - columns.first,
         "a rectangle ends inside its matrix");
  const std::uint64_t row_bytes = columns.count * run.element;
  for (std::uint64_t row = 0; row < rows.count; ++row) {
    const std::uint64_t element = (rows.first + row) * run.columns + columns.first;
    const std::int64_t got =
        part.read_at(*run.offset + element * run.element, out + row * stride, row_bytes);
    if (got != static_cast<std::int64_t>(row_bytes)) return false;
  }
  return true;
}

}  // namespace shardstream::io
