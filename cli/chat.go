package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
)

func (p *program) chatCommand() *cobra.Command {
	var f turnFlags
	var d decider
	cmd := p.withPath(&cobra.Command{
		Short: "Talk to the tree, line by line",
		Long: `Talks to the tree: each line is a message. An interrupt (Ctrl-C) cancels the running
turn, a second one ends the program. Lines that start with a slash are commands; /help
lists them. Start a message with // if it begins with a slash itself. Messages that
others add to the session appear before the prompt. With --server and without a tree,
the server runs the turns.`,
	}, "chat", 0, func(cmd *cobra.Command, path string, _ []string) error { return p.chat(cmd.Context(), path, f, d) })
	p.atServer(cmd, func(cmd *cobra.Command) error { return p.chatAt(cmd.Context(), f) })
	p.turnFlags(cmd, &f)
	d.flags(cmd.Flags())
	p.reloadFlag(cmd.Flags(), &f.noReload)
	deskFlag(cmd.Flags(), &f.desk)
	return cmd
}

const chatHelp = `/agents        the tree, with the agent that would answer next
/session       the session's id, and how to come back to it
/resume        go on with a turn that was cut off
/show          what waits for you: calls with all their arguments, and questions
/approve CALL  let a call run that waits for an approval
/answer CALL … answer what a call asks
/deny CALL WHY refuse it
               (where one call waits, these two need no CALL, and yes and no will do)
/help          this list
/quit          leave (so does Ctrl-D)`

func (p *program) chat(ctx context.Context, path string, f turnFlags, d decider) error {
	if _, err := p.who(d); err != nil {
		return err
	}
	files := p.watch(path, f.noReload)
	c, err := p.converse(ctx, path, f)
	if err != nil {
		return err
	}
	c.chatting, c.decider = true, d
	in, err := p.lines(p.historyFile(c.db))
	if err != nil {
		return err
	}
	c.pages, _ = in.(*editor)
	c.follow(ctx, files, f)
	if err := c.greet(ctx); err != nil {
		return err
	}
	return c.loop(ctx, in)
}

// follow has the next line answered by the tree that the files describe then.
func (c *conversation) follow(ctx context.Context, files *watched, f turnFlags) {
	c.p.atEnd(func() { c.takeUp() })
	c.news.w = c.errors()
	c.p.keepUp(ctx, files, &c.news, func() (*agent.Tree, error) {
		next, err := c.p.plant(c.path, f.model)
		if err != nil {
			return nil, err
		}
		if err := c.p.start(ctx, next, c.db.Store, f.desk, f.prices, runner.WithStreaming()); err != nil {
			next.end()
			return nil, err
		}
		next.prepare(ctx)
		if unused := c.newer.Swap(next); unused != nil {
			unused.end()
		}
		return next.tree, nil
	})
}

// takeUp goes on with the newest tree. No turn runs.
func (c *conversation) takeUp() {
	if next := c.newer.Swap(nil); next != nil {
		c.end()
		c.planted = next
		c.draw()
	}
}

// greet says which session this is, and whether its last turn was cut off.
func (c *conversation) greet(ctx context.Context) error {
	fold, err := c.look(ctx)
	if err != nil {
		return err
	}
	c.notice()
	c.p.say("session %s; /help lists the commands", c.key.ID)
	if fold.Paused() {
		c.waiting(fold.Questions())
	}
	if fold.Waits() {
		c.waitingElsewhere(fold.Scope("").Run.Agent)
	}
	if c.seen = fold.Seq; !fold.Unfinished() {
		return nil
	}
	running, err := c.at.running(ctx)
	switch {
	case err != nil:
		return err
	case running:
		c.p.say("a turn is under way: what comes of it is shown here")
	default:
		c.p.say("the last turn was interrupted: /resume resumes it, a new message leaves it as it is")
	}
	return nil
}

// loop answers line after line. Its error is the last turn's if nobody sits at
// a terminal, so that a script learns of it.
func (c *conversation) loop(ctx context.Context, in lines) error {
	_, person := in.(*editor)
	interrupted := false
	var last error
	for !c.p.interrupts.over() {
		line, err := c.next(ctx, in)
		switch {
		case errors.Is(err, errInterrupt) && interrupted:
			return statusError(StatusInterrupted)
		case errors.Is(err, errInterrupt):
			interrupted = true
			c.p.say("Ctrl-C once more, or /quit, to leave")
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
		quit, err := c.line(ctx, strings.TrimSpace(line))
		switch {
		case quit && person:
			return nil
		case quit:
			return last
		case errors.Is(err, context.Canceled) && ctx.Err() == nil:
			interrupted = true // so that one more at the prompt leaves
			c.p.say("interrupted: /resume resumes this turn, a new message leaves it as it is")
			err = statusError(StatusInterrupted)
		case c.p.out.failed() != nil || ctx.Err() != nil:
			return err
		}
		c.p.report(err)
		if last = nil; err != nil {
			last = statusError(status(err))
		}
	}
	return statusError(StatusInterrupted)
}

// next waits for a line. Before and meanwhile it prints what others do in the session: another
// process, another client of the server, a person who has the conversation.
func (c *conversation) next(ctx context.Context, in lines) (string, error) {
	out := c.p.overhearing(in)
	hear := func(e *event.Event) {
		c.seen = e.Seq
		out.Event(e)
		if d, ok := e.Data.(*event.Relay); ok {
			c.p.sayTo(c.errors(), toDecide(d))
		}
	}
	if c.pages == nil || c.db != nil { // else a server that is away would hold up the prompt
		for e, err := range c.at.log(ctx, c.seen) {
			if err != nil {
				return "", err
			}
			hear(e)
		}
	}
	heard, over := context.WithCancel(ctx)
	wait := c.p.overhear(heard, c.at, c.seen, hear)
	line, err := in.next(ctx)
	over()
	wait()
	out.Finish()
	return line, err
}

// errors is where news go while a line may be typed.
func (c *conversation) errors() io.Writer {
	if c.pages != nil { // which puts its line below what is printed
		return c.pages.rl.Stderr()
	}
	return c.p.Stderr
}

// line does what one line asks for.
func (c *conversation) line(ctx context.Context, line string) (quit bool, err error) {
	c.takeUp()
	switch {
	case line == "":
		return false, nil
	case strings.HasPrefix(line, "//"):
		line = line[1:]
	case strings.HasPrefix(line, "/"):
		return c.slash(ctx, line)
	}
	msg, err := checkMessage(line)
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
		if msg, err = checkMessage(held); err != nil {
			return false, err
		}
	case held != "" && understood:
		c.waiting(asked)
		return false, nil
	case held == "" && understood && len(asked) == 1 && asked[0].Kind != event.RelayInput:
		command := map[bool]string{true: "/approve ", false: "/deny "}[yes]
		return false, c.goOn(ctx, command+asked[0].ToolCallID+" "+line)
	default:
		c.held = line
		c.p.say("a new message withdraws what waits: yes withdraws it and sends the message, no lets it wait")
		return false, nil
	}
	return false, c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] { return c.send(ctx, msg) })
}

// asked returns the questions that the user can answer.
func (c *conversation) asked(ctx context.Context) ([]*event.Relay, error) {
	fold, err := c.look(ctx)
	if err != nil || !fold.Paused() {
		return nil, err
	}
	return fold.Questions(), nil
}

// send begins a turn. While another process works on the session the message waits.
func (c *conversation) send(ctx context.Context, msg llm.Message) iter.Seq2[*event.Event, error] {
	return func(yield func(*event.Event, error) bool) {
		for told := false; ; told = true {
			busy, caughtUp := false, !told
			for e, err := range c.at.begin(ctx, msg) {
				if !caughtUp && err == nil {
					c.missed(ctx, e.Seq)
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
				c.p.say("another program is working on this session: your message is sent when it has finished")
			}
			select {
			case <-time.After(pollInterval):
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// missed prints what others have done before a position while a message waited.
func (c *conversation) missed(ctx context.Context, before int64) {
	out := c.p.overhearing(nil)
	for e, err := range c.at.log(ctx, c.seen) {
		if err != nil || e.Seq >= before {
			break
		}
		out.Event(e)
	}
	out.Finish()
}

func (c *conversation) slash(ctx context.Context, line string) (quit bool, err error) {
	c.held = ""
	switch name := strings.Fields(line)[0]; name {
	case "/quit", "/exit":
		return true, nil
	case "/help":
		fmt.Fprintln(c.p.Stdout, chatHelp)
	case "/agents":
		return false, c.at.agents(ctx, c.p.Stdout, c.p.lookOf(c.p.Stdout))
	case "/session":
		where := ""
		switch {
		case c.db == nil:
			where = " at " + c.p.server.url + "; to come back: " + c.again("chat")
		case c.persistent():
			where = " in " + visible.Line(c.db.path) + "; to come back: " + c.again("chat")
		}
		fmt.Fprintf(c.p.Stdout, "session %s%s\n", c.key.ID, where)
	case "/show":
		return false, c.showWaiting(ctx, strings.TrimSpace(line[len(name):]))
	case "/resume", "/approve", "/answer", "/deny":
		return false, c.goOn(ctx, line)
	default:
		c.p.say("unknown command %s; /help lists the commands, and // begins a message with a slash", render.Cut(name, 40))
	}
	return false, nil
}

// showWaiting shows the calls that wait, or one of them.
func (c *conversation) showWaiting(ctx context.Context, call string) error {
	asked, err := c.asked(ctx)
	if err != nil {
		return err
	}
	if call != "" {
		asked = slices.DeleteFunc(asked, func(d *event.Relay) bool { return d.ToolCallID != call })
	}
	switch {
	case len(asked) > 0:
		c.waiting(asked)
	case call != "":
		return usagef("no call %s waits for you", render.Cut(call, 40))
	default:
		c.p.say("no call waits for you")
	}
	return nil
}

// goOn resumes the last turn: /resume, /approve CALL, /answer CALL WORDS, /deny CALL REASON. Where
// one call waits it need not be named.
func (c *conversation) goOn(ctx context.Context, line string) error {
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
	var decisions []runner.Decision
	switch {
	case name == "/resume":
	case call == "":
		return usagef("%s needs the call: %[1]s CALL", name)
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
	fold, err := c.look(ctx)
	if err != nil {
		return err
	}
	some := false
	err = c.turn(ctx, func(ctx context.Context) iter.Seq2[*event.Event, error] {
		return noting(c.at.resume(ctx, fold, decisions...), &some)
	})
	if err == nil && !some {
		c.p.say("the last turn is complete: there is nothing to resume")
	}
	return err
}
