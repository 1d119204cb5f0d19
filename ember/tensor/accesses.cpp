#include "ember/tensor/accesses.h"

#include "ember/runtime/deferred.h"

namespace ember::inline v0::ops {
namespace {

cuda::Access access(const Tensor& tensor, bool writes, const char* argument) {
  if (tensor.numel() == 0) return {nullptr, 0, writes};
  const Shape& sizes = tensor.sizes();
  const Shape& strides = tensor.strides();
  std::int64_t last = 0;
  for (int i = 0; i < tensor.dim(); ++i) last += (sizes[i] - 1) * strides[i];
  cuda::Access made{tensor.address(), static_cast<std::size_t>(last + 1) * tensor.element_size(),
                    writes};
  made.argument = argument;
  // Without gaps every byte counts.
  if (last + 1 == tensor.numel()) return made;
  made.item = static_cast<std::uint32_t>(tensor.element_size());
  made.sizes = sizes;
  made.strides = strides;
  return made;
}

}  // namespace

cuda::Access reads(const Tensor& tensor, const char* argument) {
  return access(tensor, false, argument);
}
cuda::Access writes(const Tensor& tensor, const char* argument) {
  return access(tensor, true, argument);
}

void tell_host_access(const char* name, std::span<const cuda::Access> accesses) {
  cuda::notify([&]() -> cuda::Activity {
    return {.kind = cuda::Activity::Kind::host_accessed,
            .name = name,
            .accesses = accesses,
            .accesses_known = true};
  });
  cuda::detail::throw_failure();
}

void host_reads(const char* name, const Tensor& tensor) {
  cuda::settle_deferred();
  if (!cuda::observed()) [[likely]]
    return;
  const cuda::Access read = reads(tensor);
  tell_host_access(name, {&read, 1});
}

void host_reads(const char* name, const Storage& storage) {
  cuda::settle_deferred();
  if (!cuda::observed()) [[likely]]
    return;
  const cuda::Access read{storage.data(), storage.bytes(), false};
  tell_host_access(name, {&read, 1});
}

void tell_exposed(const char* name, const Tensor& tensor) {
  if (!cuda::observed() || tensor.nbytes() == 0) return;
  const void* const address = tensor.address();  // before what must not throw
  cuda::notify([&]() -> cuda::Activity {
    return {.kind = cuda::Activity::Kind::host_exposed,
            .name = name,
            .address = address,
            .bytes = tensor.nbytes()};
  });
}

}  // namespace ember::inline v0::ops
