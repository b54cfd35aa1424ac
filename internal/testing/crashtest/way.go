package crashtest

import (
	"context"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
)

// Way is how conversations continue after their process died. Its functions are called in the test's process and in
// those that are killed, except for Place and Outage, which only the test calls.
type Way struct {
	Name string
	// Place creates an empty place for the sessions of one story, which come one after the other, and returns what
	// processes must know about it, such as the address of a database. nil if the folder of a session suffices.
	Place func(t testing.TB) (address string)
	// Store opens the store of a session.
	Store func(ctx context.Context, at Place) (session.Store, error)
	// Settle returns when a server has done everything that a killed process had sent to it. Connections to PostgreSQL
	// have the process's name as their application name. nil if nothing happens after the end of a process.
	Settle func(ctx context.Context, at Place, process string) error
	// Play returns the player of a process.
	Play func(ctx context.Context, p *Process) (Player, error)
	// Adopts reports that the logs contain notices of adopted turns; see [runner.Runner.Adopt].
	Adopts bool
	// Outage kills a server that processes of the way need, and starts it again. It runs in its own goroutine. nil if
	// there is no such server.
	Outage func(t testing.TB)
}

// Place is where a session is stored.
type Place struct {
	Address string
	Dir     string // of this session only
	Key     session.Key
}

// Process contains what a player needs.
type Process struct {
	Place
	Root     agent.Agent
	Store    session.Store // opened by the way, with an odometer for every write; the player closes it
	Options  []runner.Option
	Odometer *Odometer
}

// Player executes the actions of a story in one process. agent.ErrSessionBusy means that another process is running the
// turn: the story polls. A story may repeat a message or a decision of an earlier process if the log does not contain
// it.
type Player interface {
	// Runner reads the log, and delivers the events of a desk.
	Runner() *runner.Runner
	// Say starts the turn with a name. It returns when the turn is over or waits.
	Say(ctx context.Context, turn, text string, state map[string]any) error
	// Decide does the same with a decision for the waiting turn.
	Decide(ctx context.Context, turn string, d runner.Decision) error
	// Continue resumes a turn that is not over, or waits a moment for the process that does. again are the decisions of
	// the turn that are already recorded, because the decider may not know this.
	Continue(ctx context.Context, turn string, again []runner.Decision) error
	Close() error
}

// Resume is the way without a server: a session is in a file, and the next process resumes it.
func Resume() Way {
	return Way{
		Name: "resume",
		Store: func(_ context.Context, at Place) (session.Store, error) {
			return sqlite.Open(filepath.Join(at.Dir, "s.db"))
		},
		Play: func(_ context.Context, p *Process) (Player, error) {
			r, err := runner.New(p.Root, p.Store, append(p.Options, runner.WithWait(20*time.Second))...)
			return &resumingPlayer{p, r}, err
		},
	}
}

type resumingPlayer struct {
	*Process
	runner *runner.Runner
}

func (r *resumingPlayer) Runner() *runner.Runner { return r.runner }

func (r *resumingPlayer) Say(ctx context.Context, _, text string, state map[string]any) error {
	return r.play(r.runner.Run(ctx, r.Key, llm.UserText(text), runner.WithState(state)))
}

func (r *resumingPlayer) Decide(ctx context.Context, _ string, d runner.Decision) error {
	return r.play(r.runner.Resume(ctx, r.Key, d))
}

func (r *resumingPlayer) Continue(ctx context.Context, _ string, again []runner.Decision) error {
	return r.play(r.runner.Resume(ctx, r.Key, again...))
}

func (r *resumingPlayer) play(turn iter.Seq2[*event.Event, error]) error {
	for _, err := range turn {
		if err != nil {
			return err
		}
		r.Odometer.Pass(OnEvent)
	}
	return nil
}

func (r *resumingPlayer) Close() error { return r.Store.Close() }
