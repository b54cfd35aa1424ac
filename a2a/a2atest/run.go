package a2atest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// run plays the answers of one task, or one message. The Mock's mutex guards it.
type run struct {
	task     *sdk.Task // nil for an answer without a task
	events   []sdk.Event
	changed  chan struct{} // closed and replaced when an event arrives
	ops      []op
	answers  int
	metadata map[string]any
	paused   bool  // until a client subscribes to the task or gets it
	breaks   int   // how often the connections of all followers broke
	failure  error // set after the peer lost the task
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
		r.add(r.snapshot())
	}
	r.status(sdk.TaskStateWorking, nil)
}

func (r *run) add(e sdk.Event) {
	r.events = append(r.events, e)
	r.wake()
}

func (r *run) wake() {
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
	r.add(&sdk.TaskStatusUpdateEvent{TaskID: r.task.ID, ContextID: r.task.ContextID, Status: r.task.Status, Metadata: maps.Clone(r.metadata)})
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
	r.add(&sdk.TaskArtifactUpdateEvent{TaskID: r.task.ID, ContextID: r.task.ContextID, Artifact: piece, Append: a.more, LastChunk: a.last, Metadata: maps.Clone(r.metadata)})
}

// snapshot returns a copy of the task that the caller may keep.
func (r *run) snapshot() *sdk.Task {
	t := *r.task
	t.Artifacts, t.History, t.Metadata = slices.Clone(t.Artifacts), slices.Clone(t.History), maps.Clone(t.Metadata)
	return &t
}

// step is the result of the next step.
type step struct {
	over   bool
	waits  bool            // until ch is closed
	ch     <-chan struct{} // nil: never closed
	err    error           // for the clients that follow
	outage int
}

// step runs the next step.
func (r *run) step() step {
	if r.paused || len(r.ops) == 0 {
		return step{over: true}
	}
	o := r.ops[0]
	if o.waits {
		select {
		case <-o.ch:
		default:
			return step{waits: true, ch: o.ch}
		}
	}
	r.ops = r.ops[1:]
	switch {
	case o.artifact != nil:
		r.put(o.artifact)
	case o.message:
		r.add(r.said(o.parts))
	case o.state != "":
		r.status(o.state, o.parts)
		r.paused = o.state == sdk.TaskStateAuthRequired && len(r.ops) > 0
	case o.cut != nil:
		r.breaks++
		r.wake()
		return step{err: o.cut, outage: o.outage}
	case o.fail != nil:
		r.failure, r.ops = o.fail, nil
		r.wake()
		return step{err: o.fail}
	}
	return step{}
}

// follow yields the events of a run, starting with number from, and runs its steps. It ends when the task is settled.
// If patient is set, it waits for the next message to an interrupted task.
func (m *Mock) follow(ctx context.Context, r *run, from int, patient bool, yield func(sdk.Event, error) bool) {
	m.mu.Lock()
	breaks := r.breaks
	m.mu.Unlock()
	for {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		m.mu.Lock()
		if r.breaks > breaks {
			m.mu.Unlock()
			yield(nil, io.ErrUnexpectedEOF)
			return
		}
		if from < len(r.events) {
			e := r.events[from]
			from++
			m.mu.Unlock()
			if !yield(e, nil) || settles(e) {
				return
			}
			continue
		}
		s := r.step()
		m.down += s.outage
		if s.err == nil {
			s.err = r.failure
		}
		if r.failure != nil && r.task != nil {
			delete(m.runs, r.task.ID)
		}
		more := from < len(r.events)
		changed := r.changed
		m.mu.Unlock()
		switch {
		case s.err != nil:
			yield(nil, s.err)
			return
		case more:
		case s.over && !patient:
			return
		case s.waits, s.over:
			select {
			case <-s.ch:
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
