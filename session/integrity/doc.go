// Package integrity checks that the log of a session obeys the laws of every log:
// what a runner writes, whatever agents, models, tools, stores and crashes do.
//
//   - Positions have no gaps, no id is used twice, times do not go back, and every
//     event can be read.
//   - A run starts once and ends at most once, and no event of it comes after its
//     end. The event that caused it comes before it.
//   - A call of a tool has one result, before its agent's model answers again, and a
//     result has a call. A question about a call is asked once and decided once.
//   - A transfer that is committed is followed at once by the end of its run. Inside of
//     a call its target has run before the call has a result, unless the call failed.
//   - The counts of the session's fold, which limits and budgets are compared with,
//     are those of the log, including discarded answers and inner scopes.
//   - A process that goes on with the turn of another says so in every run that is open,
//     and none does after three that got no further.
//   - Scopes close inside out: no run ends while one that it started is open,
//     and a user event comes only when nothing is open.
//
// It reads a log with a memory of its own and compares that with [session.Fold], so that
// each can find the other wrong.
//
// The package imports session and event, and never changes a log.
package integrity
