# Decides whether profilers are told of ranges, and finds NVTX's header for that: that of a CUDA
# toolkit, of the system, or of PyPI's nvidia-nvtx, which ./dev installs into .venv/. It is needed to
# compile one file, and by nobody afterwards. Sets EMBER_BUILD_NVTX.

set(EMBER_BUILD_NVTX OFF)
if(EMBER_NVTX)
  if(NOT EMBER_NVTX_INCLUDE_DIR)
    unset(EMBER_NVTX_INCLUDE_DIR CACHE)  # it may have been installed since the last look
  endif()
  # Wheels keep it in nvidia/cu13/include, or in nvidia/nvtx/include where they are older.
  set(ember_places "")
  foreach(python ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    if(EXISTS ${python})
      execute_process(COMMAND ${python} -c
        "import glob, sys; print(';'.join(x for p in sys.path for x in glob.glob(p + '/nvidia/*/include')))"
        OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      list(APPEND ember_places ${found})
    endif()
  endforeach()
  find_path(EMBER_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS}
    PATHS /usr/local/cuda/include ${ember_places}
    DOC "The folder of nvtx3/nvToolsExt.h")
  if(EMBER_NVTX_INCLUDE_DIR)
    set(EMBER_BUILD_NVTX ON)
  elseif(EMBER_NVTX STREQUAL "ON")
    message(FATAL_ERROR "EMBER_NVTX=ON, but nvtx3/nvToolsExt.h was not found: install a CUDA toolkit or "
      "nvidia-nvtx (pip), or set EMBER_NVTX_INCLUDE_DIR")
  else()
    message(STATUS "ember: without NVTX: nvtx3/nvToolsExt.h (pip install nvidia-nvtx) was not found, so "
      "profilers will not see ranges")
  endif()
endif()
