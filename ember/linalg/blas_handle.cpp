// A handle of cuBLAS for users' own calls.
#include "ember/base/error.h"
#include "ember/driver/driver.h"
#include "ember/linalg/linalg.h"
#include "ember/linalg/product.h"
#include "ember/linalg/workspace.h"
#include "ember/runtime/runtime.h"

namespace ember::inline v0::cuda {

::cublasContext* current_blas_handle() {
  const int device = current_device();
  const Stream stream = current_stream(device);
  // A workspace where there is something that works in it; products on one stream follow each
  // other, whoever asks for them, and share it.
  linalg::Workspace space;
  if (!get_device_properties(device).simulated)
    space = linalg::workspace(Device(Device::Type::cuda, device));
  void* handle = nullptr;
  const Status status = active_driver().blas_handle(stream.handle(), linalg::precision_bits(),
                                                    space.data, space.bytes, handle);
  if (status.code() == Code::not_supported) throw Error(status.detail());
  check(status);
  return static_cast<::cublasContext*>(handle);
}

}  // namespace ember::inline v0::cuda
