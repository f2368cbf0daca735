// The size of a kernel's code in a file that contains cubins.
#include "experiments/execution/code_size.hpp"

#include <gtest/gtest.h>

#include <elf.h>

#include <cstring>
#include <string>

namespace shardstream::experiments::execution {
namespace {

/// A cubin with the kernel `name`, which has `size` bytes of code. `abi` 8 is that of CUDA 13.
std::string cubin(const std::string& name, std::uint64_t size, unsigned architecture,
                  unsigned char abi = 8) {
  const std::string names = std::string("\0.text.", 7) + name + '\0';
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_ABIVERSION] = abi;
  header.e_machine = 190;
  header.e_flags = abi < 8 ? 0x500U | architecture : 0x6000004U | architecture << 8;
  header.e_shoff = sizeof(header);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  Elf64_Shdr sections[2] = {};
  sections[0].sh_name = 1;
  sections[0].sh_size = size;
  sections[1].sh_offset = sizeof(header) + sizeof(sections);
  std::string bytes(sizeof(header) + sizeof(sections), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), sections, sizeof(sections));
  return bytes + names;
}

std::optional<std::uint64_t> size_in(const std::string& program, const char* kernel,
                                     unsigned architecture) {
  return code_size(std::as_bytes(std::span(program)), kernel, architecture);
}

TEST(CodeSize, IsThatOfTheKernelAndTheArchitecture) {
  const std::string program = std::string(ELFMAG) + "the program" + cubin("f", 128, 80) +
                              cubin("f", 256, 90) + cubin("ff", 384, 90) + "its end";
  EXPECT_EQ(size_in(program, "f", 80), 128U);
  EXPECT_EQ(size_in(program, "f", 90), 256U);
  EXPECT_EQ(size_in(program, "ff", 90), 384U);
  EXPECT_EQ(size_in(program, "f", 100), std::nullopt);
  EXPECT_EQ(size_in(program, "g", 90), std::nullopt);
  EXPECT_EQ(size_in(cubin("f", 512, 90, 7), "f", 90), 512U);
}

TEST(CodeSize, IsUnknownInATruncatedFile) {
  const std::string whole = cubin("f", 128, 90);
  ASSERT_EQ(size_in(whole, "f", 90), 128U);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(size_in(whole.substr(0, size), "f", 90), std::nullopt) << size;
  }
}

TEST(CodeSize, FindsThisProgram) {
  const std::vector<std::byte> program = own_program();
  ASSERT_GE(program.size(), sizeof(Elf64_Ehdr));
  EXPECT_EQ(std::memcmp(program.data(), ELFMAG, SELFMAG), 0);
}

}  // namespace
}  // namespace shardstream::experiments::execution
