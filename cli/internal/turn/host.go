package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/remote"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/client"
	"github.com/agentarbor/arbor/session"
)

// host runs the turns of a session: in this process, or at a server.
type host interface {
	factory.Feed
	Send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error]
	// Continue resumes the last turn of the session with the state f.
	Continue(ctx context.Context, f *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error]
	// running reports whether a process is running the last turn.
	running(ctx context.Context) (bool, error)
	// DrawAgents draws the tree, and marks the agent that answers next.
	DrawAgents(ctx context.Context, w io.Writer, look render.Terminal) error
	// FileBytes returns the bytes of a file.
	FileBytes(ctx context.Context, digest string) ([]byte, error)
}

// localHost runs the turns of a conversation in this process.
type localHost struct {
	factory.StoredSession
	c *Conversation // with the newest tree
}

func (h localHost) Send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return h.c.Run(ctx, h.Key, msg)
}

func (h localHost) Continue(ctx context.Context, _ *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	decisions, err := h.c.sign(ctx, h.c.decider, decisions)
	if err != nil {
		return func(yield func(*event.Event, error) bool) { yield(nil, err) }
	}
	return h.c.Resume(ctx, h.Key, decisions...)
}

func (h localHost) running(ctx context.Context) (bool, error) {
	info, _, err := session.Find(ctx, h.DB, h.Key)
	return info.Leased, err
}

func (h localHost) DrawAgents(ctx context.Context, w io.Writer, look render.Terminal) error {
	active, err := h.c.Active(ctx, h.Key)
	if err == nil {
		render.Tree(w, h.c.Tree(), look, active)
	}
	return err
}

// serverHost runs the turns of a conversation at a server.
type serverHost struct {
	remote.Served
	f *factory.Factory
}

// ChatAt is Chat with the tree of a server.
func ChatAt(ctx context.Context, f *factory.Factory, o Options) error {
	key, err := factory.SessionKey(o.Session)
	if err != nil {
		return err
	}
	c := &Conversation{Factory: f, Key: key, Options: o}
	api, err := remote.Connect(ctx, f, func(err error) {
		if out, ok := c.Out.(*render.Printer); ok {
			out.Break()
		}
		f.SayTo(c.errors(), err.Error()+"; trying again")
	})
	if err != nil {
		return err
	}
	c.At = serverHost{remote.Served{Client: api, ID: key.ID}, f}
	c.draw()
	return c.talk(ctx, factory.HistoryFile(f, &factory.Database{Remote: true}), func(*chat) {})
}

func (t serverHost) Send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return t.turn(ctx, func(ctx context.Context) (*client.Turn, int64, error) {
		turn, err := t.Begin(ctx, t.ID, client.Message{Content: msg.Content})
		return turn, 0, err
	})
}

func (t serverHost) Continue(ctx context.Context, f *session.Fold, decisions ...runner.Decision) iter.Seq2[*event.Event, error] {
	if len(decisions) == 0 && !f.Unfinished() && !f.Held() {
		return func(func(*event.Event, error) bool) {} // there is no turn to resume
	}
	return t.turn(ctx, func(ctx context.Context) (*client.Turn, int64, error) {
		var turn *client.Turn
		var err error
		if len(decisions) > 0 {
			made := make([]client.Decision, len(decisions))
			for i, d := range decisions {
				made[i] = client.Decision{CallID: d.CallID, Approved: d.Approved, Content: d.Content, Reason: d.Reason, Digest: d.Digest}
			}
			turn, err = t.Decide(ctx, t.ID, f.Turn.ID, made...)
		} else {
			turn, err = t.Resume(ctx, t.ID, f.Turn.ID)
		}
		return turn, f.Seq, err
	})
}

// turn yields the events of a turn after a position, and at the end its error. If the context ends first, the turn is
// stopped, like a turn in this process.
func (t serverHost) turn(ctx context.Context, begin func(context.Context) (turn *client.Turn, after int64, err error)) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		patient, cancel := outliving(ctx)
		turn, after, err := begin(patient)
		cancel()
		if err != nil {
			if errors.Is(err, context.Canceled) {
				t.f.Say("the server has not said whether it has begun the turn")
			}
			yield(nil, cmp.Or(ctx.Err(), err))
			return
		}
		for entry, err := range t.Watch(ctx, t.ID, turn.ID, session.Position{Seq: max(after, turn.First-1)}.String()) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				if ctx.Err() != nil {
					t.stopTurn(ctx, turn)
				}
				yield(nil, err)
				return
			}
			if !yield(entry.Event, nil) {
				return
			}
		}
		if turn, err = t.Turn(ctx, t.ID, turn.ID); err == nil {
			if err = turn.Err(); turn.State == "cut_off" {
				err = fmt.Errorf("the turn was stopped elsewhere: /resume resumes it: %w", agent.ErrSuspended)
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// outliving returns a context that ends a moment after another one. A client that interrupts a request must know
// whether the request has started a turn, because nothing else would stop that turn.
func outliving(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	undo := context.AfterFunc(ctx, func() { time.AfterFunc(3*time.Second, cancel) })
	return longer, func() { undo(); cancel() }
}

// stopTime is how long stopTurn waits. A turn that another server runs takes 5 seconds to stop; see live.Turns.Stop.
const stopTime = 10 * time.Second

// stopTurn stops a turn that is interrupted here.
func (t serverHost) stopTurn(ctx context.Context, turn *client.Turn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	switch _, err := t.Stop(ctx, t.ID, turn.ID); {
	case ctx.Err() != nil:
		t.f.Say("the server has not said within %s that the turn has stopped: it may still run there", stopTime)
	case err != nil:
		t.f.Say("the server could not be asked to stop the turn, which continues there: %s", err)
	}
}

func (t serverHost) DrawAgents(ctx context.Context, w io.Writer, look render.Terminal) error {
	var tree struct{ Root *render.Outline }
	if err := t.Agents(ctx, &tree); err != nil {
		return err
	}
	s, err := t.Session(ctx, t.ID)
	switch {
	case remote.Missing(err):
		s.Active = tree.Root.Name
	case err != nil:
		return err
	}
	tree.Root.Draw(w, look, s.Active)
	return nil
}

func (t serverHost) running(ctx context.Context) (bool, error) {
	s, err := t.Session(ctx, t.ID)
	return s.State == "running", err
}

func (t serverHost) FileBytes(ctx context.Context, digest string) ([]byte, error) {
	return t.File(ctx, t.ID, digest)
}
