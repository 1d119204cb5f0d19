#include "ember/memory/snapshot_file.h"

#include "ember/base/bytes.h"
#include "ember/base/error.h"
#include "ember/memory/pickle.h"

namespace ember::inline v0::cuda {

std::string snapshot_json(std::string_view pickle) {
  memory::Pickled pickled;
  std::string text;
  Status status = memory::read_pickle(pickle, pickled);
  if (status.ok()) status = memory::write_json(pickled, kGiB, text);
  if (!status.ok()) throw ValueError(status.detail());
  return text;
}

}  // namespace ember::inline v0::cuda
