"""What of the CUDA runtime ``cudart()`` shows. Results are CUDA's numbers of errors, 0 for success."""

from ember._C.cuda import (_cudaGetErrorString as cudaGetErrorString,
                           _cudaHostRegister as cudaHostRegister,
                           _cudaHostUnregister as cudaHostUnregister,
                           _cudaProfilerStart as cudaProfilerStart,
                           _cudaProfilerStop as cudaProfilerStop,
                           _cudaStreamCreate as cudaStreamCreate,
                           _cudaStreamDestroy as cudaStreamDestroy,
                           mem_get_info as cudaMemGetInfo)

__all__ = ["cudaGetErrorString", "cudaHostRegister", "cudaHostUnregister", "cudaProfilerStart",
           "cudaProfilerStop", "cudaStreamCreate", "cudaStreamDestroy", "cudaMemGetInfo"]
