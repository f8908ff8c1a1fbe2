// SPDX-License-Identifier: Apache-2.0
//
// LeaseLayer: the owners of this folder, as the classes above take them.
#pragma once

#include "core/lease/admission.hpp"
#include "core/lease/history.hpp"
#include "core/lease/lease_table.hpp"
#include "core/lease/operation_names.hpp"
#include "core/lease/remote_writes.hpp"
#include "core/lease/use_log.hpp"

namespace weir::lease {

/// Who may use what, and after what.
struct LeaseLayer {
  History &history;
  LeaseTable &leases;
  RemoteWrites &remote_writes;
  StreamStates &states;
  Admission &admission;
  UseLog &log;
  OperationNames &operations;
};

}  // namespace weir::lease

namespace weir {
using lease::Lease;
using lease::LeaseItem;
using lease::LeaseKind;
using lease::LeaseLayer;
using lease::StreamState;
using lease::UseLog;
using lease::UseRecord;
using lease::UseRing;
}  // namespace weir
