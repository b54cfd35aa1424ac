package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/cli/internal/prompt"
	"github.com/agentarbor/arbor/cli/internal/reload"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/live"
)

const chatHelp = `/agents             draw the tree, and mark the agent that would answer next
/session            print the session's id, and how to come back to it
/resume             resume a turn that was cut off
/show               print the calls that wait for you, with all their arguments
/approve CALL       approve a call, which then runs
/deny CALL REASON   deny a call, or decline to answer its question
                    (if only one call waits: /approve, /deny REASON, yes or no)
/answer CALL TEXT   answer the question of a call
/help               list the commands
/quit               leave (Ctrl-D also leaves)`

// chat is a conversation in which a person types line after line.
type chat struct {
	*Conversation
	newer atomic.Pointer[factory.LoadedTree] // a tree that was loaded since
	held  string                             // the message to send if the user withdraws the waiting question
	news  heldMessages
}

// Chat answers the user's lines with the tree at path.
func Chat(ctx context.Context, f *factory.Factory, path string, o Options, d DeciderOptions) error {
	if _, err := decider(f, d); err != nil {
		return err
	}
	files := reload.Watch(f, path, o.NoReload)
	c, err := Converse(ctx, f, path, o)
	if err != nil {
		return err
	}
	c.decider = d
	return c.talk(ctx, factory.HistoryFile(f, c.DB), func(t *chat) { t.follow(ctx, files) })
}

// talk answers the lines of a person or a pipe. prepare is called before the first line.
func (c *Conversation) talk(ctx context.Context, history string, prepare func(*chat)) error {
	c.chatting = true
	in, err := prompt.New(c.Factory, history)
	if err != nil {
		return err
	}
	c.pages, _ = in.(*prompt.Editor)
	t := &chat{Conversation: c}
	prepare(t)
	if err := t.greet(ctx); err != nil {
		return err
	}
	return t.loop(ctx, in)
}

// follow makes the next line use the tree in the current files.
func (c *chat) follow(ctx context.Context, files *reload.Watched) {
	c.Factory.AtEnd(func() { c.useNewestTree() })
	c.news.w = c.errors()
	reload.KeepUp(ctx, c.Factory, files, &c.news, func() (*agent.Tree, error) {
		next, err := c.Factory.Load(c.Path)
		if err != nil {
			return nil, err
		}
		if err := c.Factory.Start(ctx, next, c.DB.Store, runner.WithStreaming()); err != nil {
			next.End()
			return nil, err
		}
		next.PrepareRemotes(ctx)
		if unused := c.newer.Swap(next); unused != nil {
			unused.End()
		}
		return next.Agents, nil
	})
}

// useNewestTree switches to the newest tree. No turn is running.
func (c *chat) useNewestTree() {
	if next := c.newer.Swap(nil); next != nil {
		c.End()
		c.LoadedTree = next
		c.draw()
	}
}

// greet prints the session, and whether its last turn was interrupted.
func (c *chat) greet(ctx context.Context) error {
	fold, err := c.readFold(ctx)
	if err != nil {
		return err
	}
	c.Notice()
	c.Factory.Say("session %s; /help lists the commands", c.Key.ID)
	if fold.Paused() {
		c.waiting(ctx, fold.Questions())
	}
	if fold.Waits() {
		c.waitingElsewhere(fold.Scope("").Run.Agent)
	}
	if c.Seen = fold.Seq; !fold.Unfinished() {
		return nil
	}
	running, err := c.At.running(ctx)
	switch {
	case err != nil:
		return err
	case running:
		c.Factory.Say("a turn is running: its answer is shown here")
	default:
		c.Factory.Say("the last turn was interrupted: /resume resumes it, a new message starts another turn")
	}
	return nil
}

// loop answers line after line. If the input is not a terminal, it returns the error of the last turn, so that a script
// gets it.
func (c *chat) loop(ctx context.Context, in prompt.Lines) error {
	_, person := in.(*prompt.Editor)
	interrupted := false
	var last error
	for !c.Factory.Interrupts.Over() {
		line, err := c.next(ctx, in)
		switch {
		case errors.Is(err, prompt.ErrInterrupt) && interrupted:
			return factory.Exit(factory.StatusInterrupted)
		case errors.Is(err, prompt.ErrInterrupt):
			interrupted = true
			c.Factory.Say("Ctrl-C once more, or /quit, to leave")
			continue
		case errors.Is(err, io.EOF):
			if person {
				return nil
			}
			return last
		case err != nil:
			return err
		}
		interrupted = false
		quit, err := c.handleLine(ctx, strings.TrimSpace(line))
		switch {
		case quit && person:
			return nil
		case quit:
			return last
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			interrupted = true // so that another interrupt at the prompt ends the chat
			c.Factory.Say("interrupted: /resume resumes this turn, a new message starts another one")
			err = factory.Exit(factory.StatusInterrupted)
		case c.Factory.Out.Failed() != nil || ctx.Err() != nil:
			return err
		}
		c.Factory.Report(err)
		if last = nil; err != nil {
			last = factory.Exit(factory.Status(err))
		}
	}
	return factory.Exit(factory.StatusInterrupted)
}

// next waits for a line. Before and during the wait it prints the messages of others in the session: of another
// process, another client of the server, or a person who has taken the conversation.
func (c *chat) next(ctx context.Context, in prompt.Lines) (string, error) {
	out := prompt.Printer(c.Factory, in)
	hear := func(e *event.Event) {
		c.Seen = e.Seq
		out.Event(e)
		if d, ok := e.Data.(*event.Relay); ok {
			c.markShown(d)
			c.Factory.SayTo(c.errors(), toDecide(d))
		}
	}
	if c.pages == nil || c.DB != nil { // otherwise an unreachable server would delay the prompt
		for e, err := range c.At.Log(ctx, c.Seen) {
			if err != nil {
				return "", err
			}
			hear(e)
		}
	}
	heard, over := context.WithCancel(ctx)
	wait := prompt.Follow(heard, c.Factory, c.At, c.Seen, hear)
	line, err := in.Next(ctx)
	over()
	wait()
	out.Finish()
	return line, err
}

// errors returns the stream for messages while the user may be typing.
func (c *Conversation) errors() io.Writer {
	if c.pages != nil { // it redraws its line below the printed text
		return c.pages.Stderr()
	}
	return c.Factory.Stderr
}

// handleLine executes one line.
func (c *chat) handleLine(ctx context.Context, line string) (quit bool, err error) {
	c.useNewestTree()
	switch {
	case line == "":
		return false, nil
	case strings.HasPrefix(line, "//"):
		line = line[1:]
	case strings.HasPrefix(line, "/"):
		return c.runCommand(ctx, line)
	}
	msg, err := factory.CheckMessage(line)
	if err != nil {
		return false, err
	}
	var asked []*event.Relay
	if c.told {
		if asked, err = c.asked(ctx); err != nil {
			return false, err
		}
	}
	yes, understood := live.YesOrNo(line)
	held := c.held
	switch c.held = ""; {
	case len(asked) == 0:
	case held != "" && yes:
		if msg, err = factory.CheckMessage(held); err != nil {
			return false, err
		}
	case held != "" && understood:
		c.waiting(ctx, asked)
		return false, nil
	case held == "" && understood && len(asked) == 1 && asked[0].Kind != event.RelayInput:
		command := map[bool]string{true: "/approve ", false: "/deny "}[yes]
		return false, c.continueTurn(ctx, command+asked[0].ToolCallID+" "+line)
	default:
		c.held = line
		c.Factory.Say("a new message withdraws what waits: yes withdraws it and sends the message, no lets it wait")
		return false, nil
	}
	return false, c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] { return c.send(ctx, msg) })
}

// turn prints the events of one turn, and holds back messages between turns until it is over.
func (c *chat) turn(ctx context.Context, events func(context.Context) iter.Seq2[*event.Event, error]) error {
	c.news.setHeld(true)
	defer c.news.setHeld(false)
	return c.Turn(ctx, events)
}

// asked returns the questions that the user can answer.
func (c *Conversation) asked(ctx context.Context) ([]*event.Relay, error) {
	fold, err := c.readFold(ctx)
	if err != nil || !fold.Paused() {
		return nil, err
	}
	return fold.Questions(), nil
}

// send starts a turn. While another process runs a turn of the session, the message waits.
func (c *chat) send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for told := false; ; told = true {
			busy, caughtUp := false, !told
			for e, err := range c.At.Send(ctx, msg) {
				if !caughtUp && err == nil {
					c.printMissed(ctx, e.Seq)
					caughtUp = true
				}
				if busy = errors.Is(err, agent.ErrSessionBusy); !busy && !yield(e, err) {
					return
				}
			}
			switch {
			case !busy:
				return
			case !told:
				c.Factory.Say("another program is working on this session: your message is sent when it has finished")
			}
			select {
			case <-time.After(factory.PollInterval):
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// printMissed prints the events of others before a position, which came while a message waited.
func (c *chat) printMissed(ctx context.Context, before int64) {
	out := prompt.Printer(c.Factory, nil)
	for e, err := range c.At.Log(ctx, c.Seen) {
		if err != nil || e.Seq >= before {
			break
		}
		out.Event(e)
	}
	out.Finish()
}

func (c *chat) runCommand(ctx context.Context, line string) (quit bool, err error) {
	c.held = ""
	switch name := strings.Fields(line)[0]; name {
	case "/quit", "/exit":
		return true, nil
	case "/help":
		fmt.Fprintln(c.Factory.Stdout, chatHelp)
	case "/agents":
		return false, c.At.DrawAgents(ctx, c.Factory.Stdout, c.Factory.TerminalOf(c.Factory.Stdout))
	case "/session":
		where := ""
		switch {
		case c.DB == nil:
			where = " at " + c.Factory.Server.URL + "; to come back: " + c.Again("chat")
		case c.Persistent():
			where = " in " + visible.Line(c.DB.Path) + "; to come back: " + c.Again("chat")
		}
		fmt.Fprintf(c.Factory.Stdout, "session %s%s\n", c.Key.ID, where)
	case "/show":
		return false, c.showWaiting(ctx, strings.TrimSpace(line[len(name):]))
	case "/resume", "/approve", "/answer", "/deny":
		return false, c.continueTurn(ctx, line)
	default:
		c.Factory.Say("unknown command %s; /help lists the commands, and // begins a message with a slash", visible.Cut(name, 40))
	}
	return false, nil
}

// showWaiting prints the waiting calls, or one of them.
func (c *chat) showWaiting(ctx context.Context, call string) error {
	asked, err := c.asked(ctx)
	if err != nil {
		return err
	}
	if call != "" {
		asked = slices.DeleteFunc(asked, func(d *event.Relay) bool { return d.ToolCallID != call })
	}
	switch {
	case len(asked) > 0:
		c.waiting(ctx, asked)
	case call != "":
		return factory.Usagef("no call %s waits for you", visible.Cut(call, 40))
	default:
		c.Factory.Say("no call waits for you")
	}
	return nil
}

// continueTurn resumes the last turn: /resume, /approve CALL, /answer CALL TEXT, /deny CALL REASON. If only one call
// waits, it need not be named.
func (c *chat) continueTurn(ctx context.Context, line string) error {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	call, reason, _ := strings.Cut(rest, " ")
	asked, err := c.asked(ctx)
	if err != nil {
		return err
	}
	named := slices.ContainsFunc(asked, func(d *event.Relay) bool { return d.ToolCallID == call })
	if len(asked) == 1 && !named && (name == "/approve" && call == "" || name == "/deny") {
		call, reason = asked[0].ToolCallID, rest
	}
	digest := "none" // it fits no question
	if i := slices.IndexFunc(asked, func(d *event.Relay) bool { return d.ToolCallID == call }); i >= 0 {
		// Another client may have answered the question that the user read.
		if digest = asked[i].Digest; !c.shown[question{call, digest}] {
			c.waiting(ctx, asked[i:i+1])
			return nil
		}
	}
	var decisions []runner.Decision
	switch {
	case name == "/resume":
	case call == "":
		return factory.Usagef("%s needs the call: %[1]s CALL", name)
	case name == "/approve":
		decisions = append(decisions, runner.Approve(call))
	case name == "/answer":
		answer, err := c.answer(ctx, call, strings.TrimSpace(reason))
		if err != nil {
			return err
		}
		decisions = append(decisions, answer)
	default:
		decisions = append(decisions, runner.Deny(call, strings.TrimSpace(reason)))
	}
	for i := range decisions {
		decisions[i].Digest = digest
	}
	before := c.Seen
	err = c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return c.At.Continue(ctx, &c.known, decisions...)
	})
	if err == nil && c.Seen == before {
		c.Factory.Say("the last turn is complete: there is nothing to resume")
	}
	return err
}

// heldMessages collects the messages that a chat prints between its turns. Messages that come during a turn are printed
// when the answer is complete.
type heldMessages struct {
	w    io.Writer
	mu   sync.Mutex
	held bool
	kept []byte
}

func (n *heldMessages) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held {
		n.kept = append(n.kept, b...)
		return len(b), nil
	}
	return n.w.Write(b)
}

// setHeld starts or ends a turn.
func (n *heldMessages) setHeld(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held = on; !on && len(n.kept) > 0 {
		_, _ = n.w.Write(n.kept)
		n.kept = nil
	}
}
