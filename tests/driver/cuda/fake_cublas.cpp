// A fake libcublas.so.13 that counts handles and remembers what was asked of each.
#include "fake_cublas.h"

extern "C" {

extern __attribute__((visibility("default"))) FakeCublas fake_cublas;
FakeCublas fake_cublas;

int cublasCreate_v2(FakeHandle** handle) {
  if (fake_cublas.no_more_handles) return 3;  // allocation failed
  if (fake_cublas.made == FakeCublas::kMost) return 3;
  *handle = &fake_cublas.handles[fake_cublas.made++];
  return 0;
}
const char* cublasGetStatusName(int status) {
  return status == 3 ? "CUBLAS_STATUS_ALLOC_FAILED" : "CUBLAS_STATUS_OTHER";
}
int cublasSetStream_v2(FakeHandle* handle, void* stream) {
  handle->stream = stream;
  handle->workspace = nullptr;  // as the real one does
  handle->bytes = 0;
  return 0;
}
int cublasSetWorkspace_v2(FakeHandle* handle, void* workspace, std::size_t bytes) {
  handle->workspace = workspace;
  handle->bytes = bytes;
  return 0;
}
int cublasSetMathMode(FakeHandle* handle, int mode) {
  handle->mode = mode;
  return 0;
}
}
