# Flags for everything in this project: C++20, warnings, sanitizers, ccache.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(EMBER_CCACHE ccache)
if(EMBER_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths are taken as seen from the build folder, so that what was compiled in one is found for others
  # as far below the sources, as are those of the package's tests.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${EMBER_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()

# What a library gives to others is marked (ember/base/export.h).
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# g++ collects its garbage from 128 MB on; that it does so from 512 MB on saves a twentieth of its time,
# and a tenth where much is instantiated.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)

add_library(ember_flags INTERFACE)
target_compile_features(ember_flags INTERFACE cxx_std_20)
target_include_directories(ember_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Calls within a library need not go through its table of symbols.
target_compile_options(ember_flags INTERFACE
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-semantic-interposition>)
target_link_options(ember_flags INTERFACE -Wl,-Bsymbolic-functions)
target_compile_options(ember_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast>
  # A loop that -O1 does not vectorise, though it is asked to, is no fault of the source.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety$<SEMICOLON>-Wno-pass-failed>
  # nvcc's own glue is not pedantic-clean.
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # A false alarm of g++ 12 at -O3 on `"text" + std::string()` (gcc.gnu.org bug 105651).
  target_compile_options(ember_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(EMBER_WERROR)
  target_compile_options(ember_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()
if(EMBER_SANITIZE)
  set(sanitize -fsanitize=${EMBER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(ember_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${sanitize}>)
  # Casts of tensors give what the machine gives for numbers that do not fit, as PyTorch's do; clang
  # counts that to what is undefined, g++ does not.
  if(EMBER_SANITIZE MATCHES "undefined")
    target_compile_options(ember_flags INTERFACE
      $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=float-cast-overflow>)
  endif()
  target_link_options(ember_flags INTERFACE -fsanitize=${EMBER_SANITIZE})
  # With sanitizers g++ takes what an empty std::optional holds for used (gcc.gnu.org bug 80635).
  target_compile_options(ember_flags INTERFACE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
endif()
# For the shared libraries and the Python module. The unwinder stays shared: exceptions cross from one
# library to the other, which two unwinders of their own cannot do.
add_library(ember_runtime_flags INTERFACE)
if(EMBER_STATIC_RUNTIME)
  target_link_options(ember_runtime_flags INTERFACE -static-libstdc++ -shared-libgcc)
endif()
find_package(Threads REQUIRED)
target_link_libraries(ember_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
