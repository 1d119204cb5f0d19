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
  run(${configure} -S ${EMBER} -B ${WORK}/ember -DBUILD_SHARED_LIBS=OFF -DEMBER_CUDA=OFF -DEMBER_PYTHON=OFF
    -DEMBER_TESTS=OFF -DEMBER_EXAMPLES=OFF -DEMBER_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${WORK}/ember)
  run(${CMAKE_COMMAND} --install ${WORK}/ember --prefix ${prefix})
endif()

# Installed are the headers that lie in ember/ itself, what they include, and what that includes,
# and nothing else: an internal header that users can include is one that cannot be changed any more.
function(expect_public_headers_only include)
  set(expected)
  file(GLOB unread RELATIVE ${EMBER} ${EMBER}/ember/*.h)
  while(unread)
    list(POP_FRONT unread header)
    if(header IN_LIST expected)
      continue()
    endif()
    list(APPEND expected ${header})
    if(EXISTS ${include}/${header})
      file(STRINGS ${include}/${header} lines REGEX "^#include \"ember/")
      list(TRANSFORM lines REPLACE "^#include \"([^\"]+)\".*" "\\1")
      list(APPEND unread ${lines})
    endif()
  endwhile()
  file(GLOB_RECURSE installed RELATIVE ${include} ${include}/*)
  list(SORT expected)
  list(SORT installed)
  if(NOT installed STREQUAL expected)
    set(missing ${expected})
    list(REMOVE_ITEM missing ${installed})
    list(REMOVE_ITEM installed ${expected})
    message(FATAL_ERROR "The list of public headers in ember/CMakeLists.txt is wrong.\n"
      "Included by a public header, but not installed: ${missing}\n"
      "Installed, but included by no public header: ${installed}")
  endif()
endfunction()
if(HOW MATCHES "^(installed|static)$")
  expect_public_headers_only(${prefix}/include)
endif()

run(${configure} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer
  -DHOW=${HOW} -DEMBER=${EMBER} -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${CMAKE_COMMAND} -E env --unset=EMBER_DEVICES --unset=CUDA_VISIBLE_DEVICES
  ${WORK}/consumer/consumer)
message(STATUS "${output}")

file(GLOB readme ${WORK}/consumer/readme_*[0-9])
if(HOW STREQUAL "installed" AND NOT readme)
  message(FATAL_ERROR "README.md's examples were not built in ${WORK}/consumer")
endif()
foreach(program ${readme})
  run(${CMAKE_COMMAND} -E env --unset=CUDA_VISIBLE_DEVICES EMBER_DEVICES=sim:2 ${program})
  message(STATUS "${output}")
endforeach()
