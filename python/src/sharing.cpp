// What ember.multiprocessing is made of: storages by handles, shared memory of the CPU, leases.
// What of it is pickled, and when, is decided in Python.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "python.h"

namespace ember::python {
namespace {

/// A storage as an object of its own, so that views of it can name it in a message.
struct StorageObject {
  Ref<Storage> storage;
};

std::span<const std::uint8_t> span_of(const nb::bytes& bytes) {
  return {static_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

template <std::size_t size>
nb::bytes bytes_of(const std::array<std::uint8_t, size>& bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

/// What a message says of a tensor besides its storage.
nb::tuple described(const Tensor& self) {
  const auto numbers = [](const Shape& shape) {
    nb::list list;
    for (const std::int64_t number : shape) list.append(number);
    return nb::tuple(list);
  };
  return nb::make_tuple(self.dtype(), numbers(self.sizes()), numbers(self.strides()),
                        self.storage_offset(), self.device().str());
}

/// What described() says over a storage, which knows its device, or over none, on `device`, where
/// there are no elements. It may come from anywhere: the view is checked against the storage.
Tensor rebuilt(const StorageObject* storage, Dtype dtype, const Sizes& sizes, const Sizes& strides,
               std::int64_t offset, const std::string& device) {
  if (storage != nullptr)
    return Tensor(storage->storage, dtype, sizes.shape(), strides.shape(), offset);
  Device place(device);
  if (place.is_cuda()) place = Device(Device::Type::cuda, cuda::DeviceArg(place).existing());
  return unlocked([&] {
    return Tensor(Storage::allocate(place, 0), dtype, sizes.shape(), strides.shape(), 0);
  });
}

}  // namespace

void bind_sharing(nb::class_<Tensor>& tensor, nb::module_& m) {
  nb::class_<StorageObject>(m, "_Storage", nb::is_weak_referenceable())
      .def(
          "__eq__",
          [](const StorageObject& self, const StorageObject& other) {
            return self.storage == other.storage;
          },
          nb::is_operator(), nb::sig("def __eq__(self, other: object, /) -> bool"));
  m.def(
      "_ipc_storage",
      [](const Tensor& tensor) {
        return unlocked([&] { return StorageObject{ipc::shared_copy(tensor.storage())}; });
      },
      nb::arg("tensor"));
  m.def(
      "_ipc_storage_key",
      [](const Tensor& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.storage().get()); },
      nb::arg("tensor"));
  m.def(
      "_ipc_send",
      [](const StorageObject& storage) {
        return bytes_of(unlocked([&] { return ipc::send(storage.storage); }));
      },
      nb::arg("storage"));
  m.def(
      "_ipc_receive",
      [](const nb::bytes& handle) {
        const auto bytes = span_of(handle);
        return unlocked([&] { return StorageObject{ipc::receive(bytes)}; });
      },
      nb::arg("handle"));
  m.def(
      "_ipc_withdraw",
      [](const nb::bytes& handle) {
        const auto bytes = span_of(handle);
        unlocked([&] { ipc::withdraw(bytes); });
      },
      nb::arg("handle"));
  m.def("_ipc_withdraw_all", [] { unlocked([] { ipc::withdraw_all(); }); });
  m.def("_ipc_unreceived", [] { return unlocked([] { return ipc::unreceived(); }); });
  m.def(
      "_end_with_parent",
      [](int parent) {
        if (parent == 0) return;
        prctl(PR_SET_PDEATHSIG, SIGINT);
        if (getppid() != parent) raise(SIGINT);  // it ended before
      },
      nb::arg("parent"),
      "This process is interrupted when its parent, of that number, ends. Nothing for 0.");
  m.def("_ipc_collect", [] { unlocked([] { ipc::collect(); }); });
  m.def("_ipc_undone", [] { return unlocked([] { return ipc::undone(); }); });
  m.def("_ipc_end", [] { unlocked([] { ipc::end_process(); }); });
  m.def(
      "_ipc_leases",
      [] {
        nb::list all;
        for (const ipc::Lease& lease : unlocked([] { return ipc::leases(); }))
          all.append(nb::make_tuple(lease.granted, lease.process, lease.device, lease.bytes,
                                    lease.failed));
        return all;
      },
      nb::sig("def _ipc_leases() -> list[tuple[bool, int, str, int, bool]]"));
  m.def("_ipc_described", &described, nb::arg("tensor"),
        nb::sig("def _ipc_described(tensor: Tensor) -> tuple[typing.Any, ...]"));
  m.def("_ipc_rebuilt", &rebuilt, nb::arg("storage").none(), nb::arg("dtype"), nb::arg("size"),
        nb::arg("stride"), nb::arg("storage_offset"), nb::arg("device"));
  tensor
      .def(
          "share_memory_",
          [](const Tensor& self) {
            unlocked([&] { ipc::share_memory_(self); });
            return same_object(self);
          },
          nb::sig("def share_memory_(self) -> Tensor"),
          "Moves the tensor to memory that processes share; nothing if it is there, and on CUDA "
          "devices. Tensors that were views of its memory keep what it leaves.")
      .def(
          "is_shared", [](const Tensor& self) { return ipc::is_shared(self); },
          "Whether the memory can be shared with other processes as it is: True on CUDA devices.");
}

}  // namespace ember::python
