#include "ember/fuse/kernels.h"

#include <future>
#include <system_error>
#include <unordered_map>

#include "ember/base/mutex.h"
#include "ember/base/no_destructor.h"

namespace ember::inline v0::fusion {
namespace {

/// The kernels of the process, by all that decides what they are.
struct Kernels {
  Mutex mutex;
  std::unordered_map<std::string, Ref<const jit::CompiledKernel>> all EMBER_GUARDED_BY(mutex);
  std::unordered_map<std::string, Sweeps::Needs> needs EMBER_GUARDED_BY(mutex);
};
Kernels& kernels() {
  static NoDestructor<Kernels> made;
  return *made;
}

std::string key_of(const Graph& graph, bool precise) { return graph.key() + (precise ? 'p' : 'l'); }

std::string key_of(const Graph& graph, const jit::Instance& instance, int target, bool precise) {
  std::string key = key_of(graph, precise);
  key += jit::text_of(jit::key_of(instance, target));
  return key;
}

/// Null if it is not there yet.
Ref<const jit::CompiledKernel> find(const std::string& key) {
  Kernels& known = kernels();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(key);
  if (found == known.all.end()) return {};
  return found->second;
}

}  // namespace

Ref<const jit::CompiledKernel> kernel_of(const Graph& graph, const jit::Instance& instance,
                                         Device device, bool precise, const std::string& name) {
  const int target = jit::target_of(device);
  const std::string key = key_of(graph, instance, target, precise);
  if (Ref<const jit::CompiledKernel> found = find(key)) return found;
  jit::Signature signature;
  signature.name = name;
  Ref<const jit::CompiledKernel> made =
      jit::compiled(instance.rows.used ? Sweeps(graph, precise, instance.rows.whole).statements()
                                       : graph.statements(precise),
                    signature, instance, target);
  Kernels& known = kernels();
  const MutexLock lock(known.mutex);
  known.all.emplace(key, made);
  return made;
}

std::vector<Ref<const jit::CompiledKernel>> kernels_of(std::span<const WantedKernel> wanted,
                                                       Device device, bool precise,
                                                       const std::string& name) {
  using Kernel = Ref<const jit::CompiledKernel>;
  const int target = jit::target_of(device);
  const auto get = [&](const WantedKernel& each) {
    return kernel_of(*each.graph, *each.instance, device, precise, name);
  };
  std::vector<std::future<Kernel>> others(wanted.size());
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    if (find(key_of(*wanted[i].graph, *wanted[i].instance, target, precise))) continue;
    try {
      others[i] = std::async(std::launch::async, get, wanted[i]);
    } catch (const std::system_error&) {
      // Without another thread it is compiled by this one.
    }
  }
  std::vector<Kernel> made;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    made.push_back(others[i].valid() ? others[i].get() : get(wanted[i]));
  return made;
}

Sweeps::Needs needs_of(const Graph& graph, bool precise) {
  std::string key = key_of(graph, precise);
  for (const Dtype input : graph.inputs) key += static_cast<char>(input);
  Kernels& known = kernels();
  const MutexLock lock(known.mutex);
  const auto found = known.needs.find(key);
  if (found != known.needs.end()) return found->second;
  return known.needs[key] = Sweeps(graph, precise, true).needs();
}

}  // namespace ember::inline v0::fusion
