#include "ember/driver/sim/capture.h"

#include <algorithm>
#include <utility>

namespace ember::inline v0::driver::sim {
namespace {

thread_local constinit CaptureMode mode_of_thread = CaptureMode::global;

constexpr const char* kWhatNow = "; the capture is invalid now";

/// Adds those that are missing.
void unite(std::vector<std::size_t>& nodes, const std::vector<std::size_t>& more) {
  for (const std::size_t node : more)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
}

}  // namespace

CaptureMode Captures::exchange_mode(CaptureMode mode) noexcept {
  return std::exchange(mode_of_thread, mode);
}

Captures::Capture* Captures::find(const Stream& stream, Member*& member) {
  for (const auto& capture : captures_)
    for (Member& each : capture->members)
      if (each.stream == &stream) {
        member = &each;
        return capture.get();
      }
  return nullptr;
}

Captures::Capture* Captures::find(std::uint64_t id) {
  for (const auto& capture : captures_)
    if (capture->id == id) return capture.get();
  return nullptr;
}

Captures::Member& Captures::enter(Capture& capture, Stream& stream, std::uint32_t epoch) {
  capture.graph.branches.push_back({stream.device(), epoch, stream.priority()});
  stream.set_capturing(true);
  return capture.members.emplace_back(Member{&stream, capture.graph.branches.size() - 1, {}});
}

void Captures::invalidate(Capture& capture, const std::string& what) {
  if (capture.invalid.empty()) capture.invalid = what;
}

Status Captures::refused(Capture& capture, Code code, const std::string& what) {
  invalidate(capture, what);
  return Status(code, what + kWhatNow);
}

Status Captures::was_invalidated(const Capture& capture) {
  return Status(Code::stream_capture_invalidated, "by this: " + capture.invalid);
}

void Captures::drop(const Capture& capture) {
  for (const Member& member : capture.members) member.stream->set_capturing(false);
  std::erase_if(captures_, [&](const auto& each) { return each.get() == &capture; });
  count_.store(static_cast<int>(captures_.size()), std::memory_order_relaxed);
}

Status Captures::begin(Stream& stream, std::uint32_t epoch, CaptureMode mode) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  if (Capture* found = find(stream, member))
    return refused(*found, Code::illegal_state,
                   "a capture was to begin on a stream that is part of one");
  auto made = std::make_unique<Capture>();
  made->id = ++last_id_;
  made->mode = mode;
  made->thread = std::this_thread::get_id();
  made->graph.device = stream.device();
  (void)enter(*made, stream, epoch);
  captures_.push_back(std::move(made));
  count_.store(static_cast<int>(captures_.size()), std::memory_order_relaxed);
  return {};
}

// Whoever waits for the stream on which the capture began has to wait for everything.
Status Captures::check_joined(const Capture& capture) {
  const auto& nodes = capture.graph.nodes;
  std::vector<bool> waited(nodes.size());
  for (const std::size_t node : capture.members[0].after) waited[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (waited[i])
      for (const std::size_t before : nodes[i].after) waited[before] = true;
  const auto count = std::count(waited.begin(), waited.end(), false);
  if (count == 0) return {};
  const auto first =
      static_cast<std::size_t>(std::find(waited.begin(), waited.end(), false) - waited.begin());
  return Status(Code::stream_capture_unjoined,
                "the stream on which the capture began does not wait for " + std::to_string(count) +
                    " operations of other streams, of which the first is '" +
                    nodes[first].kernel.name.c_str() + "'");
}

Status Captures::end(Stream& stream, std::unique_ptr<CapturedGraph>& out) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = find(stream, member);
  if (capture == nullptr)
    return Status(Code::illegal_state, "a capture was to end on a stream that is part of none");
  if (member->branch != 0)
    return refused(*capture, Code::stream_capture_unmatched,
                   "the capture was to end on a stream that came in later");
  const bool elsewhere =
      capture->mode != CaptureMode::relaxed && capture->thread != std::this_thread::get_id();
  Status status = elsewhere                  ? Status(Code::stream_capture_wrong_thread)
                  : capture->invalid.empty() ? check_joined(*capture)
                                             : was_invalidated(*capture);
  if (status.ok()) {
    capture->graph.last = std::move(member->after);
    out = std::make_unique<CapturedGraph>(std::move(capture->graph));
  }
  drop(*capture);
  return status;
}

CaptureStatus Captures::status(const Stream& stream, std::uint64_t& id) {
  if (!stream.capturing()) return CaptureStatus::none;
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  const Capture* capture = find(stream, member);
  if (capture == nullptr) return CaptureStatus::none;
  if (!capture->invalid.empty()) return CaptureStatus::invalidated;
  id = capture->id;
  return CaptureStatus::active;
}

std::uint64_t Captures::node(const Stream& stream) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  (void)find(stream, member);
  return member != nullptr && member->after.size() == 1 ? member->after[0] + 1 : 0;
}

Status Captures::add(const Stream& stream, TaskKind kind, const Kernel& kernel,
                     const Params& params, PeerMemory peer, EventHandle event) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = find(stream, member);
  if (capture == nullptr)
    return Status(Code::stream_capture_invalidated, "the capture ended during the call");
  if (!capture->invalid.empty()) return was_invalidated(*capture);
  CapturedGraph::Node node;
  node.kind = kind;
  node.branch = member->branch;
  node.kernel = kernel;
  node.peer = peer;
  node.event = event;
  const auto* const bytes = static_cast<const std::byte*>(params.data());
  node.arguments.assign(bytes, bytes + params.size());
  node.addresses = params.addresses();
  node.after = std::exchange(member->after, {capture->graph.nodes.size()});
  capture->graph.nodes.push_back(std::move(node));
  return {};
}

Status Captures::mark(const Stream& stream, std::shared_ptr<const CaptureMark>& out) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = find(stream, member);
  if (capture == nullptr)
    return Status(Code::stream_capture_invalidated, "the capture ended during the call");
  if (!capture->invalid.empty()) return was_invalidated(*capture);
  out = std::make_shared<const CaptureMark>(CaptureMark{capture->id, member->after});
  return {};
}

Status Captures::wait(Stream& stream, std::uint32_t epoch, const CaptureMark* mark) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const own = find(stream, member);
  if (own != nullptr && !own->invalid.empty()) return was_invalidated(*own);
  if (own != nullptr && mark == nullptr)
    return refused(*own, Code::stream_capture_isolation,
                   "a captured stream was to wait for an event that was recorded outside of the "
                   "capture");
  if (mark == nullptr) return {};
  Capture* const theirs = find(mark->capture);
  if (own != nullptr && theirs != own)
    return refused(*own, Code::stream_capture_merge,
                   "a captured stream was to wait for an event of another capture");
  if (theirs == nullptr)
    return Status(Code::captured_event,
                  "a stream was to wait for an event that was recorded in a capture which is over");
  if (!theirs->invalid.empty()) return was_invalidated(*theirs);
  unite((member != nullptr ? *member : enter(*theirs, stream, epoch)).after, mark->after);
  return {};
}

Status Captures::refuse(const Stream& stream, const char* what) {
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = find(stream, member);
  if (capture == nullptr) return {};
  return refused(*capture, Code::stream_capture_unsupported,
                 std::string(what) + " cannot be done while the stream is part of a capture");
}

Status Captures::refuse(const CaptureMark& mark, const char* what) {
  const MutexLock lock(mutex_);
  const std::string text = std::string(what) + " cannot be done: it was recorded in a capture";
  if (Capture* capture = find(mark.capture)) return refused(*capture, Code::captured_event, text);
  return Status(Code::captured_event, text);
}

Status Captures::refuse(int device, const char* what) {
  if (!any()) return {};
  const MutexLock lock(mutex_);
  Status status;
  for (const auto& capture : captures_)
    if (capture->thread == std::this_thread::get_id() &&
        std::any_of(capture->members.begin(), capture->members.end(),
                    [&](const Member& member) { return member.stream->device() == device; }))
      status = refused(*capture, Code::stream_capture_unsupported,
                       std::string(what) + " cannot be done while work of the device is captured");
  return status;
}

Status Captures::refuse_unsafe(const char* what) {
  if (!any() || mode_of_thread == CaptureMode::relaxed) return {};
  const MutexLock lock(mutex_);
  Status status;
  for (const auto& capture : captures_) {
    const bool own = capture->thread == std::this_thread::get_id();
    if (own ? capture->mode == CaptureMode::relaxed
            : capture->mode != CaptureMode::global || mode_of_thread != CaptureMode::global)
      continue;
    status =
        refused(*capture, Code::stream_capture_unsupported,
                std::string(what) + " cannot be done beside a capture of " +
                    (own ? "the thread that is not relaxed" : "another thread that is global"));
  }
  return status;
}

void Captures::forget(Stream& stream) {
  if (!stream.capturing()) return;
  const MutexLock lock(mutex_);
  Member* member = nullptr;
  Capture* const capture = find(stream, member);
  if (capture == nullptr) return;
  if (member->branch == 0) return drop(*capture);
  invalidate(*capture, "a stream of the capture was destroyed, or its device reset");
  stream.set_capturing(false);
  std::erase_if(capture->members, [&](const Member& each) { return each.stream == &stream; });
}

}  // namespace ember::inline v0::driver::sim
