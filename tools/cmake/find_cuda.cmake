# Sets FLOPCAST_WITH_CUDA where the toolkit is found, and turns the language on.
# The toolkit is looked for in its usual places too: nvcc is seldom in the PATH.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CUDAToolkit_FOUND OR NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No CUDA toolkit: no GPU can be measured")
  return()
endif()

# V100, A100, H100 and B200, as far as this toolkit makes code for them (CUDA 13 dropped sm_70).
# The last one also as PTX, so that a later GPU compiles it at start.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code
    OUTPUT_VARIABLE known_code RESULT_VARIABLE failed ERROR_QUIET)
  set(architectures "")
  foreach(architecture 70 80 90 100)
    if(known_code MATCHES "sm_${architecture}[^0-9]")
      list(APPEND architectures ${architecture}-real)
    endif()
  endforeach()
  if(failed OR NOT architectures)
    set(architectures 80)
  else()
    list(POP_BACK architectures last)
    string(REPLACE "-real" "" last ${last})
    list(APPEND architectures ${last})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures to compile for")
endif()

enable_language(CUDA)
set(FLOPCAST_WITH_CUDA ON)
message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
