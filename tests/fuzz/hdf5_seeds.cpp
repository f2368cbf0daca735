#include "fuzz/hdf5_seeds.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "io/hdf5/lzf.hpp"
#include "support/hdf5_inputs.hpp"

namespace shardstream::fuzz {
namespace {

namespace fs = std::filesystem;
namespace hdf5 = io::hdf5;
using hdf5::check;
using Shape = std::vector<hsize_t>;

constexpr auto main_file = "main.h5";

/// Files in the oldest possible format, or in the newest one.
enum class Format { oldest, newest };

hdf5::File new_file(const char* name, Format format, hsize_t user_block = 0) {
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate");
  const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  check(H5Pset_obj_track_times(creation.get(), false), "times");  // the same bytes at any time
  check(H5Pset_userblock(creation.get(), user_block), "user block");
  if (format == Format::newest) {
    check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), "bounds");
  } else {  // small nodes
    check(H5Pset_sym_k(creation.get(), 2, 2), "symbols");
    check(H5Pset_istore_k(creation.get(), 2), "chunks");
  }
  return hdf5::File(H5Fcreate(name, H5F_ACC_TRUNC, creation.get(), access.get()), "H5Fcreate");
}

/// The storage of a data set with the numbers 0, 1, 2, ...; other types than numbers have the bytes
/// 0, 1, 2, ...
struct Layout {
  Shape shape, chunk = {}, max = {};
  hid_t type = H5T_IEEE_F32LE;
  bool written = true;
  std::function<void(hid_t creation)> more = [](hid_t) {};
};

void put(const hdf5::File& file, const char* name, const Layout& layout) {
  const hdf5::Properties creation(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  check(H5Pset_obj_track_times(creation.get(), false), "times");
  const int rank = static_cast<int>(layout.shape.size());
  if (!layout.chunk.empty())
    check(H5Pset_chunk(creation.get(), rank, layout.chunk.data()), "chunk");
  layout.more(creation.get());
  const hsize_t* const max = layout.max.empty() ? nullptr : layout.max.data();
  const hdf5::Space space(
      rank == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(rank, layout.shape.data(), max),
      "space");
  const hdf5::Dataset dataset(H5Dcreate2(file.get(), name, layout.type, space.get(), H5P_DEFAULT,
                                         creation.get(), H5P_DEFAULT),
                              "H5Dcreate2");
  if (!layout.written) return;
  const auto count = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.get()));
  const H5T_class_t kind = H5Tget_class(layout.type);
  const bool is_number = kind == H5T_INTEGER || kind == H5T_FLOAT;
  const auto values = test::counting<float>(count);
  const auto bytes = test::counting<unsigned char>(count * H5Tget_size(layout.type));
  check(H5Dwrite(dataset.get(), is_number ? H5T_NATIVE_FLOAT : layout.type, H5S_ALL, H5S_ALL,
                 H5P_DEFAULT, is_number ? static_cast<const void*>(values.data()) : bytes.data()),
        "H5Dwrite");
}

void filters(hid_t creation) {
  check(H5Pset_shuffle(creation), "shuffle");
  check(H5Pset_deflate(creation, 1), "deflate");
  check(H5Pset_fletcher32(creation), "fletcher32");
}

void compact(hid_t creation) {
  check(H5Pset_layout(creation, H5D_COMPACT), "compact");
}

void early(hid_t creation) {
  check(H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY), "allocation");
}

/// One data set for every layout and every kind of chunk index.
std::vector<Layout> layouts() {
  constexpr hsize_t any = H5S_UNLIMITED;
  const auto fill = [](hid_t creation) {
    const float value = 7;
    check(H5Pset_fill_value(creation, H5T_NATIVE_FLOAT, &value), "fill value");
  };
  const auto offset = [](hid_t creation) {
    check(H5Pset_scaleoffset(creation, H5Z_SO_INT, 0), "scale offset");
  };
  const auto bits = [](hid_t creation) { check(H5Pset_nbit(creation), "n bit"); };
  return {
      {{24}},
      {{4, 6}, {}, {}, H5T_STD_I16BE},
      {{3, 2, 2}, {}, {}, H5T_IEEE_F64BE},
      {{}, {}, {}, H5T_STD_I64LE},
      {{12}, {}, {}, H5T_STD_U8LE, true, compact},
      {{20}, {6}},                                        // fixed array
      {{5, 7}, {2, 3}, {}, H5T_STD_U16LE},                // fixed array, edges
      {{5, 7}, {2, 3}, {any, 7}},                         // extensible array
      {{40}, {2}, {any}, H5T_STD_I32BE},                  // extensible array with blocks
      {{5, 7}, {2, 3}, {any, any}},                       // second tree
      {{4, 6}, {4, 6}},                                   // a single chunk
      {{4, 6}, {2, 2}, {}, H5T_IEEE_F32LE, true, early},  // implicit
      {{30}, {8}, {}, H5T_IEEE_F32LE, true, filters},
      {{8, 6}, {4, 4}, {any, 6}, H5T_STD_I16LE, true, filters},
      {{8, 6}, {4, 4}, {any, any}, H5T_STD_I32LE, true, filters},
      {{4, 6}, {4, 6}, {}, H5T_STD_I32LE, true, filters},
      {{32}, {16}, {}, H5T_STD_I32LE, true, offset},
      {{32}, {16}, {}, H5T_STD_I32LE, true, bits},
      {{16}, {}, {}, H5T_IEEE_F32LE, false, fill},
      {{16}, {4}, {}, H5T_IEEE_F32LE, false, fill},
  };
}

void put_virtual(const hdf5::File& file) {
  const Shape whole = {4, 6}, part = {2, 6};
  put(file, "source", {part});
  put(file, "d", {whole, {}, {}, H5T_IEEE_F32LE, false, [&](hid_t creation) {
                    const hdf5::Space all(H5Screate_simple(2, whole.data(), nullptr), "space");
                    const hdf5::Space of(H5Screate_simple(2, part.data(), nullptr), "space");
                    for (const hsize_t row : {0, 2}) {
                      const hsize_t start[] = {row, 0};
                      check(H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, start, nullptr,
                                                part.data(), nullptr),
                            "select");
                      check(H5Pset_virtual(creation, all.get(), row == 0 ? "." : "other.h5",
                                           "source", of.get()),
                            "virtual");
                    }
                  }});
}

void put_external(const hdf5::File& file) {
  put(file, "d", {{24}, {}, {}, H5T_IEEE_F32LE, true, [](hid_t creation) {
                    check(H5Pset_external(creation, "first.raw", 0, 40), "external");
                    check(H5Pset_external(creation, "second.raw", 8, H5F_UNLIMITED), "external");
                  }});
}

void put_attributes(const hdf5::File& file) {
  put(file, "d", {{6}});
  const hdf5::Dataset dataset(H5Dopen2(file.get(), "d", H5P_DEFAULT), "d");
  hdf5::write_attribute(dataset.get(), "_FillValue", 1e30);
  hdf5::write_attribute(dataset.get(), "units", std::string("metres"));
  hdf5::write_fixed_attribute(dataset.get(), "long_name", "height");
  for (int i = 0; i < 10; ++i) {  // more than an object's header has in the newest format
    hdf5::write_attribute(dataset.get(), "number" + std::to_string(i), std::int64_t{i});
  }
}

void put_groups(const hdf5::File& file) {
  test::make_group(file, "g");
  put(file, "g/d", {{6}});
  const hdf5::Type record(H5Tcreate(H5T_COMPOUND, 8), "type");
  check(H5Tinsert(record.get(), "x", 0, H5T_IEEE_F32LE), "type");
  check(H5Tinsert(record.get(), "y", 4, H5T_STD_I32LE), "type");
  put(file, "g/records", {{3}, {}, {}, record.get(), false});
  const hdf5::Type text(H5Tcopy(H5T_C_S1), "type");
  check(H5Tset_size(text.get(), H5T_VARIABLE), "type");
  put(file, "texts", {{2}, {}, {}, text.get(), false});
  for (int i = 0; i < 9; ++i) test::make_group(file, "group" + std::to_string(i));
  check(H5Lcreate_soft("/g/d", file.get(), "soft", H5P_DEFAULT, H5P_DEFAULT), "link");
  check(H5Lcreate_soft("/loop", file.get(), "loop", H5P_DEFAULT, H5P_DEFAULT), "link");
  check(H5Lcreate_external("other.h5", "/source", file.get(), "external", H5P_DEFAULT, H5P_DEFAULT),
        "link");
}

// ---------------------------------------------------------------- types

hdf5::Type half() {
  hdf5::Type type(H5Tcopy(H5T_IEEE_F32LE), "type");
  check(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "f16");
  check(H5Tset_size(type.get(), 2), "f16");
  check(H5Tset_ebias(type.get(), 15), "f16");
  return type;
}

hdf5::Type flag(hid_t base) {
  hdf5::Type type(H5Tenum_create(base), "type");
  const std::int64_t values[] = {0, 1};
  check(H5Tenum_insert(type.get(), "FALSE", &values[0]), "enum");
  check(H5Tenum_insert(type.get(), "TRUE", &values[1]), "enum");
  return type;
}

/// Records with padding, nested and big-endian numbers, an enum and a text.
hdf5::Type record() {
  hdf5::Type pos(H5Tcreate(H5T_COMPOUND, 6), "type"), record(H5Tcreate(H5T_COMPOUND, 40), "type");
  check(H5Tinsert(pos.get(), "x", 0, H5T_STD_I16BE), "x");
  check(H5Tinsert(pos.get(), "y", 2, H5T_IEEE_F32LE), "y");
  check(H5Tinsert(record.get(), "id", 0, H5T_STD_U32BE), "id");
  check(H5Tinsert(record.get(), "energy", 5, H5T_IEEE_F64LE), "energy");
  check(H5Tinsert(record.get(), "pos", 16, pos.get()), "pos");
  check(H5Tinsert(record.get(), "good", 24, flag(H5T_STD_I8LE).get()), "good");
  check(H5Tinsert(record.get(), "name", 25, H5T_C_S1), "name");
  return record;
}

void lzf(hid_t creation) {
  const unsigned about[] = {4, 0x105, 64};
  check(H5Pset_filter(creation, io::lzf_filter, H5Z_FLAG_OPTIONAL, 3, about), "lzf");
}

/// Two chunks of 64 bytes, encoded as 32 literal bytes and their repetition.
void put_lzf(const hdf5::File& file) {
  put(file, "d", {{32}, {16}, {}, H5T_STD_I32LE, false, lzf});
  const hdf5::Dataset dataset(H5Dopen2(file.get(), "d", H5P_DEFAULT), "d");
  std::vector<unsigned char> stream = test::counting<unsigned char>(33, 31);
  stream.insert(stream.end(), {7 << 5, 32 - 9, 31});
  for (const hsize_t first : {0, 16}) {
    check(H5Dwrite_chunk(dataset.get(), H5P_DEFAULT, 0, &first, stream.size(), stream.data()),
          "chunk");
  }
}

// ---------------------------------------------------------------- conventions

/// An attribute of these numbers, stored as `type`. No number: an attribute without elements.
struct Numbers {
  std::string name;
  hid_t type;
  std::vector<double> values;
};

void put_numbers(hid_t object, const Numbers& numbers) {
  const hsize_t count = numbers.values.size();
  const hdf5::Space space(count == 0   ? H5Screate(H5S_NULL)
                          : count == 1 ? H5Screate(H5S_SCALAR)
                                       : H5Screate_simple(1, &count, nullptr),
                          "space");
  const hdf5::Attribute attribute(
      H5Acreate2(object, numbers.name.c_str(), numbers.type, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      "attribute");
  if (count == 0) return;
  check(H5Awrite(attribute.get(), H5T_NATIVE_DOUBLE, numbers.values.data()), "attribute");
}

/// A data set and its attributes.
struct Described {
  Layout layout;
  std::vector<Numbers> numbers;
  std::vector<std::pair<std::string, std::string>> texts = {};
};

/// One data set for every convention, and some with odd attributes.
std::vector<Described> described() {
  constexpr auto i16 = [] { return H5T_STD_I16LE; };
  const Layout packed{{6, 7}, {4, 4}, {}, i16(), true, filters};
  const std::vector<double> many = test::counting<double>(20);
  return {
      {packed,
       {{"_FillValue", i16(), {3}},
        {"scale_factor", H5T_IEEE_F64LE, {0.01}},
        {"add_offset", H5T_IEEE_F64LE, {273.15}},
        {"valid_range", i16(), {1, 30}}}},
      {packed,
       {{"missing_value", H5T_IEEE_F32BE, {3, 4, 5}},
        {"scale_factor", H5T_IEEE_F32LE, {0.5}},
        {"add_offset", H5T_STD_I32LE, {2}},
        {"valid_min", H5T_STD_I64BE, {2}}}},
      {{{12}, {}, {}, H5T_STD_I8LE},
       {{"_FillValue", H5T_STD_I8LE, {-1}}, {"valid_max", H5T_STD_I8LE, {-6}}},
       {{"_Unsigned", "true"}}},
      {{{12}, {5}, {}, H5T_IEEE_F32BE},
       {{"_FillValue", H5T_IEEE_F32BE, {NAN}}, {"missing_value", H5T_IEEE_F64LE, {1e20, 7}}}},
      {{{12}, {}, {}, H5T_STD_U16BE},
       {{"MissingValue", H5T_STD_U16BE, {11}},
        {"ScaleFactor", H5T_IEEE_F64BE, {2}},
        {"Offset", H5T_IEEE_F64LE, {1}}}},
      {{{2}, {}, {}, H5T_STD_U64LE}, {{"MATLAB_empty", H5T_STD_U8LE, {0}}}},
      {packed,
       {{"_FillValue", H5T_STD_U64LE, many},
        {"missing_value", H5T_STD_I8LE, {}},
        {"valid_range", H5T_NATIVE_LDOUBLE, {0, 1, 2}},
        {"add_offset", H5T_IEEE_F64LE, {0}}},
       {{"scale_factor", "1"}, {"valid_max", "40"}}},
      {packed, {}, {{"_FillValue", "3"}, {"_Unsigned", "TRUE"}, {"missing_value", ""}}},
      {{{24}, {6}, {}, i16(), false}, {}},
  };
}

void put_described(const hdf5::File& file, const Described& what) {
  put(file, "d", what.layout);
  const hdf5::Dataset dataset(H5Dopen2(file.get(), "d", H5P_DEFAULT), "d");
  for (const Numbers& each : what.numbers) put_numbers(dataset.get(), each);
  for (const auto& [name, text] : what.texts) {
    hdf5::write_fixed_attribute(dataset.get(), name, text);
  }
  hdf5::write_attribute(file.get(), "_NCProperties", std::string("version=2"));
}

/// Data and coordinates; the name of the file means the data.
void put_coordinates(const hdf5::File& file) {
  for (const char* const name : {"lat", "bounds", "t"}) put(file, name, {{6}});
  const auto describe = [&](const char* name, const char* key, const std::string& value) {
    const hdf5::Dataset dataset(H5Dopen2(file.get(), name, H5P_DEFAULT), name);
    hdf5::write_attribute(dataset.get(), key, value);
  };
  describe("lat", "CLASS", "DIMENSION_SCALE");
  describe("lat", "NAME", "lat");
  describe("lat", "bounds", "bounds");
  describe("t", "coordinates", "lat other");
}

/// Texts of variable length.
void put_texts(const hdf5::File& file) {
  const hdf5::Type text = hdf5::text_type();
  const char* const texts[] = {"Atlantic", "", "Pacific", "Indian", "Pacific"};
  const hsize_t count = std::size(texts);
  const hdf5::Space space(H5Screate_simple(1, &count, nullptr), "space");
  const hdf5::Dataset dataset(
      H5Dcreate2(file.get(), "d", text.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      "H5Dcreate2");
  check(H5Dwrite(dataset.get(), text.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts), "H5Dwrite");
  hdf5::write_attribute(dataset.get(), "_FillValue", std::string("Indian"));
}

/// A type of texts of this size.
hdf5::Type fixed_text(std::size_t size) {
  hdf5::Type type(H5Tcopy(H5T_C_S1), "string");
  check(H5Tset_size(type.get(), size), "string");
  return type;
}

/// A data set with names and coordinates of its dimensions, and with labels.
void put_dimensions(const hdf5::File& file) {
  put(file, "d", {{6, 4, 3}, {3, 2, 3}});
  put(file, "lat", {{6}});
  put(file, "lon", {{4}, {}, {}, H5T_STD_I16BE});
  for (const char* const name : {"lat", "lon"}) test::make_scale(file, name, name);
  test::attach_scales(file, "d", {"lat", "lon", ""});
  const hdf5::Dataset data(H5Dopen2(file.get(), "d", H5P_DEFAULT), "d");
  const hdf5::Dataset lon(H5Dopen2(file.get(), "lon", H5P_DEFAULT), "lon");
  put_numbers(lon.get(), {"scale_factor", H5T_IEEE_F64LE, {0.5}});
  const hdf5::Type text(H5Tcopy(H5T_C_S1), "type");
  check(H5Tset_size(text.get(), H5T_VARIABLE), "type");
  const hsize_t rank = 3;
  const hdf5::Space space(H5Screate_simple(1, &rank, nullptr), "space");
  const hdf5::Attribute labels(
      H5Acreate2(data.get(), "DIMENSION_LABELS", text.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      "attribute");
  const char* const texts[] = {"rows", "", "x"};
  check(H5Awrite(labels.get(), text.get(), texts), "attribute");
}

/// All files of the folder.
Seed take(const std::string& path) {
  Seed seed;
  seed.data = main_file + (path.empty() ? "" : ":/" + path);
  for (const auto& entry : fs::directory_iterator(".")) {
    seed.files[entry.path().filename()] = read_file(entry.path());
    fs::remove(entry.path());
  }
  return seed;
}

void add_format(Format format, std::vector<Seed>& seeds) {
  for (const Layout& layout : layouts()) {
    put(new_file(main_file, format), "d", layout);
    seeds.push_back(take("d"));
  }
  const auto add = [&](const auto& write, const std::string& path, hsize_t user_block = 0) {
    put(new_file("other.h5", format), "source", {{2, 6}});
    write(new_file(main_file, format, user_block));
    seeds.push_back(take(path));
  };
  add(put_virtual, "d");
  add(put_external, "d");
  add(put_attributes, "", 512);
  add(put_groups, "external");
  add(put_groups, "soft");
  add(put_groups, "");
  add(put_coordinates, "");
  add(put_dimensions, "d");
  add(put_lzf, "d");
  add(put_texts, "d");
  for (const Described& what : described()) {
    add([&](const hdf5::File& file) { put_described(file, what); }, "d");
  }
  const hdf5::Type types[] = {half(), flag(H5T_STD_I8LE), flag(H5T_STD_I32BE), record()};
  const auto add_type = [&](hid_t type, const std::string& path) {
    for (const Shape& chunk : {Shape{}, Shape{4}}) {
      const auto more = chunk.empty() ? [](hid_t) {} : filters;
      add(
          [&](const hdf5::File& file) {
            put(file, "d", {{9}, chunk, {}, type, true, more});
          },
          path);
    }
  };
  for (const hdf5::Type& type : types) add_type(type.get(), "d");
  add_type(fixed_text(5).get(), "d");
  add([](const hdf5::File& file) { put(file, "d", {{4, 3}, {}, {}, fixed_text(1).get()}); }, "d");
  for (const hid_t type : {H5T_STD_B8LE, H5T_STD_B16BE}) add_type(type, "d");
  for (const char* const member : {"id", "energy", "pos.x", "good"}) {
    add_type(types[3].get(), fmt::format("d{{{}}}", member));
  }
}

}  // namespace

std::vector<Seed> hdf5_seeds(const fs::path& folder) {
  fs::create_directories(folder);
  fs::current_path(folder);
  const hdf5::Lock lock;
  std::vector<Seed> seeds;
  for (const Format format : {Format::oldest, Format::newest}) add_format(format, seeds);
  return seeds;
}

}  // namespace shardstream::fuzz
