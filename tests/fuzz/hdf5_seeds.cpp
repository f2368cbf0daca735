#include "fuzz/hdf5_seeds.hpp"

#include <functional>

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

/// The storage of a data set with the numbers 0, 1, 2, ...
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
  const auto values = test::counting<float>(count);
  check(H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()),
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
