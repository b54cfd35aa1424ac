package event

import "strings"

// ChildScope returns the name of the scope in which a workflow's run has a child's run, as in the events of the log.
// The key must contain a slash, and no dot before it.
func ChildScope(runID, key string) string { return runID + "." + key }

// ParentRun returns the run of the workflow that opened a child's scope. It returns "" for the scope of an agent
// tool, whose name is an id.
func ParentRun(scope string) string {
	head, _, ok := strings.Cut(scope, "/")
	if i := strings.LastIndexByte(head, '.'); ok && i > 0 {
		return head[:i]
	}
	return ""
}
