# cmake -DHOW=installed|static|subdirectory|fetched -DEMBER=<sources> -DEMBER_BUILD=<build folder>
#       -DWORK=<scratch folder> -DGENERATOR=... -DCOMPILER=... [-DCACHE=ccache] -P use.cmake
#
# Configures, builds and runs the project in consumer/ against ember.

cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
  -DCMAKE_CXX_COMPILER=${COMPILER})
if(CACHE)
  list(APPEND configure -DCMAKE_CXX_COMPILER_LAUNCHER=${CACHE})
endif()
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK})

if(HOW STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${EMBER_BUILD} --prefix ${prefix})
elseif(HOW STREQUAL "static")
  run(${configure} -S ${EMBER} -B ${WORK}/ember -DBUILD_SHARED_LIBS=OFF -DEMBER_CUDA=OFF
    -DEMBER_TESTS=OFF -DEMBER_EXAMPLES=OFF -DEMBER_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${WORK}/ember)
  run(${CMAKE_COMMAND} --install ${WORK}/ember --prefix ${prefix})
endif()
foreach(internal sim cuda)
  if(EXISTS ${prefix}/include/ember/driver/${internal})
    message(FATAL_ERROR "the headers of driver/${internal} were installed")
  endif()
endforeach()

run(${configure} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer
  -DHOW=${HOW} -DEMBER=${EMBER} -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${CMAKE_COMMAND} -E env --unset=EMBER_DEVICES --unset=CUDA_VISIBLE_DEVICES
  ${WORK}/consumer/consumer)
message(STATUS "${output}")
