# Where the headers of ducc0 are, which compute Fourier transforms on the CPU and on simulated
# devices. Sets EMBER_DUCC0_INCLUDE_DIR; without them the library is built, and those transforms say
# what is missing. ./dev unpacks them under build/.

find_path(EMBER_DUCC0_INCLUDE_DIR ducc0/fft/fftnd_impl.h
  HINTS ${PROJECT_SOURCE_DIR}/build/ducc0/src
  DOC "The folder that holds ducc0/fft/fft.h, or nothing")
mark_as_advanced(EMBER_DUCC0_INCLUDE_DIR)
if(EMBER_DUCC0_INCLUDE_DIR)
  message(STATUS "ember: Fourier transforms on the CPU by ducc0 in ${EMBER_DUCC0_INCLUDE_DIR}")
else()
  message(STATUS "ember: without Fourier transforms on the CPU and on simulated devices: "
    "the headers of ducc0 were not found (EMBER_DUCC0_INCLUDE_DIR)")
endif()
