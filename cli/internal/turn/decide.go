package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/access/usersfile"
	"github.com/agentarbor/arbor/server/live"
)

// Show prints questions: page by page in a chat on a terminal, and to standard error with --json.
func (c *Conversation) Show(asked []*event.Relay) {
	c.markShown(asked...)
	switch {
	case c.pages != nil:
		for _, d := range asked {
			c.printQuestion(d)
		}
	case c.Factory.JSON:
		c.Factory.ShowQuestions(c.Factory.Stderr, asked)
	default:
		c.Factory.ShowQuestions(c.Factory.Stdout, asked)
	}
}

// markShown records that the user is shown questions.
func (c *Conversation) markShown(asked ...*event.Relay) {
	if c.shown == nil {
		c.shown = make(map[question]bool)
	}
	for _, d := range asked {
		c.shown[question{d.ToolCallID, d.Digest}] = true
	}
}

// printQuestion shows a question on the chat's terminal. If the user stops reading, it prints how much is left.
func (c *Conversation) printQuestion(d *event.Relay) {
	look := c.Factory.TerminalOf(c.Factory.Stdout)
	line, rows := render.Question(d, look.Columns)
	fmt.Fprintln(c.Factory.Stdout, "  "+look.Paint(render.Bold, line))
	most := max(look.Rows-3, 5)
	for shown := 0; len(rows) > 0; {
		n := min(most, len(rows))
		if len(rows) <= most+2 {
			n = len(rows) // do not ask for a page of one or two rows
		}
		fmt.Fprintln(c.Factory.Stdout, strings.Join(rows[:n], "\n"))
		rows, shown = rows[n:], shown+n
		if len(rows) > 0 && !c.pages.More(fmt.Sprintf("-- %d of %d rows; Enter shows more, q stops -- ", shown, shown+len(rows))) {
			c.Factory.Say("%d of %s are not shown: /show %s shows all", len(rows), render.Count(shown+len(rows), "row"), visible.Line(d.ToolCallID))
			return
		}
	}
}

// answer returns the decision that answers the question of a call with a text.
func (c *Conversation) answer(ctx context.Context, call, text string) (runner.Decision, error) {
	fold, err := c.readFold(ctx)
	if err != nil {
		return runner.Decision{}, err
	}
	for _, d := range fold.Questions() {
		if d.ToolCallID == call && d.Kind == event.RelayInput {
			return runner.Decision{CallID: call, Approved: true, Content: live.Content(d, text)}, nil
		}
	}
	return runner.Decision{}, factory.Usagef("session %s has no open question for call %s", c.Key.ID, visible.Cut(call, 40))
}

// DeciderOptions contains the flags that name the decider: the owner of the machine, or a user of the users file.
type DeciderOptions struct{ by, users string }

func (d *DeciderOptions) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&d.by, "by", "", "decide as the user `NAME` of the users file (default: the owner of this machine)")
	fs.StringVar(&d.users, "users", "", "with --by, read the users from `FILE` (default: the file of arbor users)")
}

// Check returns an error if the flags do not fit together.
func (*DeciderOptions) Check(fs *pflag.FlagSet) error { return factory.Needs(fs, "users", "by") }

// decider returns the decider with the rights in the current users file.
func decider(f *factory.Factory, d DeciderOptions) (access.User, error) {
	if d.by == "" {
		return factory.Owner, nil
	}
	path, err := f.UsersPath(d.users)
	if err != nil {
		return access.User{}, err
	}
	all, err := usersfile.Read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return access.User{}, factory.Usage(err)
	}
	i := slices.IndexFunc(all, func(a access.Account) bool { return a.Name == d.by })
	if i < 0 {
		return access.User{}, factory.Usagef("--by %s: %s has no such user", visible.Cut(d.by, 40), path)
	}
	return access.User{Name: all[i].Name, Rights: all[i].Rights, Grants: all[i].Grants}, nil
}

// sign returns the decisions with their decider, or an error if the decider may not decide, or approves a call that asks
// again since it was shown.
func (c *Conversation) sign(ctx context.Context, d DeciderOptions, decisions []runner.Decision) ([]runner.Decision, error) {
	if len(decisions) == 0 {
		return nil, nil
	}
	who, err := decider(c.Factory, d)
	if err != nil {
		return nil, err
	}
	fold, err := c.DB.Fold(ctx, c.Key)
	if err != nil {
		return nil, err
	}
	if err := c.checkNamed(ctx, decisions...); err != nil {
		return nil, factory.Usage(fmt.Errorf("%w; without --approve, the command shows the question and how to approve it", err))
	}
	signed, err := live.Deciders{}.Sign(who, c.Key, fold.Questions(), decisions)
	if err != nil {
		return nil, factory.Usage(err)
	}
	return signed, nil
}

// checkNamed returns the error of live.CheckNamed for decisions about the last turn.
func (c *Conversation) checkNamed(ctx context.Context, decisions ...runner.Decision) error {
	fold, err := c.DB.Fold(ctx, c.Key)
	if err != nil {
		return err
	}
	return live.CheckNamedIn(ctx, c.DB, c.Key, max(1, fold.Turn.First), false, decisions)
}

// DecisionOptions contains the flags for calls that wait for an approval or an answer.
type DecisionOptions struct {
	Approve, Deny []string // ids of calls; CALL=DIGEST approves only the question with this digest
	Answer        []string // CALL=TEXT, for questions of calls
	reason        string
	DeciderOptions
}

func (d *DecisionOptions) Flags(fs *pflag.FlagSet, approve, deny, reason string) {
	fs.StringArrayVar(&d.Approve, "approve", nil, approve)
	fs.StringArrayVar(&d.Deny, "deny", nil, deny)
	fs.StringArrayVar(&d.Answer, "answer", nil, "answer the question of a call, as `CALL=TEXT` (repeatable)")
	fs.StringVar(&d.reason, "reason", "", reason)
	d.DeciderOptions.Flags(fs)
}

// Check returns an error if the flags do not fit together.
func (d *DecisionOptions) Check(fs *pflag.FlagSet) error {
	for _, given := range d.Answer {
		if !strings.Contains(given, "=") {
			return factory.Usagef("--answer %s: write CALL=TEXT, such as call_1=yes", visible.Cut(given, 40))
		}
	}
	return cmp.Or(
		d.DeciderOptions.Check(fs),
		factory.Needs(fs, "by", "approve", "deny", "answer"),
		factory.Needs(fs, "reason", "deny"),
	)
}

// Decisions returns the decisions of the flags. The decision of --answer depends on the question.
func (d *DecisionOptions) Decisions(ctx context.Context, c *Conversation) (all []runner.Decision, err error) {
	for _, given := range d.Approve {
		call, digest, _ := strings.Cut(given, "=")
		all = append(all, runner.Decision{CallID: call, Approved: true, Digest: digest})
	}
	for _, given := range d.Answer {
		call, words, _ := strings.Cut(given, "=")
		answer, err := c.answer(ctx, call, words)
		if err != nil {
			return nil, err
		}
		all = append(all, answer)
	}
	for _, call := range d.Deny {
		all = append(all, runner.Deny(call, d.reason))
	}
	return c.sign(ctx, d.DeciderOptions, all)
}
