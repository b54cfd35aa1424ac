package a2atest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// run plays the answers of one task, or one message. The Mock's mutex guards it.
type run struct {
	task     *sdk.Task     // nil for an answer without a task
	news     []news        // what the clients that follow it receive
	changed  chan struct{} // closed and replaced when there are news
	ops      []op
	answers  int
	metadata map[string]any
	paused   bool // until a client subscribes to the task or gets it
	lost     bool // the peer lost the task
}

// news is an event, or the error that ends the streams.
type news struct {
	event sdk.Event
	err   error
}

// play adds the steps of an answer to a run.
func (r *run) play(a *Answer, message *sdk.Message) {
	r.answers++
	r.ops, r.metadata, r.paused = a.script(), a.metadata, false
	if r.task == nil {
		return
	}
	asked := *message // do not change the recorded message
	asked.TaskID, asked.ContextID = r.task.ID, r.task.ContextID
	r.task.History = append(r.task.History, &asked)
	if r.answers == 1 {
		r.task.Metadata = r.metadata
		r.enter(sdk.TaskStateSubmitted, nil)
		r.add(r.snapshot(), nil)
	}
	r.status(sdk.TaskStateWorking, nil)
}

func (r *run) add(e sdk.Event, err error) {
	r.news = append(r.news, news{e, err})
	close(r.changed)
	r.changed = make(chan struct{})
}

// enter sets the state of the task.
func (r *run) enter(s sdk.TaskState, parts []*sdk.Part) {
	now := time.Now()
	r.task.Status = sdk.TaskStatus{State: s, Timestamp: &now}
	if parts != nil {
		m := r.said(parts)
		r.task.Status.Message = m
		r.task.History = append(r.task.History, m)
	}
}

func (r *run) status(s sdk.TaskState, parts []*sdk.Part) {
	r.enter(s, parts)
	r.add(&sdk.TaskStatusUpdateEvent{TaskID: r.task.ID, ContextID: r.task.ContextID, Status: r.task.Status, Metadata: maps.Clone(r.metadata)}, nil)
}

func (r *run) said(parts []*sdk.Part) *sdk.Message {
	m := sdk.NewMessage(sdk.MessageRoleAgent, parts...)
	m.Metadata = maps.Clone(r.metadata)
	if r.task != nil {
		m.TaskID, m.ContextID = r.task.ID, r.task.ContextID
	}
	return m
}

func (r *run) put(a *artifact) {
	id := sdk.ArtifactID(fmt.Sprintf("artifact-%d.%d", r.answers, a.number))
	piece := &sdk.Artifact{ID: id, Parts: a.parts, Metadata: maps.Clone(r.metadata)}
	i := slices.IndexFunc(r.task.Artifacts, func(known *sdk.Artifact) bool { return known.ID == id })
	switch {
	case i < 0:
		r.task.Artifacts = append(r.task.Artifacts, piece)
	case a.more:
		whole := *piece
		whole.Parts = slices.Concat(r.task.Artifacts[i].Parts, a.parts)
		r.task.Artifacts[i] = &whole
	default:
		r.task.Artifacts[i] = piece
	}
	r.add(&sdk.TaskArtifactUpdateEvent{TaskID: r.task.ID, ContextID: r.task.ContextID, Artifact: piece, Append: a.more, LastChunk: a.last, Metadata: maps.Clone(r.metadata)}, nil)
}

// snapshot returns a copy of the task that the caller may keep.
func (r *run) snapshot() *sdk.Task {
	t := *r.task
	t.Artifacts, t.History, t.Metadata = slices.Clone(t.Artifacts), slices.Clone(t.History), maps.Clone(t.Metadata)
	return &t
}

// advance runs the steps of a run up to the next wait, which it returns. The caller holds m.mu.
func (m *Mock) advance(r *run) (wait *op) {
	for !r.paused && len(r.ops) > 0 {
		o := r.ops[0]
		if o.waits {
			select {
			case <-o.ch:
			default:
				return &o
			}
		}
		r.ops = r.ops[1:]
		switch {
		case o.artifact != nil:
			r.put(o.artifact)
		case o.message:
			r.add(r.said(o.parts), nil)
		case o.state != "":
			r.status(o.state, o.parts)
			r.paused = o.state == sdk.TaskStateAuthRequired && len(r.ops) > 0
		case o.cut != nil:
			m.down += o.outage
			r.add(nil, o.cut)
		case o.fail != nil:
			r.ops, r.lost = nil, true
			if r.task != nil {
				delete(m.runs, r.task.ID)
			}
			r.add(nil, o.fail)
		}
	}
	return nil
}

// follow yields the events of a run, starting with number from, and runs its steps. It ends when the task is settled.
// If patient is set, it waits for the next message to an interrupted task.
func (m *Mock) follow(ctx context.Context, r *run, from int, patient bool, yield func(sdk.Event, error) bool) {
	for {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		m.mu.Lock()
		wait := m.advance(r)
		later, changed := r.news[from:], r.changed
		m.mu.Unlock()
		switch {
		case len(later) > 0:
			from++
			if next := later[0]; !yield(next.event, next.err) || next.err != nil || settles(next.event) {
				return
			}
		case wait == nil && !patient:
			return
		default:
			var ch <-chan struct{}
			if wait != nil {
				ch = wait.ch
			}
			select {
			case <-ch:
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

// settles reports whether a stream ends after an event.
func settles(e sdk.Event) bool {
	switch e := e.(type) {
	case *sdk.Message:
		return true
	case *sdk.TaskStatusUpdateEvent:
		return e.Status.State.Terminal() || interrupted(e.Status.State)
	}
	return false
}

func interrupted(s sdk.TaskState) bool {
	return s == sdk.TaskStateInputRequired || s == sdk.TaskStateAuthRequired
}
