# Where the headers of ducc0 are, which compute Fourier transforms on the CPU and on simulated
# devices. Sets EMBER_DUCC0_INCLUDE_DIR; without them the library is built, and those transforms say
# what is missing. ./dev unpacks them under build/; wheels are built elsewhere and get them by
# EMBER_FETCH_HEADERS (pyproject.toml), or are not built.

find_path(EMBER_DUCC0_INCLUDE_DIR ducc0/fft/fftnd_impl.h
  HINTS ${PROJECT_SOURCE_DIR}/build/ducc0/src
  DOC "The folder that holds ducc0/fft/fft.h, or nothing")
if(EMBER_FETCH_HEADERS AND EMBER_DUCC0_INCLUDE_DIR MATCHES "NOTFOUND$")
  set(ember_python ${Python_EXECUTABLE})
  if(NOT ember_python)
    set(ember_python python3)
  endif()
  execute_process(COMMAND ${ember_python} ${PROJECT_SOURCE_DIR}/tools/fetch_headers.py
    ${PROJECT_BINARY_DIR}/ducc0 RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    message(FATAL_ERROR "EMBER_FETCH_HEADERS=ON, but the headers of ducc0 could not be got from a registry:\n"
      "${said}\nThey are what Fourier transforms on the CPU and on simulated devices are compiled with. "
      "EMBER_DUCC0_INCLUDE_DIR names a folder that has them (src/ in ducc0's source package); "
      "EMBER_FETCH_HEADERS=OFF builds without those transforms. To pip: "
      "--config-settings=cmake.define.EMBER_FETCH_HEADERS=OFF")
  endif()
  set(EMBER_DUCC0_INCLUDE_DIR ${PROJECT_BINARY_DIR}/ducc0/src CACHE PATH
    "The folder that holds ducc0/fft/fft.h, or nothing" FORCE)
endif()
mark_as_advanced(EMBER_DUCC0_INCLUDE_DIR)
if(EMBER_DUCC0_INCLUDE_DIR)
  message(STATUS "ember: Fourier transforms on the CPU by ducc0 in ${EMBER_DUCC0_INCLUDE_DIR}")
else()
  message(STATUS "ember: without Fourier transforms on the CPU and on simulated devices: "
    "the headers of ducc0 were not found (EMBER_DUCC0_INCLUDE_DIR)")
endif()
