#include "ember/ipc/leasing.h"

#include <utility>

#include "ember/base/error.h"

namespace ember::inline v0::ipc {

void require(const Status& status) {
  if (!status.ok()) throw Error("cannot receive: " + status.detail());
}

Ref<WordsFile> words_of(Service& service, const Process& owner, const Reply& reply,
                        const File& file) {
  const MutexLock lock(service.mutex);
  Imports::Owner& known = *service.imports.find_owner(owner);
  if (!known.words || known.words_number != reply.words) {
    Ref<WordsFile> mapped;
    require(WordsFile::map(file, mapped));
    service.words.retire(std::exchange(known.words, std::move(mapped)));
    known.words_number = reply.words;
  }
  return known.words;
}

std::uint64_t known_words(Service& service, const Process& owner) {
  const MutexLock lock(service.mutex);
  const Imports::Owner& known = *service.imports.find_owner(owner);
  return known.words ? known.words_number : 0;
}

}  // namespace ember::inline v0::ipc
