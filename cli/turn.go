package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
)

// turnFlags are those of the commands that run turns.
type turnFlags struct {
	session, model string
	prices         string // file
	files          string
	json, desk     bool
	noReload       bool // of chat
}

// turnFlags adds them to a command, but for --json, and those that say where sessions are.
func (p *program) turnFlags(cmd *cobra.Command, f *turnFlags) {
	fs := cmd.Flags()
	fs.StringVar(&f.session, "session", "", "continue the session `ID`, or create it (default: create a session)")
	p.dbFlag(fs)
	p.redisFlag(fs)
	p.modelFlag(fs, &f.model)
	pricesFlag(fs, &f.prices)
	filesFlag(fs, &f.files)
}

// pricesFlag adds --prices.
func pricesFlag(fs *pflag.FlagSet, prices *string) {
	fs.StringVar(prices, "prices", "", "read the prices for cost budgets from `FILE` (YAML or JSON)")
}

// conversation is a session with the tree that answers in it.
type conversation struct {
	*planted // nil at a server
	at       host
	p        *program
	db       *database // nil at a server
	key      session.Key
	path     string // of the tree, "" if it is part of the program
	out      render.Sink
	files    string // where files are written to, "" if they are not

	known session.Fold // what the log amounts to, as far as it was read
	seen  int64        // the position of the last event that was shown

	newer atomic.Pointer[planted] // a tree that has come since; of a chat

	noted bool // the user knows whether a model is used

	json     bool    // events are printed, and nothing for people
	chatting bool    // answers are typed, not given as flags
	decider  decider // of what is typed
	pages    *editor // of a chat on a terminal, else nil
	told     bool    // the user knows that something waits
	held     string  // a message that is sent if the user withdraws what waits
	news     news
}

// converse loads the tree, opens the database and puts both together.
func (p *program) converse(ctx context.Context, path string, f turnFlags, opts ...runner.Option) (*conversation, error) {
	key, err := sessionKey(f.session)
	if err != nil {
		return nil, err
	}
	tree, err := p.plant(path, f.model)
	if err != nil {
		return nil, err
	}
	c := &conversation{planted: tree, p: p, key: key, path: path, json: f.json, files: f.files}
	p.atEnd(func() { c.end() })
	if c.db, err = p.openDB(ctx, true); err != nil {
		return nil, err
	}
	c.at = here{stored{c.db, key}, c}
	if !f.json {
		opts = append(opts, runner.WithStreaming())
	}
	if err := p.start(ctx, tree, c.db.Store, f.desk, f.prices, opts...); err != nil {
		return nil, err
	}
	tree.prepare(ctx)
	c.draw()
	return c, nil
}

// draw makes what prints the events of the tree's turns.
func (c *conversation) draw() {
	if c.out = render.JSONLines(c.p.Stdout); !c.json {
		var tree *agent.Tree
		if c.planted != nil {
			tree = c.Tree()
		}
		c.out = render.Conversation(c.p.Stdout, c.p.lookOf(c.p.Stdout), tree)
	}
}

// look reads what is new in the log, and returns what it amounts to.
func (c *conversation) look(ctx context.Context) (*session.Fold, error) {
	for e, err := range c.at.log(ctx, c.known.Seq) {
		if err != nil {
			return nil, err
		}
		c.known.Apply(e)
	}
	return &c.known, nil
}

// turn shows the events of one turn and returns how it ended. The first signal
// cancels it.
func (c *conversation) turn(ctx context.Context, events func(context.Context) iter.Seq2[*event.Event, error]) error {
	c.notice()
	c.news.hold(true)
	defer c.news.hold(false)
	ctx, done := c.p.interrupts.turn(ctx)
	defer done()
	var turn runner.Result
	var failure error
	for e, err := range events(ctx) {
		if err != nil {
			failure = err
			break
		}
		c.told = false // not before: what a decision was refused for keeps waiting
		c.out.Event(e)
		c.seen = max(c.seen, e.Seq)
		turn.Apply(e)
		if d, ok := e.Data.(*event.File); ok {
			failure = c.made(ctx, d)
		}
		if failure = cmp.Or(failure, c.p.out.failed()); failure != nil {
			break
		}
	}
	c.out.Finish()
	end, asked := turn.FinishReason, turn.Pending
	switch {
	case failure != nil && ctx.Err() != nil, failure == nil && ctx.Err() != nil && !answered(end):
		return context.Canceled
	case failure != nil, end != "" && end != event.FinishReasonInputRequired:
		return failure
	}
	if len(asked) == 0 { // they were asked about before the turn was taken up, or nothing is taken up
		fold, err := c.look(ctx)
		if err != nil {
			return err
		}
		if end == "" && fold.Scope("").Run.Finish != event.FinishReasonInputRequired {
			return nil
		}
		if fold.Waits() {
			c.waitingElsewhere(fold.Scope("").Run.Agent)
			return statusError(StatusApproval)
		}
		asked = fold.Questions()
	}
	c.waiting(asked)
	return statusError(StatusApproval)
}

// waiting shows what was asked, and prints how to answer.
func (c *conversation) waiting(asked []*event.Relay) {
	c.told = true
	c.show(asked)
	if len(asked) == 0 {
		c.p.say("the turn waits for an approval")
	}
	for _, d := range asked {
		if c.chatting {
			c.p.say("%s", toDecide(d))
		} else {
			c.p.say("the turn waits for %s", toAnswer(d, func(flag, value string) string { return c.again("resume", flag, value) }))
		}
	}
}

// toDecide says how to decide in a chat.
func toDecide(d *event.Relay) string {
	call := visible.Line(d.ToolCallID)
	if d.Kind == event.RelayInput {
		return fmt.Sprintf("the turn waits: /answer %[1]s WORDS or /deny %[1]s REASON", call)
	}
	return fmt.Sprintf("the turn waits: /approve %[1]s or /deny %[1]s REASON", call)
}

// toAnswer says what is waited for, and how to give it on the command line.
func toAnswer(d *event.Relay, again func(flag, value string) string) string {
	call := quoteArg(d.ToolCallID)
	what := "an approval: " + again("--approve", call)
	if d.Kind == event.RelayInput {
		what = "an answer: " + again("--answer", call+"=WORDS")
	}
	return what + ", or --deny " + call + " --reason TEXT"
}

// waitingElsewhere prints how to continue when an agent waits for something that is not
// decided here, such as an authorization. Its words say what.
func (c *conversation) waitingElsewhere(name string) {
	goOn, say := c.again("resume"), c.again("run", `"…"`)
	switch {
	case c.chatting:
		goOn, say = "/resume", "a new message"
	case !c.persistent():
		c.p.say("%s waits for something outside, and the conversation is not stored: give --session or --db to continue it later", visible.Line(name))
		return
	}
	c.p.say("%s waits for something that is done elsewhere; when it is done: %s; to say something instead: %s", visible.Line(name), goOn, say)
}

func answered(end event.FinishReason) bool {
	return end != "" && end != event.FinishReasonTransfer && end != event.FinishReasonCanceled
}

// cutOff reports whether an error leaves a turn that resume can continue.
func cutOff(err error) bool { return errors.Is(err, context.Canceled) }

// again returns the command line that continues the session.
func (c *conversation) again(command string, rest ...string) string {
	words := append([]string{"--session", quoteArg(c.key.ID)}, rest...)
	if c.db == nil {
		return c.p.commandLine(command, "", append(c.p.server.words(), words...)...)
	}
	if c.p.place.redis != "" {
		words = append(words, "--redis", quoteArg(withoutPassword(c.p.place.redis)))
	}
	return c.p.commandLine(command, quotePath(c.path), words...)
}

// commandLine returns a command line for the database in use. The arguments are
// quoted already; the path may be empty.
func (p *program) commandLine(command, path string, rest ...string) string {
	words := []string{p.name, command}
	if path != "" {
		words = append(words, path)
	}
	words = append(words, rest...)
	switch {
	case p.server.url != "" && !slices.Contains(rest, "--server"):
		words = append(words, p.server.words()...)
	case p.place.db != "":
		words = append(words, "--db", quoteArg(withoutPassword(p.place.db)))
	}
	return strings.Join(words, " ")
}

func quotePath(path string) string {
	if path == "" {
		return ""
	}
	return quoteArg(path)
}

// quoteArg quotes an argument for a POSIX shell, if that is needed.
func quoteArg(s string) string {
	safe := func(r rune) bool {
		return r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (c *conversation) persistent() bool { return c.db == nil || c.db.path != memoryDB }
