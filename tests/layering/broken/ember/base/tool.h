#pragma once

// NVTX's header outside of nvtx/.
#include <nvtx3/nvToolsExt.h>
