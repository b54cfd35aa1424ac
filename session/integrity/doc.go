// Package integrity checks that the log of a session obeys the laws of every log. A runner writes such logs whatever
// agents, models, tools, stores and crashes do:
//
//   - Positions have no gaps, no id is used twice, times do not go back, and every event can be read.
//   - A run starts once and ends at most once, and it has no event after its end. The event that caused it
//     comes before it.
//   - A tool call has one result, before its agent's model answers again, and a result has a call. A question
//     about a call is asked once and answered once.
//   - A committed transfer is followed immediately by the end of its run. Inside a call, the target runs
//     before the call has a result, unless the call failed.
//   - The counts of the session's fold, which limits and budgets are compared with, are those of the log,
//     including discarded answers and inner scopes.
//   - A process that adopts the turn of another process writes a notice in every open run. After three
//     adoptions without progress no process adopts the turn.
//   - Scopes close from the inside: no run ends while a run that it started is open, and a user event comes
//     only when nothing is open.
//
// The checker keeps its own state of the log and compares it with [session.Fold], so that each finds the other's
// errors.
//
// The package never changes a log.
package integrity
