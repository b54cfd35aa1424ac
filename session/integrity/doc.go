// Package integrity checks that the log of a session obeys the laws of every log:
// what a runner writes, whatever agents, models, tools, stores and crashes do.
//
//   - Positions have no gaps, ids stand once, times do not go back, and every event
//     can be read.
//   - A run starts once and ends at most once, and nothing of it comes after its end.
//     What has caused it stands before it.
//   - A call of a tool has one result, before its agent's model answers again, and a
//     result has a call. A question about a call is asked once and decided once.
//   - A transfer that is committed is followed at once by the end of its run. Inside of
//     a call its target has run before the call has a result, unless the call failed.
//   - What limits and budgets are held against, which is what the session's fold has
//     counted, is what the log has: discarded answers and inner scopes included.
//   - Scopes close inside out: no run ends while one is open that it has brought
//     about, and the user speaks when nothing is open.
//
// It reads a log with a memory of its own and compares that with [session.Fold], so that
// each can find the other wrong.
//
// The package imports session and event, and never changes a log.
package integrity
