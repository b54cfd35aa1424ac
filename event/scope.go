package event

import "strings"

// ChildScope names the scope in which a workflow's run has a child run, in the events of the log. The
// key must have a slash, and no dot before it.
func ChildScope(runID, key string) string { return runID + "." + key }

// ParentRun returns the run of the workflow that opened a scope for a child, and "" for
// the scope of an agent tool, whose name is an id.
func ParentRun(scope string) string {
	head, _, ok := strings.Cut(scope, "/")
	if i := strings.LastIndexByte(head, '.'); ok && i > 0 {
		return head[:i]
	}
	return ""
}
