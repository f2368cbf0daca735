#include "experiments/execution/code_size.hpp"

#include <elf.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace shardstream::experiments::execution {
namespace {

using Bytes = std::span<const std::byte>;

/// The object of type T at `offset`; empty if it does not lie inside `bytes`.
template <class T>
std::optional<T> read_at(Bytes bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return {};
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

/// The architecture of a cubin. Its place in e_flags has changed with CUDA 13.
unsigned architecture_of(const Elf64_Ehdr& header) {
  constexpr unsigned char abi_of_cuda_13 = 8;
  const unsigned flags = header.e_flags;
  return (header.e_ident[EI_ABIVERSION] >= abi_of_cuda_13 ? flags >> 8 : flags) & 0xffU;
}

/// Whether the zero-terminated text at `offset` is `text`.
bool is_at(Bytes bytes, std::uint64_t offset, std::string_view text) {
  if (offset > bytes.size() || bytes.size() - offset <= text.size()) return false;
  return std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0 &&
         bytes[offset + text.size()] == std::byte{0};
}

/// The size of the section `name` of an ELF file that begins with `header`.
std::optional<std::uint64_t> section_size(Bytes file, const Elf64_Ehdr& header,
                                          std::string_view name) {
  const auto section = [&](std::uint64_t i) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  const auto names = section(header.e_shstrndx);
  for (unsigned i = 0; names && i < header.e_shnum; ++i) {
    const auto each = section(i);
    if (each && is_at(file, names->sh_offset + each->sh_name, name)) return each->sh_size;
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> code_size(Bytes program, std::string_view kernel,
                                       unsigned architecture) {
  constexpr std::uint16_t cuda = 190;  // e_machine
  const std::string name = ".text." + std::string(kernel);
  const std::string_view text(reinterpret_cast<const char*>(program.data()), program.size());
  constexpr std::string_view magic(ELFMAG, SELFMAG);
  for (std::size_t at = text.find(magic); at != text.npos; at = text.find(magic, at + 1)) {
    const Bytes file = program.subspan(at);
    const auto header = read_at<Elf64_Ehdr>(file, 0);
    if (!header || header->e_machine != cuda || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        architecture_of(*header) != architecture) {
      continue;
    }
    if (const auto size = section_size(file, *header, name)) return size;
  }
  return {};
}

std::vector<std::byte> own_program() {
  const std::filesystem::path path = "/proc/self/exe";
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return {};
  std::vector<std::byte> bytes(size);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (!file) bytes.clear();
  return bytes;
}

}  // namespace shardstream::experiments::execution
