#include "ember/driver/cuda/implementations.h"

#include <string_view>
#include <unordered_map>

#include "ember/base/no_destructor.h"

namespace ember::inline v0::driver::cuda {
namespace {
// Filled while the object is loaded, which is one thread's work.
constinit Implementations* first = nullptr;
}  // namespace

Implementations::Implementations(std::span<const NamedImplementation> implementations) noexcept
    : implementations_(implementations), next_(first) {
  first = this;
}

CudaImplementation implementation(const char* kernel) noexcept {
  using Index = std::unordered_map<std::string_view, CudaImplementation>;
  static NoDestructor<Index> index([] {
    Index made;
    for (const Implementations* table = first; table != nullptr; table = table->next_)
      for (const NamedImplementation& entry : table->implementations_)
        made.emplace(entry.name, entry.implementation);
    return made;
  }());
  const auto found = index->find(kernel);
  return found == index->end() ? nullptr : found->second;
}

}  // namespace ember::inline v0::driver::cuda
