// Snapshots of memory: read_pickle, what it made as JSON, and compare_snapshots.

#include <string>

#include "ember/base/error.h"
#include "ember/memory/pickle.h"
#include "ember/memory/snapshot_file.h"
#include "fuzz.h"

namespace {

using ember::memory::Pickled;
using namespace std::literals;

constexpr std::string_view kExamples[] = {
    "\x80\x02N."sv,
    "\x80\x04\x95\x20\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x08segments\x94]\x94("
    "K\x01M\x02\x01J\xff\xff\xff\xff"
    "eu."sv,
    "\x80\x05]\x94(G?"
    "\xf0\x00\x00\x00\x00\x00\x00\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00\x88\x89\x85\x86\x87h"
    "\x00"
    "e."sv,
    "\x80\x03}q\x00X\x01\x00\x00\x00aq\x01]r\x02\x00\x00\x00j\x00\x00\x00\x00as."sv,
    "\x80\x04(K\x01K\x02t1)0(lp0\n."sv,
    "\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x02ls\x85R."sv,
    // A segment with a block.
    "\x80\x04}(\x8c\x08segments](}(\x8c\x0atotal_sizeK\x09\x8c\x06"
    "blocks](}(\x8c\x04sizeK\x09"
    "\x8c\x05state\x8c\x06"
    "active\x8c\x06"
    "frames](}(\x8c\x04nameNueueueu."sv,
    "\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff"
    "x."sv};

}  // namespace

std::span<const std::string_view> fuzz::examples() { return kExamples; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = fuzz::text(data, size);
  Pickled pickled;
  pickled.root = 77;
  const ember::Status status = read_pickle(bytes, pickled);
  if (!status.ok()) {
    fuzz::expect(status.code() == ember::Code::invalid_value, "the code is invalid_value");
    fuzz::expect(status.detail().find(", at byte ") != std::string::npos, "an error has an offset");
    fuzz::expect(pickled.root == 77 && pickled.values.empty(), "a failure leaves nothing behind");
    return 0;
  }
  fuzz::expect(pickled.values.size() <= size, "there are no more values than bytes");
  fuzz::expect(pickled.root < pickled.values.size(), "the root is there");
  std::size_t items = 0;
  for (const Pickled::Value& value : pickled.values) {
    items += value.items.size();
    for (const Pickled::Index item : value.items)
      fuzz::expect(item < pickled.values.size(), "items are there");
  }
  fuzz::expect(items <= size, "there are no more items than bytes");
  std::string text = "before";
  const ember::Status written = write_json(pickled, 10000, text);
  fuzz::expect(written.ok() || text == "before", "a failure leaves no text behind");
  try {
    const auto same = ember::cuda::compare_snapshots(bytes, bytes);
    fuzz::expect(same.changed.empty(), "nothing has changed between a snapshot and itself");
  } catch (const ember::ValueError&) {
  }
  return 0;
}
