// copy.copy, copy.deepcopy and pickle of tensors. A pickled tensor is its dtype, sizes and strides,
// the bytes that these span, and the name of its device.
#include <algorithm>
#include <cstring>

#include "python.h"

namespace ember::python {
namespace {

/// A tensor object's own attributes, which copies have too; None if there are none.
nb::object attributes_of(nb::handle self) {
  nb::object attributes = nb::getattr(self, "__dict__", nb::none());
  return attributes.is_none() || nb::len(attributes) == 0 ? nb::none() : attributes;
}

void set_attributes(nb::handle made, nb::handle attributes) {
  if (!attributes.is_none()) made.attr("__dict__").attr("update")(attributes);
}

/// The memory of a storage, from its beginning.
Tensor whole(const Ref<Storage>& storage) {
  return Tensor(storage, Dtype::uint8, {static_cast<std::int64_t>(storage->bytes())}, {1});
}

/// The view that `self` is, of a copy of its storage. Views that share memory share it in the copy
/// too: `memo`, which copy.deepcopy passes along, has the storages that were copied.
Tensor deep_copy(const Tensor& self, nb::dict memo) {
  const Ref<Storage>& storage = self.storage();
  if (storage->bytes() == 0) return unlocked([&] { return self.clone(); });
  const nb::object key =
      nb::make_tuple("ember.storage", reinterpret_cast<std::uintptr_t>(storage.get()));
  if (!memo.contains(key)) {
    const Tensor original = whole(storage);
    const Tensor copy = unlocked([&] { return original.clone(); });
    memo[key] = nb::make_tuple(original, copy);  // the original, so that its address stays its own
  }
  const nb::object pair = memo[key];
  const auto copy = nb::cast<Tensor>(pair[1]);
  return Tensor(copy.storage(), self.dtype(), self.sizes(), self.strides(), self.storage_offset());
}

/// How many elements lie from the first to behind the last.
std::int64_t span_of(const Tensor& self) {
  if (self.numel() == 0) return 0;
  std::int64_t last = 0;
  for (int i = 0; i < self.dim(); ++i) last += (self.sizes()[i] - 1) * self.strides()[i];
  return last + 1;
}

nb::bytes bytes_of(const Tensor& self) {
  const Tensor host = unlocked([&] { return self.as_strided({span_of(self)}, {1}).cpu(); });
  unlocked([&] { ops::host_reads("__reduce_ex__", host); });
  return nb::bytes(host.address(), host.nbytes());
}

nb::tuple numbers(const Shape& shape) {
  nb::list list;
  for (const std::int64_t number : shape) list.append(number);
  return nb::tuple(list);
}

nb::tuple state_of(nb::handle self) {
  const auto& value = nb::cast<const Tensor&>(self);
  return nb::make_tuple(value.dtype(), numbers(value.sizes()), numbers(value.strides()),
                        bytes_of(value), value.device().str(), attributes_of(self));
}

/// What state_of was made of. The bytes may come from anywhere: the view is checked against them.
Tensor rebuild(const nb::tuple& state) {
  if (state.size() != 6)
    throw ValueError("a pickled tensor of " + std::to_string(state.size()) +
                     " parts, expected 6: made by another version?");
  const auto dtype = nb::cast<Dtype>(state[0]);
  const Shape sizes = nb::cast<Sizes>(state[1]).shape();
  const Shape strides = nb::cast<Sizes>(state[2]).shape();
  const auto data = nb::cast<nb::bytes>(state[3]);
  const nb::object device = state[4];
  const auto item = static_cast<std::int64_t>(item_size(dtype));
  const auto bytes = static_cast<std::int64_t>(data.size());
  if (bytes % item != 0)
    throw ValueError("a pickled tensor of " + std::to_string(bytes) +
                     " bytes, expected whole elements of " + std::to_string(item));
  const Tensor host = empty({bytes / item}, dtype);
  if (bytes > 0) std::memcpy(host.address(), data.data(), data.size());
  const Options options = options_of({}, DeviceLike{device});
  return unlocked([&] { return host.to(options).as_strided(sizes, strides); });
}

}  // namespace

nb::object reduce_by_newer_protocol(nb::handle self, int protocol) {
  const nb::handle base(reinterpret_cast<PyObject*>(&PyBaseObject_Type));
  return base.attr("__reduce_ex__")(self, std::max(protocol, 2));
}

void bind_pickling(nb::class_<Tensor>& tensor) {
  tensor
      .def(
          "__copy__",
          [](nb::handle self) {
            nb::object made = nb::cast(nb::cast<const Tensor&>(self).alias());
            set_attributes(made, attributes_of(self));
            return made;
          },
          nb::sig("def __copy__(self) -> Tensor"))
      .def(
          "__deepcopy__",
          [](nb::handle self, nb::dict memo) {
            nb::object made = nb::cast(deep_copy(nb::cast<const Tensor&>(self), memo));
            memo[nb::int_(reinterpret_cast<std::uintptr_t>(self.ptr()))] = made;
            const nb::object attributes = attributes_of(self);
            if (!attributes.is_none())
              set_attributes(made, nb::module_::import_("copy").attr("deepcopy")(attributes, memo));
            return made;
          },
          nb::arg("memo"),
          nb::sig("def __deepcopy__(self, memo: dict[typing.Any, typing.Any], /) -> Tensor"))
      .def("__getstate__", &state_of)
      .def("__reduce_ex__", &reduce_by_newer_protocol, nb::sig(kReduceSignature))
      .def("__setstate__", [](nb::pointer_and_handle<Tensor> self, const nb::tuple& state) {
        new (self.p) Tensor(rebuild(state));
        nb::inst_mark_ready(self.h);
        set_attributes(self.h, state[5]);
      });
}

}  // namespace ember::python
