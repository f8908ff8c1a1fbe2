// SPDX-License-Identifier: Apache-2.0
//
// Streams at rest before anything goes that their work uses. The process knows its living Stream and Gate fixtures. While a
// failure is held (outcome.hpp) nothing is known of what the test left under way: then the gates are opened and the streams
// waited for, once each, before a failing step's locals go and before a fixture takes memory down. While none is held nothing
// here waits: a test that passes has waited for what it began, or takes things down amid work on purpose.
#pragma once

namespace weir::conformance {

class Gate;
class Stream;

/// From now on until forget(). A stream is used here on the thread that made it, if that is all its kind allows.
void know(Stream &stream);
void know(Gate &gate);
void forget(Stream &stream);
void forget(Gate &gate);
/// A test ended a stream by hand, so that nothing can wait for it any more.
void lost_sight_of_a_stream() noexcept;

/// Returns at once while no failure is held. Else opens the gates and waits, within the suite's patience, for the streams.
/// False: work may still be under way, so memory is better left for the state's stop, which waits for it or gives it up.
bool come_to_rest();

}  // namespace weir::conformance
