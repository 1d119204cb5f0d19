// ember.Tensor: what it is.
#include "define.h"
#include "schemas.h"

namespace ember::python {

std::string renamed(std::string signature, const OtherName& parameter) {
  const std::string name = std::string(parameter.name) + ": ";
  for (std::size_t at = 0; (at = signature.find(name, at)) != std::string::npos; ++at)
    if (signature[at - 1] == ' ' || signature[at - 1] == '(')
      signature.replace(at, name.size() - 2, parameter.other);
  return signature;
}

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor> tensor(m, "Tensor",
                            "Elements of one dtype on one device, seen through sizes and strides.",
                            nb::is_weak_referenceable(), nb::dynamic_attr());
  tensor
      .def("__init__",
           [](nb::handle, const nb::args&, const nb::kwargs&) {
             throw TypeError(
                 "ember.Tensor is a type, and no function that makes tensors: ember.empty(2, 3) "
                 "makes one of these sizes, ember.tensor([1.5, 2]) one of these elements");
           })
      .def_prop_ro("dtype", [](const Tensor& self) { return self.dtype(); })
      .def_prop_ro("device", [](const Tensor& self) { return self.device(); })
      .def_prop_ro("shape", [](const Tensor& self) { return self.sizes(); })
      .def_prop_ro("ndim", [](const Tensor& self) { return self.dim(); })
      .def_prop_ro("is_cuda", [](const Tensor& self) { return self.is_cuda(); })
      .def_prop_ro("is_cpu", [](const Tensor& self) { return !self.is_cuda(); })
      .def_prop_ro("itemsize", [](const Tensor& self) { return self.element_size(); })
      .def_prop_ro("nbytes", [](const Tensor& self) { return self.nbytes(); })
      .def_prop_rw(
          "requires_grad", [](const Tensor&) { return false; },
          [](const Tensor&, bool requires_grad) { require_no_gradient(requires_grad); },
          "False: ember computes no gradients. To assign True is an error.")
      .def_prop_ro(
          "is_leaf", [](const Tensor&) { return true; }, "True: nothing is computed for gradients.")
      .def(
          "requires_grad_",
          [](Tensor& self, bool requires_grad) {
            require_no_gradient(requires_grad);
            return same_object(self);
          },
          nb::arg("requires_grad") = true,
          nb::sig("def requires_grad_(self, requires_grad: bool = True) -> Tensor"),
          "The tensor itself; an error with True, since ember computes no gradients.")
      .def(
          "dim", [](const Tensor& self) { return self.dim(); }, "The number of dimensions.")
      .def("ndimension", [](const Tensor& self) { return self.dim(); })
      .def(
          "numel", [](const Tensor& self) { return self.numel(); }, "The number of elements.")
      .def("nelement", [](const Tensor& self) { return self.numel(); })
      .def(
          "element_size", [](const Tensor& self) { return self.element_size(); },
          "Bytes of one element.")
      .def(
          "data_ptr",
          [](const Tensor& self) {
            unlocked([] {
              cuda::settle_deferred();
              cuda::Batch::hand_over();
            });
            if (self.is_cuda()) tell_exposed(self, "data_ptr");
            return reinterpret_cast<std::uintptr_t>(unlocked([&] { return self.data_ptr(); }));
          },
          "The address of the first element, on its device; 0 if there is none.")
      .def("storage_offset", [](const Tensor& self) { return self.storage_offset(); })
      .def("is_contiguous", [](const Tensor& self) { return self.is_contiguous(); })
      .def("is_floating_point", [](const Tensor& self) { return self.is_floating_point(); })
      .def("is_complex", [](const Tensor& self) { return self.is_complex(); })
      .def(
          "is_pinned",
          [](const Tensor& self, const DeviceLike& device) {
            device.place();  // whether it names a device: there is one kind to be pinned for
            return self.is_pinned();
          },
          nb::arg("device") = nb::none(),
          "Whether the memory is page-locked. Never initialises CUDA.")
      .def(
          "size", [](const Tensor& self) { return self.sizes(); },
          "All sizes, or that of one dimension.")
      .def(
          "size", [](const Tensor& self, std::int64_t dim) { return self.size(dim); },
          nb::arg("dim"))
      .def(
          "size", [](const Tensor& self, std::int64_t dim) { return self.size(dim); },
          nb::arg("axis"))
      .def(
          "stride",
          [](const Tensor& self) {
            nb::list strides;
            for (const std::int64_t stride : self.strides()) strides.append(stride);
            return nb::tuple(strides);
          },
          "All strides, or that of one dimension, in elements.")
      .def(
          "stride", [](const Tensor& self, std::int64_t dim) { return self.stride(dim); },
          nb::arg("dim"))
      .def(
          "stride", [](const Tensor& self, std::int64_t dim) { return self.stride(dim); },
          nb::arg("axis"))
      .def("__repr__", [](const Tensor& self) { return unlocked([&] { return self.str(); }); })
      .def("__len__",
           [](const Tensor& self) {
             if (self.dim() == 0) throw TypeError("len() of a 0-d tensor");
             return self.sizes()[0];
           })
      .def(
          "__hash__",
          [](nb::handle self) { return reinterpret_cast<std::intptr_t>(self.ptr()); },  // id(self)
          nb::sig("def __hash__(self) -> int"));
  m.def(
      "is_tensor", [](nb::handle obj) { return nb::isinstance<Tensor>(obj); },
      nb::arg("obj").none());
  m.def(
      "is_floating_point", [](const Tensor& input) { return input.is_floating_point(); },
      nb::arg("input"));
  m.def(
      "is_complex", [](const Tensor& input) { return input.is_complex(); }, nb::arg("input"));
  both(
      tensor, m, "get_device", [](const Tensor& input) { return input.get_device(); },
      "The index of the CUDA device; -1 on the CPU.");
  both(
      tensor, m, "is_signed", [](const Tensor& input) { return is_signed(input.dtype()); },
      "Whether its dtype has negative numbers.");
  m.def(
      "numel", [](const Tensor& input) { return input.numel(); }, nb::arg("input"));
  bind_views(tensor, m);
  note_views(tensor);
  bind_copies(tensor, m);
  bind_values(tensor, m);
  bind_indexing(tensor, m);
  bind_elementwise(tensor, m);
  bind_arranging(tensor, m);
  bind_counting(tensor, m);
  bind_factories(tensor, m);
  bind_pickling(tensor);
  bind_numpy(tensor, m);
  bind_dlpack(tensor, m);
  bind_reductions(tensor, m);
  bind_products(tensor, m);
  bind_fft(tensor, m);
  bind_random(tensor, m);
  bind_sharing(tensor, m);
  bind_printing(m);
}

}  // namespace ember::python
