#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "cli/commands.hpp"
#include "core/log.hpp"
#include "core/parallel.hpp"
#include "core/shard.hpp"
#include "core/text.hpp"
#include "io/output/dataset_file.hpp"
#include "io/output/part_file.hpp"
#include "io/source/matrix.hpp"
#include "io/source/source.hpp"
#include "ranks/session.hpp"
#include "ranks/signals.hpp"
#include "ranks/situation.hpp"
#include "runtime/provenance.hpp"

namespace shardstream::cli {
namespace {

/// Bytes that one thread generates and writes at a time.
constexpr std::uint64_t piece_bytes = std::uint64_t{8} << 20;
/// A single sync at the end could take minutes on a slow disk, without any visible progress.
constexpr std::uint64_t pieces_per_sync = 128;

constexpr std::array<std::string_view, 2> switches_of_generate = {"json", "quiet"};
/// The options that `generate` accepts, as keys or whole sections.
constexpr std::array<std::string_view, 9> options_of_generate = {
    "input.data", "input.count",  "input.shape", "input.type",      "input.seed",
    "launch",     "comm.timeout", "output.file", "output.overwrite"};

/// Options with the meanings and ranges that they have for `generate`.
constexpr std::array rows_of_generate = {
    OptionRow{"input.data", OptionKind::choice, "uniform", "uniform|ramp", "The generator."},
    OptionRow{"input.type", OptionKind::choice, "f32", element_type_range,
              "The element type; auto is f32.", element_type_other_names},
    OptionRow{"output.file", OptionKind::text, "", "FILE.h5:/PATH",
              "The file to write and the path of the data set in it; required."},
    OptionRow{
        "output.overwrite", OptionKind::choice, "false", "false|true|anything",
        "Whether an existing file with all its data sets may be replaced: never (false), only "
        "a file that generate has written (true), or any regular file (anything)."},
};

OptionTable table_of_generate() {
  return all_options().with(rows_of_generate);
}

/// Sets `printing` to the form of the output.
Options parse(const Arguments& arguments, const char* const* environment, Printing& printing) {
  const OptionTable table = table_of_generate();
  const CommandLine line = table.parse_command_line(arguments, switches_of_generate);
  printing = printing_of(line);
  if (!line.words.empty()) {
    throw UsageError(
        fmt::format("generate takes only options, not {}: see shardstream generate --help",
                    excerpt(line.words[0])));
  }
  Options options = table.resolve(line, environment, std::nullopt);
  constexpr std::array<std::string_view, 1> data = {"input.data"};
  constexpr std::array<std::string_view, 2> sizes = {"input.count", "input.shape"};
  reject_options_of_run(options, "generate", options_of_generate, data, sizes);
  return options;
}

/// The two parts of "FILE:/PATH".
struct Target {
  std::string file, path;
};
Target target(const Options& options) {
  const std::string& text = options.text("output.file");
  const auto colon = text.rfind(":/");
  if (colon == std::string::npos || colon == 0) {
    throw UsageError(fmt::format("generate needs -o FILE.h5:/PATH{}",
                                 text.empty() ? text : fmt::format(", not -o {}", text)));
  }
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// Writes this rank's share on `threads` threads.
void write_share(const io::Source& source, const io::RangeWriter& writer, Range mine,
                 unsigned threads, Progress& progress, ranks::Heartbeat& heartbeat) {
  const std::uint64_t element = size_of(source.type());
  const std::uint64_t piece = piece_bytes / element;
  parallel_for(ceil_div(mine.count, piece), threads, [&](std::uint64_t i) {
    thread_local std::vector<std::byte> memory(piece_bytes);
    const Range part = intersection(mine, {mine.first + i * piece, piece});
    source.read(part.first, part.count, memory.data());
    writer.write(part.first, {memory.data(), part.count * element});
    if (i % pieces_per_sync == pieces_per_sync - 1) writer.sync();
    heartbeat.step("piece", i);
    progress.add(static_cast<double>(part.count));
  });
  writer.sync();
}

/// Opens the generator and lays out the file (on rank 0). Then every rank writes its share, and
/// rank 0 publishes the file under its name.
ExitCode generate_data(const ranks::Session& session, const Options& options, Log& log,
                       Printing printing) {
  if (printing == Printing::none) log.omit_information();
  session.collectively([&] { ranks::check_expected_ranks(session, options); });
  const std::string uuid = runtime::make_run_uuid(session);
  std::unique_ptr<io::Source> source;
  std::optional<ranks::RemoveOnSignal> remove;  // outlives the file and is set up before it
  std::optional<io::DatasetFile> file;
  session.collectively([&] {
    const Target to = target(options);
    source = io::open_source(options);
    remove.emplace(std::vector{io::part_path_of(to.file, uuid)});
    if (session.rank() != 0) return;
    file.emplace(to.file, io::overwrite_of(options), uuid, to.path, source->type(),
                 source->shape());
  });
  const std::string part = session.broadcast(file ? file->part_path().string() : "");
  const std::string offset = session.broadcast(file ? fmt::format("{}", file->offset()) : "");
  const std::uint64_t elements = source->count();
  const Range mine = share(elements, static_cast<std::uint64_t>(session.rank()),
                           static_cast<std::uint64_t>(session.size()));
  const ranks::Placement plan = ranks::take_places(
      session, ranks::observe(session), {.backend = "host", .bind = ranks::may_bind(options)}, log);
  const unsigned threads = plan.places[static_cast<std::size_t>(session.rank())].threads;
  session.heartbeat().enter("write");
  session.collectively([&] {
    Progress progress("writing", static_cast<double>(mine.count),
                      session.rank() == 0 && log.shows_progress());
    const io::RangeWriter writer(part, std::stoull(offset), source->type());
    write_share(*source, writer, mine, threads, progress, session.heartbeat());
  });
  session.heartbeat().enter("publish");
  session.collectively([&] {
    if (!file) return;
    file->publish();
    const std::uint64_t bytes = elements * size_of(source->type());
    const std::array<Metric, 4> metrics = {Metric{"elements", static_cast<std::int64_t>(elements)},
                                           Metric{"type", std::string(word_of(source->type()))},
                                           Metric{"bytes", static_cast<std::int64_t>(bytes), "B"},
                                           Metric{"file", options.text("output.file")}};
    print_metrics(metrics, printing, "; the data set is complete");
  });
  return ExitCode::done;
}

int generate(const Arguments& arguments, const char* const* environment) {
  Printing printing = Printing::text;
  return in_session([&] { return parse(arguments, environment, printing); },
                    [&](const ranks::Session& session, const Options& options, Log& log) {
                      return generate_data(session, options, log, printing);
                    },
                    "start fewer ranks per host, or bind them to fewer CPUs");
}

std::string generate_help(const Arguments&) {
  return fmt::format(
      R"(shardstream generate [OPTIONS] -o FILE.h5:/PATH

Writes a file with one synthetic, contiguous data set. All ranks write in parallel.

  --json      prints one JSON object instead of lines
  --quiet     prints nothing but warnings and errors

{})",
      options_help(table_of_generate(), IniFile::rejected, options_of_generate));
}

}  // namespace

extern const Command about_generate = {
    .name = "generate",
    .arguments = "[OPTIONS]",
    .summary = "writes a synthetic HDF5 data set",
    .switches = switches_of_generate,
    .options = [] { return rows_of(table_of_generate(), options_of_generate); },
    .help = generate_help,
    .run = generate};

}  // namespace shardstream::cli
