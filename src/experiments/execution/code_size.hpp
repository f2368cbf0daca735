// The size of a kernel's machine code, which no function of CUDA returns. nvcc stores a cubin for
// each architecture in the program: a 64-bit ELF file, with the code of the kernel NAME in the
// section .text.NAME.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace shardstream::experiments::execution {

/// The bytes of `kernel`, by its mangled name, for an architecture such as 90 for sm_90, in a file
/// that contains cubins (ELF specification, and the fields e_machine and e_flags of cubins). Code
/// is padded to a multiple of 128 bytes. Empty if there is none, for example since cubins are
/// compressed or the driver has compiled the kernel from PTX.
std::optional<std::uint64_t> code_size(std::span<const std::byte> program, std::string_view kernel,
                                       unsigned architecture);

/// The file of this program; empty if it cannot be read.
std::vector<std::byte> own_program();

}  // namespace shardstream::experiments::execution
