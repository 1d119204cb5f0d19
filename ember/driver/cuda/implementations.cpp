#include "ember/driver/cuda/implementations.h"

#include <string_view>
#include <unordered_map>

#include "ember/base/no_destructor.h"

namespace ember::inline v0::driver::cuda {
namespace {
// Filled while the object is loaded, which is one thread's work.
constinit Implementations* first = nullptr;
}  // namespace

Implementations::Implementations(std::span<const NamedImplementation> implementations,
                                 std::uint64_t arguments) noexcept
    : implementations_(implementations), arguments_(arguments), next_(first) {
  first = this;
}

kernels::Found implementation(const char* kernel) noexcept {
  using Index = std::unordered_map<std::string_view, kernels::Found>;
  static NoDestructor<Index> index([] {
    Index made;
    for (const Implementations* table = first; table != nullptr; table = table->next_)
      for (const NamedImplementation& entry : table->implementations_)
        made.emplace(entry.name, kernels::Found{entry.implementation, table->arguments_});
    return made;
  }());
  const auto found = index->find(kernel);
  return found == index->end() ? kernels::Found() : found->second;
}

}  // namespace ember::inline v0::driver::cuda
