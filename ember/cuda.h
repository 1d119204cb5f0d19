// Everything: devices, streams, events, guards, work and memory.
#pragma once

#include "ember/base/bytes.h"
#include "ember/base/embedding.h"
#include "ember/base/error.h"
#include "ember/memory/device_vector.h"
#include "ember/memory/host_registration.h"
#include "ember/memory/memory.h"
#include "ember/memory/resource.h"
#include "ember/nvtx/nvtx.h"
#include "ember/runtime/device.h"
#include "ember/runtime/event.h"
#include "ember/runtime/guard.h"
#include "ember/runtime/observer.h"
#include "ember/runtime/stream.h"
#include "ember/runtime/work.h"
#include "ember/version.h"
