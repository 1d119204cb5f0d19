#include "ember/driver/cuda/graph_nodes.h"

#include <cstring>
#include <limits>
#include <string_view>

#include "ember/driver/compiled.h"
#include "ember/driver/cuda/functions.h"

namespace ember::inline v0::driver::cuda {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);

/// Whether it is a function of this library, by its mangled name: of others (libraries, programs)
/// nobody knows where they keep addresses.
bool is_own(std::string_view name) noexcept {
  return name.starts_with("_ZN5ember2v0") || name == kCompiledEntry;
}
std::string_view name_of(CUfunction function) noexcept {
  const char* name = nullptr;
  if (api.cuFuncGetName(&name, function) != CUDA_SUCCESS || name == nullptr) return {};
  return name;
}

CUgraphNode node_of(std::uint64_t number) noexcept {
  return reinterpret_cast<CUgraphNode>(static_cast<std::uintptr_t>(number));
}
std::uint64_t number_of(CUgraphNode node) noexcept {
  return reinterpret_cast<std::uintptr_t>(node);
}

/// Moves an address of a copy or fill, as the word that it is.
template <class Pointer>
bool change(ArgumentBinding& addresses, Pointer& pointer) noexcept {
  static_assert(sizeof pointer == kWord);
  return addresses.change(std::as_writable_bytes(std::span(&pointer, 1)), kFirstIsAddress);
}

}  // namespace

Status GraphNodes::look_at(CUgraphNode node, Node& out) const {
  out.node = node;
  const auto failed = [](CUresult result) {
    return failure(result, "looking at a node of a graph");
  };
  if (const CUresult result = api.cuGraphNodeGetType(node, &out.type); result != CUDA_SUCCESS)
    return failed(result);
  CUresult result = CUDA_SUCCESS;
  switch (out.type) {
    case CU_GRAPH_NODE_TYPE_MEMCPY: result = api.cuGraphMemcpyNodeGetParams(node, &out.copy); break;
    case CU_GRAPH_NODE_TYPE_MEMSET: result = api.cuGraphMemsetNodeGetParams(node, &out.fill); break;
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      result = api.cuGraphKernelNodeGetParams_v2(node, &out.kernel);
      if (result == CUDA_SUCCESS && out.kernel.func == nullptr)
        result = api.cuKernelGetFunction(&out.kernel.func, out.kernel.kern);
      if (result != CUDA_SUCCESS) break;
      const std::string_view name = name_of(out.kernel.func);
      out.own = out.kernel.kernelParams != nullptr && is_own(name);
      const std::span<const AddressPlaces> places = Functions::parameters_of(out.kernel.func);
      // How many parameters a kernel has is known of those whose places are, and of compiled ones.
      const std::size_t count = name == kCompiledEntry ? 1
                                : places.empty()       ? std::numeric_limits<std::size_t>::max()
                                                       : places.size();
      std::size_t offset = 0, size = 0;
      for (std::size_t k = 0;
           out.own && k < count &&
           api.cuFuncGetParamInfo(out.kernel.func, k, &offset, &size) == CUDA_SUCCESS;
           ++k) {
        const std::size_t at = out.bytes.size();
        out.bytes.resize(at + (size + kWord - 1) / kWord * kWord);
        std::memcpy(&out.bytes[at], out.kernel.kernelParams[k], size);
        AddressPlaces addresses = k < places.size() ? places[k] : AddressPlaces();
        if (name == kCompiledEntry && size >= sizeof(CompiledHeader)) {
          CompiledHeader header;
          std::memcpy(&header, &out.bytes[at], sizeof header);
          addresses = compiled_addresses(header);
        }
        out.parameters.push_back({at, size, addresses});
      }
      break;
    }
    default: break;
  }
  return result == CUDA_SUCCESS ? Status() : failed(result);
}

Status GraphNodes::nodes_of(std::uint64_t last, std::vector<Node>*& out) {
  const auto found = known_.find(last);
  if (found != known_.end()) {
    out = &found->second;
    return {};
  }
  std::vector<Node> made;
  std::unordered_set<std::uint64_t> seen{last};
  std::vector<CUgraphNode> left{node_of(last)};
  while (!left.empty()) {
    const CUgraphNode node = left.back();
    left.pop_back();
    EMBER_TRY(look_at(node, made.emplace_back()));
    std::size_t count = 0;
    CUresult result = api.cuGraphNodeGetDependencies_v2(node, nullptr, nullptr, &count);
    std::vector<CUgraphNode> before(count);
    if (result == CUDA_SUCCESS && count != 0)
      result = api.cuGraphNodeGetDependencies_v2(node, before.data(), nullptr, &count);
    if (result != CUDA_SUCCESS) return failure(result, "asking what a node of a graph waits for");
    for (const CUgraphNode each : before)
      if (last_.count(number_of(each)) == 0 && seen.insert(number_of(each)).second)
        left.push_back(each);
  }
  out = &known_.emplace(last, std::move(made)).first->second;
  return {};
}

Status GraphNodes::set(CUgraphExec exec, const Node& node, std::vector<std::byte>& bytes) {
  CUDA_KERNEL_NODE_PARAMS_v2 params = node.kernel;
  std::vector<void*> pointers;
  pointers.reserve(node.parameters.size() + 1);
  for (const Node::Parameter& each : node.parameters) pointers.push_back(&bytes[each.offset]);
  pointers.push_back(nullptr);
  params.kernelParams = pointers.data();
  params.extra = nullptr;
  const CUresult result = api.cuGraphExecKernelNodeSetParams_v2(exec, node.node, &params);
  return result == CUDA_SUCCESS ? Status()
                                : failure(result, "giving a kernel of a graph other memory");
}

Status GraphNodes::bind(CUgraphExec exec, const GraphRebinding& binding) {
  if (api.cuFuncGetName == nullptr || api.cuFuncGetParamInfo == nullptr ||
      api.cuGraphNodeGetDependencies_v2 == nullptr)
    return Status(
        Code::not_supported,
        "other memory for a graph's work needs an NVIDIA driver of version 12.4 or newer");
  CUcontext context = nullptr;
  if (const CUresult result = api.cuCtxGetCurrent(&context); result != CUDA_SUCCESS)
    return failure(result, "asking for the current context");
  std::vector<std::byte> bytes;
  for (const NodeBinding& each : binding.nodes) {
    if (each.node == 0)
      return cannot_rebind(each.name, "which node of the graph it is cannot be told");
    std::vector<Node>* nodes = nullptr;
    EMBER_TRY(nodes_of(each.node, nodes));
    ArgumentBinding addresses(each, binding.memory);
    const std::span<const Rebound> memory =
        each.addresses.empty() ? std::span<const Rebound>() : binding.memory;
    for (Node& node : *nodes) {
      const bool was_changed = node.changed;
      CUresult result = CUDA_SUCCESS;
      switch (node.type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
          if (!node.own) {
            if (memory.empty()) break;
            return cannot_rebind(each.name,
                                 "it is a kernel of a library's or of the program's, of which "
                                 "nobody knows where it keeps addresses");
          }
          bytes = node.bytes;
          node.changed = false;
          if (!memory.empty())
            for (const Node::Parameter& of : node.parameters)
              node.changed |=
                  addresses.change(std::span(bytes).subspan(of.offset, of.bytes), of.addresses);
          if (node.changed || was_changed) EMBER_TRY(set(exec, node, bytes));
          break;
        case CU_GRAPH_NODE_TYPE_MEMCPY: {
          CUDA_MEMCPY3D copy = node.copy;
          node.changed = false;
          if (!memory.empty()) {
            node.changed |= change(addresses, copy.srcDevice);
            node.changed |= change(addresses, copy.dstDevice);
            node.changed |= change(addresses, copy.srcHost);
            node.changed |= change(addresses, copy.dstHost);
          }
          if (node.changed || was_changed)
            result = api.cuGraphExecMemcpyNodeSetParams(exec, node.node, &copy, context);
          break;
        }
        case CU_GRAPH_NODE_TYPE_MEMSET: {
          CUDA_MEMSET_NODE_PARAMS fill = node.fill;
          node.changed = !memory.empty() && change(addresses, fill.dst);
          if (node.changed || was_changed)
            result = api.cuGraphExecMemsetNodeSetParams(exec, node.node, &fill, context);
          break;
        }
        default: break;
      }
      if (result != CUDA_SUCCESS) return failure(result, "giving work of a graph other memory");
    }
    if (!memory.empty()) EMBER_TRY(addresses.finish());
  }
  return {};
}

}  // namespace ember::inline v0::driver::cuda
