# cmake -DHOW=installed|static|static_runtime|subdirectory|fetched -DEMBER=<sources>
#       -DEMBER_BUILD=<build folder> -DWORK=<scratch folder> -DBUILD=<another> -DGENERATOR=...
#       -DCOMPILER=... [-DCACHE=ccache] [-DPYTHON=<interpreter>] -P use.cmake
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

set(configure ${CMAKE_COMMAND} -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER})
# Nothing of this build's is in the compiler's cache for an ember that is a part of another project: it is
# compiled as fast as can be.
if(HOW MATCHES "^(subdirectory|fetched)$")
  list(APPEND configure -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0)
else()
  list(APPEND configure -DCMAKE_BUILD_TYPE=Release)
endif()
set(prefix ${WORK}/prefix)
file(REMOVE_RECURSE ${WORK} ${BUILD})

if(HOW STREQUAL "installed")
  run(${CMAKE_COMMAND} --install ${EMBER_BUILD} --prefix ${prefix})
elseif(HOW STREQUAL "static")
  run(${configure} -S ${EMBER} -B ${BUILD} -DBUILD_SHARED_LIBS=OFF -DEMBER_CUDA=OFF -DEMBER_PYTHON=OFF
    -DEMBER_TESTS=OFF -DEMBER_EXAMPLES=OFF -DEMBER_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${BUILD})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
elseif(HOW STREQUAL "static_runtime")
  run(${configure} -S ${EMBER} -B ${BUILD} -DEMBER_STATIC_RUNTIME=ON -DEMBER_CUDA=OFF -DEMBER_PYTHON=ON
    -DPython_EXECUTABLE=${PYTHON} -DEMBER_TESTS=OFF -DEMBER_EXAMPLES=OFF -DEMBER_BENCH=OFF)
  run(${CMAKE_COMMAND} --build ${BUILD} --target ember ember_python)
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
  file(GLOB module ${BUILD}/python/ember/_C.*.so)
  run(${CMAKE_CURRENT_LIST_DIR}/exports.sh ${BUILD}/lib/libember.so ${EMBER})
  run(${CMAKE_CURRENT_LIST_DIR}/exports.sh ${module} ${EMBER} PyInit__C)
  # Other packages bring a runtime of their own into the process.
  foreach(order before after)
    run(${CMAKE_COMMAND} -E env PYTHONPATH=${BUILD}/python EMBER_DEVICES=sim:2
      ${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/static_runtime.py ${module} ${order} numpy)
    message(STATUS "${output}")
  endforeach()
  # So does the Python suite with all of them that are installed. Left out is what the others cannot
  # change: what is marked so, types, and tests that run in processes of their own. Each test runs in one
  # of the orders.
  execute_process(COMMAND ${PYTHON} -c "import pytest" RESULT_VARIABLE without_pytest ERROR_QUIET)
  file(GLOB suite ${EMBER}/tests/python/test_*.py)
  list(FILTER suite EXCLUDE REGEX "test_(interrupt|large|process|typing)\\.py$")
  if(without_pytest)
    message(STATUS "tests of the Python package left out: pytest was not found")
  else()
    foreach(order before after)
      run(${CMAKE_COMMAND} -E env PYTHONPATH=${BUILD}/python:${CMAKE_CURRENT_LIST_DIR}
        PYTHONDONTWRITEBYTECODE=1 EMBER_DEVICES=sim:3@1GiB EMBER_TEST_PACKAGES=${order}
        ${PYTHON} -m pytest -m "not once" --rootdir=${EMBER} -c ${EMBER}/pyproject.toml -p other_packages --every-other ${suite})
      message(STATUS "${output}")
    endforeach()
  endif()
endif()

# Installed are the headers that lie in ember/ itself and in ember/testing/, what they include, and
# what that includes, and nothing else: an internal header that users can include is one that cannot be changed any more.
function(expect_public_headers_only include)
  set(expected)
  file(GLOB unread RELATIVE ${EMBER} ${EMBER}/ember/*.h ${EMBER}/ember/testing/*.h)
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

# Nothing that is installed knows where it was built: neither to look for something there, nor in
# what it tells CMake. (Debug information, which names sources, is left aside.)
function(expect_no_build_path)
  file(GLOB_RECURSE libraries ${prefix}/lib*/*.so ${prefix}/lib*/*.a)
  if(NOT libraries)
    message(FATAL_ERROR "no library was installed in ${prefix}")
  endif()
  foreach(library ${libraries})
    run(${STRIP} --strip-debug ${library})
  endforeach()
  foreach(path ${EMBER_BUILD} ${EMBER}/ember ${BUILD})
    execute_process(COMMAND grep -rlF ${path} ${prefix} OUTPUT_VARIABLE found)
    if(found)
      message(FATAL_ERROR "${path} stands in\n${found}")
    endif()
  endforeach()
endfunction()
if(HOW MATCHES "^(installed|static|static_runtime)$")
  expect_no_build_path()
endif()

# A project around ember asks for the cache itself.
if(CACHE)
  set(ENV{CCACHE_BASEDIR} ${EMBER})
  list(APPEND configure -DCMAKE_CXX_COMPILER_LAUNCHER=${CACHE})
endif()
run(${configure} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/consumer
  -DHOW=${HOW} -DEMBER=${EMBER} -DCMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK}/consumer)
run(${CMAKE_COMMAND} -E env --unset=EMBER_DEVICES --unset=CUDA_VISIBLE_DEVICES
  ${WORK}/consumer/consumer)
message(STATUS "${output}")
if(EXISTS ${WORK}/consumer/consumer_test)
  run(${CMAKE_COMMAND} -E env --unset=EMBER_DEVICES --unset=EMBER_TEST_SEEDS
    ${WORK}/consumer/consumer_test)
endif()

file(GLOB readme ${WORK}/consumer/readme_*[0-9])
if(HOW STREQUAL "installed" AND NOT readme)
  message(FATAL_ERROR "README.md's examples were not built in ${WORK}/consumer")
endif()
foreach(program ${readme})
  run(${CMAKE_COMMAND} -E env --unset=CUDA_VISIBLE_DEVICES EMBER_DEVICES=sim:2 ${program})
  message(STATUS "${output}")
endforeach()
