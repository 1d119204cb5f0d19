# check.cmake must find everything that is wrong in broken/, and nothing else.

cmake_minimum_required(VERSION 3.25)
set(expected
  "ember/base/asking.h:4: base may not ask whether devices are simulated"
  "ember/base/asking.h:5: base may not ask whether devices are simulated"
  "ember/base/streams.h:4: <sstream>: numbers become text in ember/base/number_text.h"
  "ember/base/tool.h:4: <nvtx3/nvToolsExt.h> belongs to nvtx"
  "ember/base/waiting.h:4: waits are made by ember/runtime/host_wait.h"
  "ember/base/upwards.h:4: base may not include ember/driver/seam.h (driver)"
  "ember/driver/seam.h:3: <cuda_runtime_api.h> belongs to driver/cuda"
  "ember/driver/seam.h:6: driver may not include ember/driver/sim/sideways.h (driver/sim)"
  "ember/driver/seam.h:7: driver may not include ember/everything.h (a header for users)"
  "ember/driver/sim/sideways.h:3: driver/sim may not include ember/driver/cuda/good.h (driver/cuda)"
  "ember/driver/sim/sideways.h:5: write \"ember/...\" instead of \"neighbour.h\""
  "python/src/streams.cpp:1: <iostream>: numbers become text in ember/base/number_text.h"
  "ember/extra/ has no row in docs/architecture.md")

execute_process(
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_LIST_DIR}/broken
    -P ${CMAKE_CURRENT_LIST_DIR}/check.cmake
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "the broken tree passed:\n${output}")
endif()
foreach(line IN LISTS expected)
  string(FIND "${output}" "${line}\n" at)
  if(at EQUAL -1)
    message(SEND_ERROR "not found: ${line}")
  endif()
endforeach()
string(REGEX MATCHALL "(^|\n)(ember|python)/" found "${output}")
list(LENGTH found found)
list(LENGTH expected wanted)
if(NOT found EQUAL wanted)
  message(SEND_ERROR "found ${found} violations instead of ${wanted}:\n${output}")
endif()
