#include "ember/memory/snapshot_reader.h"

#include <utility>

#include "ember/base/error.h"

namespace ember::inline v0::memory {
namespace {

using Kind = Pickled::Kind;

}  // namespace

SnapshotReader::SnapshotReader(std::string_view bytes, std::string name) : name_(std::move(name)) {
  const Status status = read_pickle(bytes, pickled_);
  if (!status.ok()) throw ValueError(name_ + ": " + status.detail());
}

void SnapshotReader::refuse(const std::string& what) const {
  throw ValueError(name_ + ": not a snapshot of memory: " + what);
}

Pickled::Index SnapshotReader::member(Pickled::Index of, std::string_view name) const {
  const Pickled::Value& dict = pickled_.at(of);
  if (dict.kind != Kind::dict) refuse("expected a dict with '" + std::string(name) + "'");
  // The last one of equal keys counts, as in Python.
  for (std::size_t i = dict.items.size(); i >= 2; i -= 2)
    if (pickled_.at(dict.items[i - 2]).text == name) return dict.items[i - 1];
  return kNone;
}

const std::vector<Pickled::Index>& SnapshotReader::list(Pickled::Index at, const char* name) const {
  if (at == kNone || pickled_.at(at).kind != Kind::list)
    refuse("'" + std::string(name) + "' is not there, or no list");
  return pickled_.at(at).items;
}

std::uint64_t SnapshotReader::bytes(Pickled::Index of, const char* name) const {
  const Pickled::Index at = member(of, name);
  if (at == kNone || pickled_.at(at).kind != Kind::integer || pickled_.at(at).is_unsigned ||
      pickled_.at(at).whole < 0)
    refuse("'" + std::string(name) + "' is not there, or no number of bytes");
  return static_cast<std::uint64_t>(pickled_.at(at).whole);
}

std::string_view SnapshotReader::state(Pickled::Index block) const {
  const Pickled::Index at = member(block, "state");
  if (at == kNone || pickled_.at(at).kind != Kind::text) refuse("a block without a state");
  return pickled_.at(at).text;
}

std::string SnapshotReader::text(Pickled::Index at) const {
  return at != kNone && pickled_.at(at).kind == Kind::text ? std::string(pickled_.at(at).text)
                                                           : std::string();
}

SnapshotReader::Frames SnapshotReader::frames(Pickled::Index at) {
  Frames frames;
  for (const Pickled::Index frame : list(at, "frames")) {
    const auto [known, is_new] = frame_of_.try_emplace(frame);
    if (is_new) {
      const Pickled::Index line = member(frame, "line");
      known->second = {
          text(member(frame, "filename")),
          line != kNone && pickled_.at(line).kind == Kind::integer ? pickled_.at(line).whole : 0,
          text(member(frame, "name"))};
    }
    frames.push_back(known->second);
  }
  return frames;
}

void SnapshotReader::once(Pickled::Index at, const char* what) {
  if (!seen_.insert(at).second) refuse(std::string(what) + " that is there twice");
}

}  // namespace ember::inline v0::memory
