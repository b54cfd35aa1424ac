// Package turn runs turns of a session for the commands, in this process or at a server. It prints the events, asks
// people for decisions, and prints how to continue.
package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/prompt"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// Made writes a file of the turn to the folder of --files, or prints how to get it.
func (c *Conversation) Made(ctx context.Context, d *event.File) error {
	switch {
	case d.URL != "": // the line of the event contains the address
	case c.Files != "":
		path, err := factory.Put(context.WithoutCancel(ctx), c.At.FileBytes, c.Files, d)
		if err == nil && !c.Factory.JSON {
			c.Factory.Say("%s is in %s", visible.Line(d.Name), path)
		}
		return err
	case c.DB == nil:
		c.Factory.Say("to get %s: begin the chat with --files DIR", visible.Line(d.Name))
	case c.Persistent() && !c.Factory.JSON:
		c.Factory.Say("to get %s: %s", visible.Line(d.Name), c.Factory.CommandLine("sessions file", "", factory.QuoteArg(c.Key.ID), factory.QuoteArg(d.Name)))
	}
	return nil
}

// Options are those of the commands that run turns.
type Options struct {
	Session  string
	Files    string // the folder for files; "" writes none
	NoReload bool   // of chat
}

// AddFlags adds the options to a command, except for --json and the flags that select sessions.
func AddFlags(f *factory.Factory, cmd *cobra.Command, o *Options) {
	fs := cmd.Flags()
	fs.StringVarP(&o.Session, "session", "s", "", "continue the session `ID`, or create it (default: create a session)")
	f.DBFlag(fs)
	f.RedisFlag(fs)
	f.ModelFlag(fs)
	f.PricesFlag(fs)
	factory.FolderFlag(fs, &o.Files, "files", "write the files that agents create to `DIR`, and create it if necessary")
}

// Conversation is a session with the tree that answers in it.
type Conversation struct {
	*factory.LoadedTree // nil at a server
	At                  host
	Factory             *factory.Factory
	DB                  *factory.Database // nil at a server
	Key                 session.Key
	Path                string // of the tree, "" if it is part of the program
	Out                 render.Sink
	Options

	Seen  int64        // the position of the last printed event
	known session.Fold // the fold of the log, as far as it was read

	noted bool // the user has been told which model answers

	chatting bool              // answers are typed, not given as flags
	decider  DeciderOptions    // decides typed answers
	pages    *prompt.Editor    // of a chat on a terminal, otherwise nil
	told     bool              // the user has been told that a question waits
	shown    map[question]bool // the questions that the user was shown, so that a decision answers no other one
}

// question identifies a question that the user was shown.
type question struct{ call, digest string }

// Converse loads the tree, opens the database and returns the conversation.
func Converse(ctx context.Context, f *factory.Factory, path string, o Options, opts ...runner.Option) (*Conversation, error) {
	tree, err := f.Load(path)
	if err != nil {
		return nil, err
	}
	if !f.JSON {
		opts = append(opts, runner.WithStreaming())
	}
	c, err := Open(ctx, f, tree, path, o, opts...)
	if err == nil {
		tree.PrepareRemotes(ctx)
	}
	return c, err
}

// Open opens the database and returns the conversation with a tree. The tree ends with the command.
func Open(ctx context.Context, f *factory.Factory, tree *factory.LoadedTree, path string, o Options, opts ...runner.Option) (*Conversation, error) {
	c := &Conversation{LoadedTree: tree, Factory: f, Path: path, Options: o}
	f.AtEnd(func() { c.End() })
	var err error
	if c.Key, err = factory.SessionKey(o.Session); err != nil {
		return nil, err
	}
	if c.DB, err = f.OpenDB(ctx, true); err != nil {
		return nil, err
	}
	c.At = localHost{factory.StoredSession{DB: c.DB, Key: c.Key}, c}
	if err := f.Start(ctx, tree, c.DB.Store, opts...); err != nil {
		return nil, err
	}
	c.draw()
	return c, nil
}

// draw creates the printer of the turns' events.
func (c *Conversation) draw() {
	if c.Out = render.JSONLines(c.Factory.Stdout); !c.Factory.JSON {
		var tree *agent.Tree
		if c.LoadedTree != nil {
			tree = c.Tree()
		}
		c.Out = render.Conversation(c.Factory.Stdout, c.Factory.TerminalOf(c.Factory.Stdout), tree)
	}
}

// Notice prints once that the offline model answers, if it does.
func (c *Conversation) Notice() { c.noted = c.noted || c.Factory.Notice(c.LoadedTree) }

// readFold reads the new events of the log, and returns the fold.
func (c *Conversation) readFold(ctx context.Context) (*session.Fold, error) {
	for e, err := range c.At.Log(ctx, c.known.Seq) {
		if err != nil {
			return nil, err
		}
		c.known.Apply(e)
	}
	return &c.known, nil
}

// Turn prints the events of one turn and returns how it ended. The first signal cancels it.
func (c *Conversation) Turn(ctx context.Context, events func(context.Context) iter.Seq2[*event.Event, error]) error {
	c.Notice()
	ctx, done := c.Factory.Interrupts.Turn(ctx)
	defer done()
	var turn runner.Result
	var failure error
	for e, err := range events(ctx) {
		if err != nil {
			failure = err
			break
		}
		c.told = false // not earlier: a question remains open if its decision is refused
		c.Out.Event(e)
		c.Seen = max(c.Seen, e.Seq)
		turn.Apply(e)
		if d, ok := e.Data.(*event.File); ok {
			failure = c.Made(ctx, d)
		}
		if failure = cmp.Or(failure, c.Factory.Out.Failed()); failure != nil {
			break
		}
	}
	c.Out.Finish()
	end, asked := turn.FinishReason, turn.Pending
	switch {
	case failure != nil && ctx.Err() != nil, failure == nil && ctx.Err() != nil && !Answered(end):
		return context.Canceled
	case failure != nil, end != "" && end != event.FinishReasonInputRequired:
		return c.Explain(failure)
	}
	if len(asked) == 0 { // they were shown before the turn was resumed, or no turn was resumed
		fold, err := c.readFold(ctx)
		if err != nil {
			return err
		}
		if end == "" && fold.Scope("").Run.Finish != event.FinishReasonInputRequired {
			return nil
		}
		if fold.Waits() {
			c.waitingElsewhere(fold.Scope("").Run.Agent)
			return factory.Exit(factory.StatusApproval)
		}
		asked = fold.Questions()
	}
	c.waiting(ctx, asked)
	return factory.Exit(factory.StatusApproval)
}

// waiting prints the open questions and how to answer them.
func (c *Conversation) waiting(ctx context.Context, asked []*event.Relay) {
	c.told = true
	c.Show(asked)
	if len(asked) == 0 {
		c.Factory.Say("the turn waits for an approval")
	}
	for _, d := range asked {
		if c.chatting {
			c.Factory.Say("%s", toDecide(d))
		} else {
			c.Factory.Say("the turn waits for %s", ToAnswer(d, c.ToApprove(ctx, d), func(flag, value string) string { return c.Again("resume", flag, value) }))
		}
	}
}

// toDecide returns how to decide in a chat.
func toDecide(d *event.Relay) string {
	call := visible.Line(d.ToolCallID)
	if d.Kind == event.RelayInput {
		return fmt.Sprintf("the turn waits: /answer %[1]s TEXT or /deny %[1]s REASON", call)
	}
	return fmt.Sprintf("the turn waits: /approve %[1]s or /deny %[1]s REASON", call)
}

// ToApprove returns the value of --approve for a call. If the call asks again, that names its question by the digest, too.
func (c *Conversation) ToApprove(ctx context.Context, d *event.Relay) string {
	if c.checkNamed(ctx, runner.Approve(d.ToolCallID)) != nil {
		return factory.QuoteArg(d.ToolCallID + "=" + d.Digest)
	}
	return factory.QuoteArg(d.ToolCallID)
}

// ToAnswer describes what a question needs, and the command line that answers it. approve is the value of --approve.
func ToAnswer(d *event.Relay, approve string, again func(flag, value string) string) string {
	call := factory.QuoteArg(d.ToolCallID)
	what := "an approval: " + again("--approve", approve)
	if d.Kind == event.RelayInput {
		what = "an answer: " + again("--answer", call+"=TEXT")
	}
	return what + ", or --deny " + call + " --reason TEXT"
}

// waitingElsewhere prints how to continue when an agent waits for something that is not decided here, such as an
// authorization. The agent's text says what.
func (c *Conversation) waitingElsewhere(name string) {
	goOn, say := c.Again("resume"), c.Again("run", `"…"`)
	switch {
	case c.chatting:
		goOn, say = "/resume", "a new message"
	case !c.Persistent():
		c.Factory.Say("%s waits for something outside, and the conversation is not stored: give --session or --db to continue it later", visible.Line(name))
		return
	}
	c.Factory.Say("%s waits for something that is done elsewhere; when it is done: %s; to say something instead: %s", visible.Line(name), goOn, say)
}

// Explain returns the error of a turn. If another process holds the session, it adds how to follow that process's turn.
func (c *Conversation) Explain(err error) error {
	if !errors.Is(err, agent.ErrSessionBusy) {
		return err
	}
	return fmt.Errorf("%w; to follow its turn: %s", err, c.Factory.CommandLine("sessions", "follow", factory.QuoteArg(factory.ShownID(c.Key))))
}

// Answered reports whether a turn has ended.
func Answered(end event.FinishReason) bool {
	return end != "" && end != event.FinishReasonTransfer && end != event.FinishReasonCanceled
}

// Again returns the command line that continues the session with the same options.
func (c *Conversation) Again(command string, rest ...string) string {
	words := slices.Concat(factory.Words("--session", c.Key.ID), rest, factory.Words("--model", c.Factory.Model, "--prices", c.Factory.Prices, "--files", c.Files,
		"--redis", factory.WithoutPassword(c.Factory.Place.Redis)))
	if c.Factory.ToDesk {
		words = append(words, "--desk")
	}
	if c.DB == nil {
		return c.Factory.CommandLine(command, "", append(c.Factory.Server.Words(), words...)...)
	}
	return c.Factory.CommandLine(command, factory.QuotePath(c.Path), words...)
}

func (c *Conversation) Persistent() bool { return c.DB == nil || c.DB.Path != factory.MemoryDB }
