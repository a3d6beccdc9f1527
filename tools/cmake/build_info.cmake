# flopcast::build_info: the version, stated once in project(), and what this build contains, as
# constants in "build_info.h".
set(FLOPCAST_WITH_REPORT OFF)
if(EXISTS ${PROJECT_SOURCE_DIR}/tools/viewer)
  set(FLOPCAST_WITH_REPORT ON)
endif()
foreach(part CUDA NCCL MPI REPORT)
  if(FLOPCAST_WITH_${part})
    set(FLOPCAST_HAS_${part} true)
  else()
    set(FLOPCAST_HAS_${part} false)
  endif()
endforeach()
file(RELATIVE_PATH FLOPCAST_DATA_FROM_BIN
  /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_DATADIR}/flopcast)
configure_file(${PROJECT_SOURCE_DIR}/tools/cmake/build_info.h.in
               ${PROJECT_BINARY_DIR}/generated/flopcast/build_info.h @ONLY)

add_library(flopcast_build_info INTERFACE)
add_library(flopcast::build_info ALIAS flopcast_build_info)
target_sources(flopcast_build_info INTERFACE FILE_SET HEADERS
  BASE_DIRS ${PROJECT_BINARY_DIR}/generated/flopcast
  FILES ${PROJECT_BINARY_DIR}/generated/flopcast/build_info.h)
target_compile_features(flopcast_build_info INTERFACE cxx_std_20)
set_target_properties(flopcast_build_info PROPERTIES EXPORT_NAME build_info)
install(TARGETS flopcast_build_info EXPORT flopcast-targets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flopcast)
