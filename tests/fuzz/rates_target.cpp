// Files for `--rates`: results with changed bytes, and files with other tables and attributes than
// results.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <variant>

#include "cli/commands.hpp"
#include "core/text.hpp"
#include "execution/dry_run.hpp"
#include "fuzz/fuzz.hpp"
#include "io/hdf5/result_file.hpp"
#include "result/columns.hpp"
#include "result/tables.hpp"
#include "support/hdf5_inputs.hpp"

namespace shardstream::fuzz {
namespace {

namespace fs = std::filesystem;
namespace hdf5 = io::hdf5;
using hdf5::check;

constexpr auto rates_file = "rates.h5", rate_words = "case.words";
constexpr std::string_view multiply = "multiply_fp32";
constexpr std::array<const char*, 10> ceilings = {
    "link_up",    "link_down", "panel_read",   "panel_feed",  "device_copy",
    "all_gather", "decode",    "storage_read", "device_read", "multiply_fp32"};
constexpr std::array<const char*, 3> workloads = {"gemm", "gram", "reduce"};

/// The conditions of a ceiling that match those of the dry runs below.
std::string conditions_of(std::string_view ceiling) {
  if (ceiling == multiply) return "tiles of 256 x 256 x 256";
  if (ceiling.starts_with("panel_")) return "f32, generated, read as fp32";
  return ceiling == "decode" ? "f32, generated" : "";
}

/// A result as the program writes it, of a GPU or of a host.
std::string true_result(const fs::path& folder, const std::string& workload, bool on_gpu) {
  const fs::path path = folder / (workload + (on_gpu ? "-gpu.h5" : "-host.h5"));
  {
    io::ResultFile file(path, io::Overwrite::never, uuid, 1 << 12);
    std::vector<result::Ceiling> rates;
    for (const char* name : ceilings) {
      rates.push_back({.name = name,
                       .per_rank = 12.5,
                       .aggregate = 25,
                       .unit = "GB/s",
                       .on_path = true,
                       .conditions = conditions_of(name)});
      if (name == multiply) {
        rates.back().sizes = {{"lanes", 1}, {"tile_k", 256}, {"tile_m", 256}, {"tile_n", 256}};
      }
    }
    file.table("/", result::ceilings_table(rates));
    const std::vector<result::Rank> ranks = {{.rank = 0, .host = "node"},
                                             {.rank = 1, .host = "node"}};
    result::write(file, ranks);
    std::vector<result::Gpu> gpus(on_gpu ? 1 : 0);
    for (result::Gpu& gpu : gpus) {
      gpu.rank = 0;
      gpu.memory = std::int64_t{1} << 36;
    }
    result::write(file, gpus);
    file.attribute("/config", "run.workload", workload);
    file.publish();
  }
  return read_file(path);
}

// ---------------------------------------------------------------- other tables

hdf5::Type any_type(Random& random) {
  constexpr hsize_t three = 3;
  switch (random.below(12)) {
    case 0:
      return hdf5::Type(H5Tcopy(H5T_STD_I64LE));
    case 1:
      return hdf5::Type(H5Tcopy(H5T_STD_I8BE));
    case 2:
      return hdf5::Type(H5Tcopy(H5T_STD_U64LE));
    case 3:
      return hdf5::Type(H5Tcopy(H5T_IEEE_F32BE));
    case 4:
      return hdf5::Type(H5Tcopy(H5T_IEEE_F64LE));
    case 5:
      return hdf5::Type(H5Tcreate(H5T_STRING, 1 + random.below(40)));
    case 6:
      return hdf5::Type(H5Tcreate(H5T_STRING, H5T_VARIABLE));
    case 7:
      return hdf5::Type(H5Tarray_create2(H5T_STD_I32LE, 1, &three));
    case 8: {
      hdf5::Type type(H5Tenum_create(H5T_NATIVE_INT));
      const int value = 1;
      check(H5Tenum_insert(type.get(), "one", &value), "enum");
      return type;
    }
    case 9:
      return hdf5::Type(H5Tvlen_create(H5T_STD_I32LE));
    case 10:
      return hdf5::Type(H5Tcreate(H5T_OPAQUE, 1 + random.below(16)));
    default:
      return hdf5::Type(H5Tcreate(H5T_STRING, std::size_t{1} << random.below(24)));
  }
}

/// A column of a result, possibly changed.
struct StoredColumn {
  std::string name;
  hdf5::Type type;
  std::size_t offset;
};

hdf5::Type usual_type(ColumnType type) {
  switch (type) {
    case ColumnType::integer:
      return hdf5::Type(H5Tcopy(H5T_STD_I64LE));
    case ColumnType::real:
      return hdf5::Type(H5Tcopy(H5T_IEEE_F64LE));
    case ColumnType::text:
      return hdf5::Type(H5Tcreate(H5T_STRING, 16));
  }
  throw ContractError("a column has a type");
}

double any_value(Random& random) {
  using Limits = std::numeric_limits<double>;
  constexpr std::array odd = {0.0,
                              -0.0,
                              -1.0,
                              1e-300,
                              1e300,
                              1e-3,
                              1e18,
                              Limits::quiet_NaN(),
                              Limits::infinity(),
                              -Limits::infinity(),
                              Limits::max(),
                              Limits::denorm_min()};
  return random.one_in(12) ? random.pick(odd) : 0.5 + static_cast<double>(random.below(1000));
}

std::int64_t any_integer(Random& random) {
  constexpr std::array<std::int64_t, 7> odd = {-1, INT64_MIN, INT64_MAX, 0, 1LL << 40, 65536, -7};
  return random.one_in(6) ? random.pick(odd) : static_cast<std::int64_t>(random.below(8));
}

void fill(std::byte* cell, const hdf5::Type& type, Random& random) {
  const std::size_t size = H5Tget_size(type.get());
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(cell, from, std::min(bytes, size));
  };
  if (H5Tget_class(type.get()) == H5T_FLOAT) {
    const double value = any_value(random);
    put(&value, sizeof value);
  } else if (H5Tget_class(type.get()) == H5T_STRING) {
    const std::string name = random.pick(ceilings);
    std::string text = random.one_in(6) ? conditions_of(name) : random.one_in(12) ? "node" : name;
    if (random.one_in(12)) mutate(text, random);
    put(text.data(), text.size());
  } else {
    const std::int64_t value = any_integer(random);
    put(&value, sizeof value);
  }
}

std::vector<StoredColumn> columns_like(const std::vector<Column>& usual, Random& random) {
  const auto one_in = [&](std::size_t tables) { return random.one_in(tables * usual.size()); };
  std::vector<StoredColumn> columns;
  std::size_t offset = 0;
  for (const Column& each : usual) {
    if (one_in(8)) continue;
    std::string name = each.name;
    if (one_in(10)) mutate(name, random);
    name = name.c_str();  // up to a zero byte
    if (name.empty()) name = "_";
    for (const auto& other : columns) {
      if (other.name == name) name += "2";
    }
    auto type = one_in(5) ? any_type(random) : usual_type(each.type);
    const std::size_t size = H5Tget_size(type.get());
    columns.push_back({std::move(name), std::move(type), offset});
    offset += size;
  }
  return columns;
}

hsize_t any_rows(Random& random) {
  constexpr std::array<hsize_t, 6> odd = {0, 1'000'000, 20'000, 1ULL << 32, 1ULL << 48, 1000};
  return random.one_in(15) ? random.pick(odd) : 1 + random.below(9);
}

void put_table(hid_t file, const char* path, const std::vector<Column>& usual, Random& random) {
  if (random.one_in(40)) return;
  const auto columns = columns_like(usual, random);
  if (columns.empty()) return;
  const std::size_t size = columns.back().offset + H5Tget_size(columns.back().type.get());
  hdf5::Type record(H5Tcreate(H5T_COMPOUND, size), "record");
  bool has_pointers = false;
  for (const auto& column : columns) {
    check(H5Tinsert(record.get(), column.name.c_str(), column.offset, column.type.get()), "insert");
    has_pointers = has_pointers || H5Tdetect_class(column.type.get(), H5T_VLEN) > 0 ||
                   H5Tis_variable_str(column.type.get()) > 0;
  }
  const hsize_t shape[] = {any_rows(random), 2}, chunk[] = {64, 2};
  const hsize_t unlimited[] = {H5S_UNLIMITED, 2};
  const int rank = random.one_in(30) ? 2 : 1;
  const hdf5::Space space(
      random.one_in(40) ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, shape, unlimited),
      "space");
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "creation");
  if (H5Sget_simple_extent_ndims(space.get()) > 0) {
    check(H5Pset_chunk(creation.get(), rank, chunk), "chunk");
  }
  const hdf5::Dataset table(
      random.one_in(40)
          ? H5Dcreate2(file, path, H5T_IEEE_F64LE, space.get(), H5P_DEFAULT, creation.get(), 0)
          : H5Dcreate2(file, path, record.get(), space.get(), H5P_DEFAULT, creation.get(), 0),
      "table");
  const auto count = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
  if (count == 0 || count * size > (1 << 20) || has_pointers) return;
  std::vector<std::byte> bytes(count * size);
  for (std::size_t row = 0; row < count; ++row) {
    for (const auto& column : columns) {
      fill(bytes.data() + row * size + column.offset, column.type, random);
    }
  }
  // Fails for other types than records.
  static_cast<void>(
      H5Dwrite(table.get(), record.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()));
}

// ---------------------------------------------------------------- other attributes

void put_attribute(hid_t file, const char* group, const char* name, const io::AttributeValue& usual,
                   Random& random) {
  if (random.one_in(40)) return;
  const hdf5::Properties link(H5Pcreate(H5P_LINK_CREATE), "link");
  check(H5Pset_create_intermediate_group(link.get(), true), "groups");
  if (std::strcmp(group, "/") != 0 && H5Lexists(file, group, H5P_DEFAULT) <= 0) {
    hdf5::Group(H5Gcreate2(file, group, link.get(), H5P_DEFAULT, H5P_DEFAULT), "group");
  }
  const hdf5::Object object(H5Oopen(file, group, H5P_DEFAULT), "object");
  io::AttributeValue value = usual;
  switch (random.below(30)) {
    case 0:
      value = any_value(random);
      break;
    case 1:
      value = any_integer(random);
      break;
    case 2:
      value = std::vector<std::int64_t>(random.below(4), any_integer(random));
      break;
    case 3: {
      std::string text = "complete";
      mutate(text, random);
      value = text;
      break;
    }
    default:
      break;
  }
  std::visit([&](const auto& each) { hdf5::write_attribute(object.get(), name, each); }, value);
}

void put_all(const hdf5::File& file, Random& random) {
  const hid_t id = file.get();
  using Text = std::string;
  put_attribute(id, "/", "schema", Text("shardstream"), random);
  put_attribute(id, "/", "schema_version", std::int64_t{1}, random);
  put_attribute(id, "/", "status", Text("complete"), random);
  put_attribute(id, "/config", "run.workload", Text(random.pick(workloads)), random);
  put_attribute(id, "/topology", "type", Text("f32"), random);  // creates the group
  auto columns = result::columns_of<result::Ceiling>();
  for (const char* size : {"lanes", "tile_m"}) columns.push_back({size, ColumnType::integer});
  put_table(id, "/ceilings", columns, random);
  if (H5Lexists(id, "/topology", H5P_DEFAULT) <= 0) return;
  put_table(id, "/topology/ranks", result::columns_of<result::Rank>(), random);
  put_table(id, "/topology/gpus", result::columns_of<result::Gpu>(), random);
}

class Rates final : public Target {
 public:
  explicit Rates(fs::path folder) : folder_(std::move(folder)) {
    for (const char* workload : workloads) {
      for (const bool on_gpu : {false, true}) {
        results_.push_back(true_result(folder_, workload, on_gpu));
      }
    }
  }

  std::string_view name() const override { return "rates"; }

  Files make(Random& random) const override {
    const std::string workload = random.one_in(2) ? "reduce" : "gemm";
    const std::string words = workload + (random.one_in(3) ? " host" : " auto");
    if (random.one_in(3)) {
      std::string bytes = random.pick(results_);
      mutate(bytes, random);
      return {{rates_file, bytes}, {rate_words, words}};
    }
    const std::string path = folder_ / rates_file;
    {
      const hdf5::Lock lock;
      const hdf5::File file = test::make_file(path);
      put_all(file, random);
    }
    return {{rates_file, read_file(path)}, {rate_words, words}};
  }

  void run() const override {
    const std::string text = read_file(rate_words);
    const auto words = split(text, ' ');
    const std::string size = words[0] == "reduce" ? "--input.count"
                             : words[0] == "gemm" ? "--gemm.m"
                                                  : "--gram.rows";
    const CommandLine line = table_.parse_command_line(
        {"--run.workload", std::string(words[0]), "--device.backend", std::string(words[1]), size,
         "256", "-o", "out.h5", "--measure.rates", rates_file});
    const char* const nothing[] = {nullptr};
    const Options options = table_.resolve(line, nothing, std::nullopt);
    Log log("", silence_);
    try {
      execution::dry_run(options, {.ranks = 2, .ranks_on_host = 2}, log);
    } catch (const UsageError& error) {
      const std::string message = error.what();
      if (message.starts_with("--rates: ") && message.find(rates_file) != message.npos) throw;
      throw ContractError("a message that does not name --rates and its file: " + message);
    }
  }

 private:
  fs::path folder_;
  std::vector<std::string> results_;
  OptionTable table_ = cli::all_options();
  std::FILE* silence_ = std::fopen("/dev/null", "w");
};

}  // namespace

std::unique_ptr<Target> rates_target(const fs::path& folder) {
  return std::make_unique<Rates>(folder);
}

}  // namespace shardstream::fuzz
