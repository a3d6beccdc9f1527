# The installed package: libraries and headers of every folder, the data, and the config file.
set(data_dir ${CMAKE_INSTALL_DATADIR}/flopcast)
foreach(folder scenarios/catalogue scenarios/examples scenarios/published scenarios/schema
       calibration/profiles calibration/data)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder})
    get_filename_component(parent ${folder} DIRECTORY)
    install(DIRECTORY ${folder} DESTINATION ${data_dir}/${parent})
  endif()
endforeach()

# Static libraries hand their outside libraries on to whoever links them: one find_dependency for
# each "package::target" (or bare package) that flopcast_library() was given.
get_property(outside_libraries GLOBAL PROPERTY FLOPCAST_OUTSIDE_LIBRARIES)
list(REMOVE_DUPLICATES outside_libraries)
set(FLOPCAST_FIND_DEPENDENCIES "")
foreach(library ${outside_libraries})
  string(REGEX REPLACE "::.*" "" package ${library})
  if(package MATCHES "^flopcast" OR package MATCHES "[<>/]")
    continue()
  elseif(library MATCHES "^Boost::(graph|regex|serialization)$")
    string(APPEND FLOPCAST_FIND_DEPENDENCIES "find_dependency(Boost COMPONENTS ${CMAKE_MATCH_1})\n")
  elseif(package STREQUAL "CUDA")
    string(APPEND FLOPCAST_FIND_DEPENDENCIES "find_dependency(CUDAToolkit)\n")
  else()
    string(APPEND FLOPCAST_FIND_DEPENDENCIES "find_dependency(${package})\n")
  endif()
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flopcast)
configure_package_config_file(tools/cmake/flopcast-config.cmake.in
  ${PROJECT_BINARY_DIR}/flopcast-config.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS data_dir)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/flopcast-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/flopcast-config.cmake
              ${PROJECT_BINARY_DIR}/flopcast-config-version.cmake
        DESTINATION ${package_dir})
install(EXPORT flopcast-targets NAMESPACE flopcast:: DESTINATION ${package_dir})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
