# The architectures of a build for any machine follow the toolkit; presets name one for development.

execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code
  OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(CMAKE_CUDA_ARCHITECTURES "")
foreach(architecture 70 75 80 86 89 90 100 120)
  if(known MATCHES "sm_${architecture}(\n|$)")
    list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
    set(newest ${architecture})
  endif()
endforeach()
list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)
