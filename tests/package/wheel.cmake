# cmake -DEMBER=<sources> -DWORK=<scratch folder> -DBUILD=<another> -DPYTHON=<interpreter>
#       -DDUCC0=<headers> -DCOMPILER=<as this build names it, and so the compiler's cache> -P wheel.cmake
#
# Builds a wheel, installs it, and uses it.

cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

foreach(module scikit_build_core nanobind pip)
  execute_process(COMMAND ${PYTHON} -c "import ${module}" RESULT_VARIABLE absent ERROR_QUIET)
  if(absent)
    message(STATUS "SKIPPED: ${module} was not found")
    return()
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK} ${BUILD})
file(MAKE_DIRECTORY ${WORK}/sources)
file(GLOB sources ${EMBER}/*)
list(FILTER sources EXCLUDE REGEX "/build$")
file(COPY ${sources} DESTINATION ${WORK}/sources)

# Without a registry there is no wheel that lacks a part in silence.
execute_process(COMMAND ${CMAKE_COMMAND} -E env PIP_NO_INDEX=1 ${CMAKE_COMMAND} -S ${WORK}/sources
  -B ${WORK}/refused -DEMBER_FETCH_HEADERS=ON -DEMBER_CUDA=OFF -DEMBER_TESTS=OFF -DEMBER_EXAMPLES=OFF
  -DEMBER_BENCH=OFF -DPython_EXECUTABLE=${PYTHON}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(FIND "${output}" "EMBER_FETCH_HEADERS=ON, but the headers of ducc0 could not be got" said)
if(result EQUAL 0 OR said LESS 0)
  message(FATAL_ERROR "expected an error that says what is missing, got ${result}:\n${output}")
endif()

run(${PYTHON} -m pip wheel --no-build-isolation --no-deps --no-index -w ${WORK}/wheels
  --config-settings=build-dir=${BUILD}
  --config-settings=cmake.define.CMAKE_CXX_COMPILER=${COMPILER}
  --config-settings=cmake.define.EMBER_CUDA=OFF
  --config-settings=cmake.define.EMBER_DUCC0_INCLUDE_DIR=${DUCC0} ${EMBER})
file(GLOB wheel ${WORK}/wheels/ember-*.whl)
run(${PYTHON} -m pip install --no-deps --no-index --no-compile --target ${WORK}/site ${wheel})
run(${CMAKE_COMMAND} -E chdir ${WORK} ${CMAKE_COMMAND} -E env PYTHONPATH=${WORK}/site EMBER_DEVICES=sim:1
  ${PYTHON} ${CMAKE_CURRENT_LIST_DIR}/wheel.py ${WORK}/site)
message(STATUS "${output}")
