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

// Way is how conversations go on whose process has gone. Its functions are called in the test's
// process and in those that are killed, but for Place and Outage, which are the test's own.
type Way struct {
	Name string
	// Place makes an empty place for the sessions of one story, which come one after the other, and returns what
	// processes have to know of it, such as the address of a database. Nil: a session's folder is enough.
	Place func(t testing.TB) (address string)
	// Store opens the store of a session.
	Store func(ctx context.Context, at Place) (session.Store, error)
	// Settle returns when a server has done what a process that was killed had sent it. Connections to PostgreSQL have the
	// process's name as that of their application. Nil: nothing happens any more when a process has ended.
	Settle func(ctx context.Context, at Place, process string) error
	// Play makes the player of a process.
	Play func(ctx context.Context, p *Process) (Player, error)
	// Adopts says that the logs contain notices of adopted turns; see [runner.Runner.Adopt].
	Adopts bool
	// Outage kills a server that processes of the way need, and starts it again. It runs in a goroutine of its own. Nil: they
	// need none.
	Outage func(t testing.TB)
}

// Place is where a session is.
type Place struct {
	Address string
	Dir     string // of the session alone
	Key     session.Key
}

// Process is what a player is made of.
type Process struct {
	Place
	Root     agent.Agent
	Store    session.Store // which the way has opened, and which tells the odometer of every write; the player closes it
	Options  []runner.Option
	Odometer *Odometer
}

// Player does what a story wants in one process. An error that is agent.ErrSessionBusy says that somebody else is at work:
// the story looks again. It may be told to say or to decide something again that a process before was about to, if the log
// does not show it.
type Player interface {
	// Runner reads the log, and delivers what a desk says.
	Runner() *runner.Runner
	// Say begins the turn of a name and returns when nothing is left to do in it, or it waits.
	Say(ctx context.Context, turn, text string, state map[string]any) error
	// Decide does the same with a decision of the turn that waits.
	Decide(ctx context.Context, turn string, d runner.Decision) error
	// GoOn does what is to be done about a turn that is not over: it goes on with it, or waits a moment for whoever does.
	// The decisions are those of the turn that are recorded already; who decided may not know.
	GoOn(ctx context.Context, turn string, again []runner.Decision) error
	Close() error
}

// Resume is the way without a server: a session is in a file, and whoever comes next resumes it.
func Resume() Way {
	return Way{
		Name: "resume",
		Store: func(_ context.Context, at Place) (session.Store, error) {
			return sqlite.Open(filepath.Join(at.Dir, "s.db"))
		},
		Play: func(_ context.Context, p *Process) (Player, error) {
			r, err := runner.New(p.Root, p.Store, append(p.Options, runner.WithWait(20*time.Second))...)
			return &resumes{p, r}, err
		},
	}
}

type resumes struct {
	*Process
	runner *runner.Runner
}

func (r *resumes) Runner() *runner.Runner { return r.runner }

func (r *resumes) Say(ctx context.Context, _, text string, state map[string]any) error {
	return r.play(r.runner.Run(ctx, r.Key, llm.UserText(text), runner.WithState(state)))
}

func (r *resumes) Decide(ctx context.Context, _ string, d runner.Decision) error {
	return r.play(r.runner.Resume(ctx, r.Key, d))
}

func (r *resumes) GoOn(ctx context.Context, _ string, again []runner.Decision) error {
	return r.play(r.runner.Resume(ctx, r.Key, again...))
}

func (r *resumes) play(turn iter.Seq2[*event.Event, error]) error {
	for _, err := range turn {
		if err != nil {
			return err
		}
		r.Odometer.Pass(OnEvent)
	}
	return nil
}

func (r *resumes) Close() error { return r.Store.Close() }
