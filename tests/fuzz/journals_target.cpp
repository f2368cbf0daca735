// Journals written by Journal, with impossible values or with changed bytes.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>

#include "fuzz/fuzz.hpp"
#include "io/output/checkpoint.hpp"
#include "io/output/part_file.hpp"
#include "workloads/product/checkpoint/finished_tiles.hpp"

namespace shardstream::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr auto journals = "journals";
const fs::path result = "c.h5";

std::uint64_t any_number(Random& random) {
  return random.one_in(2) ? random.below(70) : random.bits() >> random.below(64);
}
double any_real(Random& random) {
  return random.one_in(2) ? 0.5 : std::bit_cast<double>(random.bits());
}

io::Fingerprint any_product(Random& random) {
  io::Fingerprint product = {{"workload", "gemm"}, {"m", "512"}, {"input.a", "uniform"}};
  for (auto& [name, value] : product) {
    if (random.one_in(6)) mutate(value, random);
  }
  return product;
}

/// Corrects the checksums, so that changed values also reach the parser.
std::string with_right_checksums(const std::string& text) {
  std::string made;
  io::JournalChecksum checksum;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::string json = line.substr(std::min(line.find(' ') + 1, line.size()));
    if (json.starts_with("{\"run\"")) checksum = {};
    made += fmt::format("{:016x} {}\n", checksum.add(json), json);
    at = end + 1;
  }
  return made;
}

class Journals final : public Target {
 public:
  explicit Journals(fs::path folder) : folder_(std::move(folder)) {}

  std::string_view name() const override { return "journals"; }

  Files make(Random& random) const override {
    std::string text;
    const int ranks = static_cast<int>(1 + random.below(3));
    for (int rank = 0; rank < ranks; ++rank) text += journal(rank, ranks, random);
    if (!random.one_in(4)) mutate(text, random);
    if (random.one_in(2)) text = with_right_checksums(text);
    const std::string part = "\211HDF\r\n\032\n" + std::string(1024, 'c');
    return {{journals, text}, {io::part_path_of(result, uuid), part}};
  }

  void run() const override {
    const auto checkpoint = io::parse_checkpoint(result, read_file(journals));
    if (!checkpoint) return;
    const workloads::product::CheckpointReader reader(*checkpoint, 16, 8);
    std::vector<std::byte> row(1024);
    for (const io::Checkpoint::RunPiece& piece : checkpoint->pieces) {
      workloads::product::tile_of(piece);
      for (const std::size_t matrix : {0, 1}) {
        reader.read(piece.run, matrix, {0, 1}, {0, 8}, row.data(), 64);
      }
    }
    io::expect_same_computation(*checkpoint, {{"workload", "gemm"}, {"m", "512"}}, false, {});
  }

 private:
  std::string journal(int rank, int ranks, Random& random) const {
    const fs::path beside = folder_ / result;
    const fs::path path = io::journal_path_of(beside, uuid, rank);
    fs::remove(path);
    Log log("", silence_);
    const fs::path part = io::part_path_of(beside, uuid);
    write_file(part, "part");
    const io::RangeWriter matrix(part, any_number(random), ElementType::f32, any_number(random));
    const std::span<const io::RangeWriter> stored(&matrix, random.one_in(3) ? 0 : 1);
    io::Journal journal(beside, uuid, rank, ranks, stored, log, [] {});
    journal.begin(any_product(random), nullptr, {6, 2, workloads::product::tile_record});
    for (std::uint64_t left = random.below(6); left > 0; --left) {
      workloads::product::FinishedTile tile{.tile = any_number(random),
                                            .weighted = any_number(random),
                                            .squares = any_real(random),
                                            .worst = any_real(random),
                                            .detection_threshold = any_real(random),
                                            .unchecked = any_number(random),
                                            .overflowed = any_number(random),
                                            .infinite = any_number(random),
                                            .counts = {.max = any_number(random)},
                                            .counts_squares = any_real(random),
                                            .variables = {}};
      for (std::uint64_t variables = random.below(3); variables > 0; --variables) {
        tile.variables.push_back({any_real(random), any_real(random), any_number(random)});
      }
      io::FinishedPiece piece = workloads::product::piece_of(tile, random.below(2));
      if (random.one_in(4)) piece.group.reset();
      if (random.one_in(6)) piece.record.resize(random.below(9));
      journal.add(piece);
    }
    for (std::uint64_t group = 0; group < 2; ++group) journal.add_group(group);
    return read_file(path);
  }

  fs::path folder_;
  std::FILE* silence_ = std::fopen("/dev/null", "w");
};

}  // namespace

std::unique_ptr<Target> journals_target(const fs::path& folder) {
  return std::make_unique<Journals>(folder);
}

}  // namespace shardstream::fuzz
