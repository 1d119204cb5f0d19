# cmake -DROOT=<tree> -P check.cmake
#
# docs/architecture.md has a table between <!-- layers --> and <!-- /layers -->: one row per folder
# of ember/, with the folders it may include in the third column. This script fails, naming file and
# line, when an #include in ember/ goes beyond the table:
#   - "ember/<folder>/..." may name the file's own folder and the listed ones;
#   - files directly in ember/ are for users: they may include everything, and no folder may include
#     them, except ember/version.h;
#   - CUDA's headers belong to driver/cuda alone, NVTX's to nvtx;
#   - no streams, locales or regular expressions of the standard library, neither in ember/ nor in
#     python/src: ember/base/number_text.h says why (<iosfwd> only names them);
#   - the driver's functions that wait for work are called by runtime/host_wait.cpp alone above the
#     seam, which counts every wait;
#   - above the seam there is one implementation: only driver/, runtime/ and what tests include may ask
#     whether devices are simulated (is_simulated); what kernels need, they say themselves (KernelNeeds);
#   - a folder with sources must have a row.

cmake_minimum_required(VERSION 3.25)
set(violations "")

function(violation text)
  message(NOTICE "${text}")
  set(violations TRUE PARENT_SCOPE)
endfunction()

# Reads the table: `folders`, and `may_include_<folder>` for each.
function(read_table)
  file(READ ${ROOT}/docs/architecture.md text)
  if(NOT text MATCHES "<!-- layers -->(.*)<!-- /layers -->")
    message(FATAL_ERROR
      "docs/architecture.md: no table between <!-- layers --> and <!-- /layers -->")
  endif()
  string(REPLACE ";" "," table "${CMAKE_MATCH_1}")  # CMake's lists are separated by semicolons
  string(REGEX MATCHALL "\n\\| *`[^\n]*" rows "${table}")
  set(folders "")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^\n\\| *`([^`]*[^`/])/?` *\\|[^|]*\\|([^|]*)\\|" row "${row}")
    set(folder "${CMAKE_MATCH_1}")
    string(REGEX REPLACE "[`, ]+" ";" allowed "${CMAKE_MATCH_2}")
    list(TRANSFORM allowed REPLACE "/$" "")
    list(APPEND folders ${folder})
    set(may_include_${folder} "${allowed}" PARENT_SCOPE)
  endforeach()
  set(folders "${folders}" PARENT_SCOPE)
endfunction()

# The row that a path under ember/ belongs to: the longest one that it starts with.
function(folder_of path result)
  get_filename_component(folder "${path}" DIRECTORY)
  while(folder AND NOT folder IN_LIST folders)
    get_filename_component(folder "${folder}" DIRECTORY)
  endwhile()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()

# "file:line" of the first place where a text stands.
function(place file text result)
  file(READ ${ROOT}/${file} content)
  string(FIND "${content}" "${text}" at)
  string(SUBSTRING "${content}" 0 ${at} before)
  string(REGEX REPLACE "[^\n]" "" newlines "${before}")
  string(LENGTH "${newlines}" line)
  math(EXPR line "${line} + 1")
  set(${result} "${file}:${line}" PARENT_SCOPE)
endfunction()

set(stream_header "(fstream|iomanip|ios|iostream|istream|locale|ostream|regex|spanstream|\
sstream|streambuf|strstream|syncstream|filesystem|format|print|codecvt)")
set(cuda_header "(cu(da|blas|fft|rand|solver|sparse|pti|b/)|nccl|nvml|nvrtc|nvJitLink)")

# The objects behind these headers exist once per C++ runtime, and a library whose runtime is linked
# statically meets those of another one in the same process.
function(refuse_streams file include)
  if(include MATCHES "<(${stream_header})>")
    set(header ${CMAKE_MATCH_1})
    place(${file} "${include}" at)
    violation("${at}: <${header}>: numbers become text in ember/base/number_text.h")
    set(violations TRUE PARENT_SCOPE)
  endif()
endfunction()

read_table()
file(GLOB_RECURSE files RELATIVE ${ROOT}/ember
  ${ROOT}/ember/*.h ${ROOT}/ember/*.inc ${ROOT}/ember/*.cpp ${ROOT}/ember/*.cu ${ROOT}/ember/*.cuh)
set(count 0)
foreach(file IN LISTS files)
  get_filename_component(directory "${file}" DIRECTORY)
  if(directory STREQUAL "")
    continue()
  endif()
  if(NOT directory IN_LIST folders)
    if(NOT directory IN_LIST unlisted)
      list(APPEND unlisted ${directory})
      violation("ember/${directory}/ has no row in docs/architecture.md")
    endif()
    continue()
  endif()

  if(NOT directory MATCHES "^driver(/|$)" AND NOT file STREQUAL "runtime/host_wait.cpp")
    file(STRINGS ${ROOT}/ember/${file} waiting
      REGEX "([.>]|made\\(\\)\\.)(stream_synchronize|event_synchronize|device_synchronize|device_reset|pinned_free|host_unregister)\\(")
    foreach(line IN LISTS waiting)
      if(line MATCHES "source_\\.")  # the allocators' own interface, behind which is HostWait
        continue()
      endif()
      place(ember/${file} "${line}" at)
      violation("${at}: waits are made by ember/runtime/host_wait.h")
    endforeach()
  endif()

  if(NOT directory MATCHES "^(driver|runtime|testing)(/|$)")
    file(STRINGS ${ROOT}/ember/${file} asking REGEX "(is_simulated|[.>]simulated)\\(")
    foreach(line IN LISTS asking)
      place(ember/${file} "${line}" at)
      violation("${at}: ${directory} may not ask whether devices are simulated")
    endforeach()
  endif()

  file(STRINGS ${ROOT}/ember/${file} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(include IN LISTS includes)
    math(EXPR count "${count} + 1")
    refuse_streams(ember/${file} "${include}")
    if(include MATCHES "\"ember/([^\"]*)\"")
      set(included ${CMAKE_MATCH_1})
      folder_of(${included} target)
      set(allowed ${directory} ${may_include_${directory}})
      if(included STREQUAL "version.h" OR (target AND target IN_LIST allowed))
        continue()
      endif()
      if(target STREQUAL "")
        set(target "a header for users")
      endif()
      place(ember/${file} "${include}" at)
      violation("${at}: ${directory} may not include ember/${included} (${target})")
    elseif(include MATCHES "\"([^\"]*)\"")
      place(ember/${file} "${include}" at)
      violation("${at}: write \"ember/...\" instead of \"${CMAKE_MATCH_1}\"")
    elseif(include MATCHES "<(${cuda_header}[^>]*)>"
        AND NOT directory STREQUAL "driver/cuda")
      place(ember/${file} "${include}" at)
      violation("${at}: <${CMAKE_MATCH_1}> belongs to driver/cuda")
    elseif(include MATCHES "<((nvtx|nvToolsExt)[^>]*)>" AND NOT directory STREQUAL "nvtx")
      place(ember/${file} "${include}" at)
      violation("${at}: <${CMAKE_MATCH_1}> belongs to nvtx")
    endif()
  endforeach()
endforeach()

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/python/src/*.h ${ROOT}/python/src/*.cpp)
foreach(file IN LISTS files)
  file(STRINGS ${ROOT}/${file} includes REGEX "^[ \t]*#[ \t]*include")
  foreach(include IN LISTS includes)
    math(EXPR count "${count} + 1")
    refuse_streams(${file} "${include}")
  endforeach()
endforeach()

list(LENGTH folders rows)
if(violations)
  message(FATAL_ERROR "layering: see above; docs/architecture.md says who may include whom")
elseif(count EQUAL 0)
  message(FATAL_ERROR "layering: there is nothing to check in ${ROOT}/ember")
endif()
message(STATUS "layering: ${count} includes keep to the ${rows} rows of the table")
