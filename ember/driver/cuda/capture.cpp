#include "ember/driver/cuda/capture.h"

#include <string>
#include <utility>

#include "ember/driver/cuda/call_gate.h"

namespace ember::inline v0::driver::cuda {
namespace {

/// A thing of a graph's, and how it is destroyed.
struct Kept {
  void* thing;
  void (*destroy)(void*);
};

void CUDA_CB destroy_kept(void* argument) {
  auto* const kept = static_cast<Kept*>(argument);
  bool& no_calls = CallsOfThread::mine().in_host_function;
  const bool before = std::exchange(no_calls, true);
  if (kept->destroy != nullptr) kept->destroy(kept->thing);
  no_calls = before;
  delete kept;
}

void destroy_context(void* context) { delete static_cast<Ref<const Context>*>(context); }

}  // namespace

Status refuse_captured(CUstream stream, const char* what) noexcept {
  if (captures_here.load(std::memory_order_relaxed) == 0 || captured_graph(stream) == nullptr)
      [[likely]]
    return {};
  (void)api.cuStreamQuery(stream);  // which nobody may do: that invalidates the capture
  return Status(Code::stream_capture_unsupported,
                std::string(what) +
                    " cannot be done while the stream is part of a capture; the "
                    "capture is invalid now");
}

CUresult keep_for_graph(CUgraph graph, void* thing, void (*destroy)(void*)) noexcept {
  auto* const kept = new Kept{thing, destroy};
  CUuserObject object = nullptr;
  CUresult result =
      api.cuUserObjectCreate(&object, kept, &destroy_kept, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) {
    delete kept;
    return result;
  }
  result = api.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (result == CUDA_SUCCESS) return result;
  kept->destroy = nullptr;  // the caller's again
  (void)api.cuUserObjectRelease(object, 1);
  return result;
}

CUresult keep_for_capture(CUstream stream, const Ref<const Context>& context) noexcept {
  const CUgraph graph = captured_graph(stream);
  if (graph == nullptr) return CUDA_SUCCESS;
  auto* const owner = new Ref<const Context>(context);
  const CUresult result = keep_for_graph(graph, owner, &destroy_context);
  if (result != CUDA_SUCCESS) delete owner;
  return result;
}

}  // namespace ember::inline v0::driver::cuda
