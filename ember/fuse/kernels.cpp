#include "ember/fuse/kernels.h"

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

}  // namespace

Ref<const jit::CompiledKernel> kernel_of(const Graph& graph, const jit::Instance& instance,
                                         Device device, bool precise, const std::string& name) {
  const int target = jit::target_of(device);
  std::string key = key_of(graph, precise);
  key += jit::text_of(jit::key_of(instance, target));
  Kernels& known = kernels();
  {
    const MutexLock lock(known.mutex);
    if (const auto found = known.all.find(key); found != known.all.end()) return found->second;
  }
  jit::Signature signature;
  signature.name = name;
  Ref<const jit::CompiledKernel> made =
      jit::compiled(instance.rows.used ? Sweeps(graph, precise, instance.rows.whole).statements()
                                       : graph.statements(precise),
                    signature, instance, target);
  const MutexLock lock(known.mutex);
  known.all.emplace(key, made);
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
