#include "ember/fuse/kernels.h"

#include <functional>
#include <future>
#include <system_error>
#include <unordered_map>
#include <utility>

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

using Kernel = Ref<const jit::CompiledKernel>;

/// Null if it is not there yet.
Kernel find(const std::string& key) {
  Kernels& known = kernels();
  const MutexLock lock(known.mutex);
  const auto found = known.all.find(key);
  if (found == known.all.end()) return {};
  return found->second;
}

Kernel make(const std::string& key, const WantedKernel& wanted, int target, bool precise,
            const std::string& name) {
  const auto& [graph, instance] = wanted;
  jit::Signature signature;
  signature.name = name;
  Kernel made =
      jit::compiled(instance->rows.used ? Sweeps(*graph, precise, instance->rows.whole).statements()
                                        : graph->statements(precise),
                    signature, *instance, target);
  Kernels& known = kernels();
  const MutexLock lock(known.mutex);
  known.all.emplace(key, made);
  return made;
}

}  // namespace

Ref<const jit::CompiledKernel> kernel_of(const Graph& graph, const jit::Instance& instance,
                                         Device device, bool precise, const std::string& name) {
  const int target = jit::target_of(device);
  const std::string key = key_of(graph, instance, target, precise);
  if (Kernel found = find(key)) return found;
  return make(key, {&graph, &instance}, target, precise, name);
}

std::vector<Ref<const jit::CompiledKernel>> kernels_of(std::span<const WantedKernel> wanted,
                                                       Device device, bool precise,
                                                       const std::string& name) {
  const int target = jit::target_of(device);
  std::vector<Kernel> made;
  struct Missing {
    std::size_t place;
    std::string key;
    std::future<Kernel> kernel;
  };
  std::vector<Missing> missing;
  for (const WantedKernel& each : wanted) {
    std::string key = key_of(*each.graph, *each.instance, target, precise);
    made.push_back(find(key));
    if (!made.back()) missing.push_back({made.size() - 1, std::move(key), {}});
  }
  // This thread compiles one, and what there is no thread for.
  const auto compile = [&](const Missing& each) {
    return make(each.key, wanted[each.place], target, precise, name);
  };
  for (std::size_t i = 1; i < missing.size(); ++i) try {
      missing[i].kernel = std::async(std::launch::async, compile, std::cref(missing[i]));
    } catch (const std::system_error&) {
      break;
    }
  for (Missing& each : missing)
    made[each.place] = each.kernel.valid() ? each.kernel.get() : compile(each);
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
