package session

import (
	"slices"

	"github.com/agentarbor/arbor/event"
)

// Remote is a task that an agent has begun at a remote one, and that is not known to be
// over.
type Remote struct {
	event.RemoteTask
	// The run that last recorded its status.
	Scope, Agent, Path, RunID, TurnID string
	// Since is the Since of that run, and First the position of the scope's first event.
	Since, First int64
	// Way leads from the conversation to the scope. It is empty for the conversation
	// itself.
	Way []Hosted
}

// Hosted is a step from one scope into another: an agent ran another one there, which [agent.Node.Inner] finds.
type Hosted struct{ Agent, Inner string }

// maxRemote bounds the tasks that are kept. Few are ever open: those of agents that work
// side by side, and those that asked for something and never got it.
const maxRemote = 256

func (f *Fold) remoteTask(e *event.Event, d *event.RemoteTask) {
	i := slices.IndexFunc(f.Remote, func(r Remote) bool { return r.Scope == e.Scope && r.Agent == e.Agent })
	if i < 0 && e.Scope == "" { // who gave it up may have had no other place to say so
		i = slices.IndexFunc(f.Remote, func(r Remote) bool { return r.TaskID == d.TaskID && r.URL == d.URL })
	}
	if d.TaskID == "" || over(d.Status) {
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
	r.Way = f.way(e.Scope)
	if len(f.Remote) == maxRemote {
		f.Remote = slices.Delete(f.Remote, 0, 1)
	}
	f.Remote = append(f.Remote, r)
}

// over reports whether a status is one after which nothing comes.
func over(status string) bool {
	switch status {
	case "completed", "failed", "canceled", "rejected", "unknown":
		return true
	}
	return false
}

// way returns the steps from the conversation into a scope, nil if the log does not
// say.
func (f *Fold) way(scope string) (way []Hosted) {
	for range f.Scopes.Len() {
		s := f.Scopes.open[scope]
		if s == nil {
			return nil
		}
		around, step, ok := f.host(scope, s)
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

// host finds the run that opened a scope: a workflow, by the scope's name, or an agent
// with a tool, by the call that is pending.
func (f *Fold) host(scope string, inner *Scope) (around string, step Hosted, ok bool) {
	workflow := event.ParentRun(scope) != ""
	opened := func(r *Run) bool {
		step = Hosted{r.Agent, inner.Root}
		if workflow {
			return r.ID == inner.Opener || slices.Contains(r.Before, inner.Opener)
		}
		return r.Call(inner.Opener) != nil
	}
	if opened(&f.Conversation.Run) {
		return "", step, true
	}
	for name, s := range f.Scopes.open {
		if name != scope && opened(&s.Run) {
			return name, step, true
		}
	}
	return "", step, false
}
