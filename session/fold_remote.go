package session

import (
	"maps"
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Remote is a task that an agent started at a remote agent. As far as the log shows, the task has not ended.
type Remote struct {
	event.RemoteTask
	// The fields of the run that recorded the task's status last.
	Scope, Agent, Path, RunID, TurnID string
	// Since is the Since of that run, and First is the position of the first event of its scope.
	Since, First int64
	// Way leads from the conversation to the scope. It is empty for the conversation itself, and if the log does not
	// show the way.
	Way []Hosted
}

// Hosted is a step from one scope to a scope inside it: Agent ran Inner there. [agent.Node.Inner] finds Inner. Tool is
// the tool that ran it, or "" for a workflow or a graph.
type Hosted struct {
	Agent, Inner string
	Tool         string `json:",omitempty"`
}

// maxRemote bounds the tasks that a fold keeps; above it, the oldest is dropped. Few are open at a time: the tasks of
// agents that run in parallel, and tasks that asked for an answer and never got one.
const maxRemote = 256

func (f *Fold) remoteTask(e *event.Event, d *event.RemoteTask) {
	i := slices.IndexFunc(f.Remote, func(r Remote) bool { return r.Scope == e.Scope && r.Agent == e.Agent })
	if i < 0 && e.Scope == "" { // the event that gives up a task of an ended scope is written to the conversation
		i = slices.IndexFunc(f.Remote, func(r Remote) bool { return r.TaskID == d.TaskID && r.URL == d.URL })
	}
	if d.TaskID == "" || taskEnded(d.Status) {
		if i >= 0 {
			f.Remote = slices.Delete(f.Remote, i, i+1)
		}
		return
	}
	s := f.Scope(e.Scope)
	r := Remote{RemoteTask: *d, Scope: e.Scope, Agent: e.Agent, Path: e.Path, RunID: e.RunID, TurnID: e.TurnID, Since: s.Run.Since, First: s.First}
	if i >= 0 {
		r.Way = f.Remote[i].Way
		f.Remote[i] = r
		return
	}
	r.Way = f.WayTo(e.Scope)
	if len(f.Remote) == maxRemote {
		f.Remote = slices.Delete(f.Remote, 0, 1)
	}
	f.Remote = append(f.Remote, r)
}

// taskEnded reports whether a status is final.
func taskEnded(status string) bool {
	switch status {
	case "completed", "failed", "canceled", "rejected", "unknown":
		return true
	}
	return false
}

// WayTo returns the steps from the conversation to a scope. It returns nil for the conversation itself, and if the log
// does not show them.
func (f *Fold) WayTo(scope string) (way []Hosted) {
	for range len(f.Scopes) {
		s := f.Scopes[scope]
		if s == nil {
			return nil
		}
		around, step, ok := f.openerOf(scope, s)
		if !ok {
			return nil
		}
		if way = append(way, step); around == "" {
			slices.Reverse(way)
			return way
		}
		scope = around
	}
	return nil
}

// openerOf finds the scope and the agent whose run opened an inner scope: a workflow, whose run is part of the
// scope's name, or an agent whose call is pending.
func (f *Fold) openerOf(scope string, inner *Scope) (around string, step Hosted, ok bool) {
	workflow := event.ParentRun(scope) != ""
	opened := func(r *Run) bool {
		step = Hosted{Agent: r.Agent, Inner: inner.Root}
		if workflow {
			return r.ID == inner.Opener || slices.Contains(r.Before, inner.Opener)
		}
		c := r.Call(inner.Opener)
		if c != nil {
			step.Tool = c.Name
		}
		return c != nil
	}
	if opened(&f.Conversation.Run) {
		return "", step, true
	}
	for _, name := range slices.Sorted(maps.Keys(f.Scopes)) { // in an odd log several may have opened it
		if name != scope && opened(&f.Scopes[name].Run) {
			return name, step, true
		}
	}
	return "", step, false
}
