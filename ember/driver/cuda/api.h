// The CUDA driver API as one table of function pointers, filled from libcuda.so.1 when the driver
// is opened. Nothing links against libcuda, so that this object can be opened where there is none.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include <cstddef>
#include <string>

#include "ember/base/status.h"

namespace ember::inline v0::driver::cuda {

// The names under which libcuda exports what cuda.h declares. They are written out with their
// suffix, because cuda.h hides a suffix behind a macro whose meaning changes with the toolkit.
#define EMBER_CUDA_CALLS(CALL)            \
  CALL(cuInit)                            \
  CALL(cuGetErrorName)                    \
  CALL(cuGetErrorString)                  \
  CALL(cuDeviceGet)                       \
  CALL(cuDeviceGetCount)                  \
  CALL(cuDeviceGetName)                   \
  CALL(cuDeviceGetUuid_v2)                \
  CALL(cuDeviceGetAttribute)              \
  CALL(cuDeviceTotalMem_v2)               \
  CALL(cuDeviceCanAccessPeer)             \
  CALL(cuDevicePrimaryCtxGetState)        \
  CALL(cuDevicePrimaryCtxRetain)          \
  CALL(cuDevicePrimaryCtxRelease_v2)      \
  CALL(cuDevicePrimaryCtxReset_v2)        \
  CALL(cuCtxGetCurrent)                   \
  CALL(cuCtxGetDevice)                    \
  CALL(cuCtxSetCurrent)                   \
  CALL(cuCtxSynchronize)                  \
  CALL(cuCtxGetStreamPriorityRange)       \
  CALL(cuCtxEnablePeerAccess)             \
  CALL(cuCtxDisablePeerAccess)            \
  CALL(cuMemAlloc_v2)                     \
  CALL(cuMemFree_v2)                      \
  CALL(cuMemGetInfo_v2)                   \
  CALL(cuMemGetAllocationGranularity)     \
  CALL(cuMemAddressReserve)               \
  CALL(cuMemAddressFree)                  \
  CALL(cuMemCreate)                       \
  CALL(cuMemRelease)                      \
  CALL(cuMemMap)                          \
  CALL(cuMemUnmap)                        \
  CALL(cuMemSetAccess)                    \
  CALL(cuMemRetainAllocationHandle)       \
  CALL(cuMemExportToShareableHandle)      \
  CALL(cuMemImportFromShareableHandle)    \
  CALL(cuMemHostRegister_v2)              \
  CALL(cuMemHostUnregister)               \
  CALL(cuMemHostGetDevicePointer_v2)      \
  CALL(cuPointerGetAttributes)            \
  CALL(cuStreamCreateWithPriority)        \
  CALL(cuStreamDestroy_v2)                \
  CALL(cuStreamQuery)                     \
  CALL(cuStreamSynchronize)               \
  CALL(cuStreamWaitEvent)                 \
  CALL(cuEventCreate)                     \
  CALL(cuEventDestroy_v2)                 \
  CALL(cuEventRecordWithFlags)            \
  CALL(cuEventQuery)                      \
  CALL(cuEventSynchronize)                \
  CALL(cuEventElapsedTime)                \
  CALL(cuKernelGetFunction)               \
  CALL(cuLibraryLoadData)                 \
  CALL(cuLibraryGetKernel)                \
  CALL(cuLaunchKernel)                    \
  CALL(cuLaunchHostFunc)                  \
  CALL(cuMemcpyAsync)                     \
  CALL(cuMemsetD8Async)                   \
  CALL(cuMemsetD16Async)                  \
  CALL(cuMemsetD32Async)                  \
  CALL(cuStreamBeginCapture_v2)           \
  CALL(cuStreamEndCapture)                \
  CALL(cuThreadExchangeStreamCaptureMode) \
  CALL(cuGraphGetNodes)                   \
  CALL(cuGraphInstantiateWithFlags)       \
  CALL(cuGraphLaunch)                     \
  CALL(cuGraphDebugDotPrint)              \
  CALL(cuGraphNodeGetType)                \
  CALL(cuGraphKernelNodeGetParams_v2)     \
  CALL(cuGraphMemcpyNodeGetParams)        \
  CALL(cuGraphMemsetNodeGetParams)        \
  CALL(cuGraphExecKernelNodeSetParams_v2) \
  CALL(cuGraphExecMemcpyNodeSetParams)    \
  CALL(cuGraphExecMemsetNodeSetParams)    \
  CALL(cuGraphDestroy)                    \
  CALL(cuGraphExecDestroy)                \
  CALL(cuGraphRetainUserObject)           \
  CALL(cuUserObjectCreate)                \
  CALL(cuUserObjectRelease)               \
  CALL(cuStreamWriteValue64_v2)           \
  CALL(cuStreamWaitValue64_v2)            \
  CALL(cuIpcGetMemHandle)                 \
  CALL(cuIpcOpenMemHandle_v2)             \
  CALL(cuIpcCloseMemHandle)               \
  CALL(cuIpcGetEventHandle)               \
  CALL(cuIpcOpenEventHandle)              \
  CALL(cuProfilerStart)                   \
  CALL(cuProfilerStop)

struct Api {
#define EMBER_CUDA_POINTER(name) decltype(&::name) name = nullptr;
  EMBER_CUDA_CALLS(EMBER_CUDA_POINTER)
#undef EMBER_CUDA_POINTER
  // cuda.h of toolkits from 13 on declares later versions only.
  CUresult (*cuStreamGetCaptureInfo_v2)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*,
                                        const CUgraphNode**, std::size_t*) = nullptr;
  // Null where the driver is older than 12.4, whose headers lack them, too. The third parameter is
  // of a type of the data of edges.
  CUresult (*cuFuncGetName)(const char**, CUfunction) = nullptr;
  CUresult (*cuFuncGetParamInfo)(CUfunction, std::size_t, std::size_t*, std::size_t*) = nullptr;
  CUresult (*cuGraphNodeGetDependencies_v2)(CUgraphNode, CUgraphNode*, void*,
                                            std::size_t*) = nullptr;
};

/// Constant once load_api() has succeeded; every pointer is null before.
extern Api api;

/// Opens libcuda.so.1, checks its version, fills `api` and initialises CUDA. To be called once.
///   no_device            libcuda.so.1 is missing (the detail starts with its name), is a stub, or
///                        finds no device
///   insufficient_driver  the NVIDIA driver is older than this object needs
Status load_api();

/// A CUresult as a code: the numbers are the same (base/status.h).
constexpr Code to_code(CUresult result) noexcept { return static_cast<Code>(result); }

/// `what` as the detail of `result`; names the CUDA error when `code_text` does not know it.
Status failure(CUresult result, std::string what);

}  // namespace ember::inline v0::driver::cuda
