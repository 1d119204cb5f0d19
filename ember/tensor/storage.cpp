#include "ember/tensor/storage.h"

#include <cstdlib>
#include <utility>

#include "ember/base/bytes.h"
#include "ember/base/error.h"

namespace ember {
namespace {

// Wide enough for every vector instruction, and no two storages share a line of the cache.
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kTooLarge = std::size_t{1} << 60;

void* allocate_host(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  void* data =
      bytes < kTooLarge
          ? std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)
          : nullptr;
  if (data == nullptr)
    throw Error("DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                std::to_string(bytes) + " bytes.");
  return data;
}

}  // namespace

Ref<Storage> Storage::allocate(Device device, std::size_t bytes, bool pinned) {
  Ref<Storage> made(new Storage(device, bytes));
  if (device.is_cuda()) {
    if (pinned)
      throw ValueError("pinned memory on " + device.str() +
                       ": Only dense CPU tensors can be pinned");
    made->buffer_ = cuda::allocate(bytes, cuda::current_stream(device));
    made->data_ = made->buffer_.data();
  } else if (pinned) {
    made->pinned_ = cuda::allocate_pinned(bytes);
    made->data_ = made->pinned_.data();
  } else {
    made->data_ = allocate_host(bytes);
    made->from_malloc_ = true;
  }
  return made;
}

Ref<Storage> Storage::adopt(Device device, void* data, std::size_t bytes,
                            std::function<void()> release) {
  Ref<Storage> made(new Storage(device, bytes));
  made->data_ = data;
  made->release_ = std::move(release);
  return made;
}

Storage::~Storage() {
  if (from_malloc_) std::free(data_);
  if (release_) release_();
}

void Storage::record_stream(const cuda::Stream& stream) const {
  if (device_.is_cuda())
    cuda::record_stream(data_, stream);
  else
    cuda::pinned_record_event(data_, pinned_.context(), stream);
}

}  // namespace ember
