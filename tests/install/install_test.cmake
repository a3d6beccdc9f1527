# cmake -D build=... -D consumer=... -D compiler=... -D generator=... -D version=... -P install_test.cmake
set(place ${build}/install-test)
file(REMOVE_RECURSE ${place})

function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE failed OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(failed)
    message(FATAL_ERROR "${what} failed:\n${text}")
  endif()
  set(text "${text}" PARENT_SCOPE)
endfunction()

step("install" ${CMAKE_COMMAND} --install ${build} --prefix ${place}/prefix)
step("configuring the consumer" ${CMAKE_COMMAND} -G ${generator} -S ${consumer} -B ${place}/build
  -D CMAKE_PREFIX_PATH=${place}/prefix -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_CXX_FLAGS=${flags})
step("building the consumer" ${CMAKE_COMMAND} --build ${place}/build)
step("running the consumer" ${place}/build/consumer)
if(EXISTS ${place}/prefix/bin/flopcast)
  step("the installed program" ${place}/prefix/bin/flopcast --version)
  string(FIND "${text}" "${version}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "flopcast --version does not say ${version}: ${text}")
  endif()
endif()
