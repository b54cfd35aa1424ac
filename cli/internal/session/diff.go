package session

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/render"
	"github.com/agentarbor/arbor/internal/sessionform"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/session/checkpoint"
)

func diffCommand(f *factory.Factory) *cobra.Command {
	return f.WithJSON(factory.Command("diff A B", func(cmd *cobra.Command, args []string) error {
		return diffSessions(cmd.Context(), f, args[0], args[1])
	}), "print one JSON object")
}

func diffSessions(ctx context.Context, f *factory.Factory, one, other string) error {
	a, err := open(ctx, f, one)
	if err != nil {
		return err
	}
	b, err := a.db.Find(ctx, other)
	if err != nil {
		return err
	}
	d, err := a.Diff(ctx, a.Key, b.Key)
	if err != nil {
		return err
	}
	if f.JSON {
		render.JSON(f.Stdout, sessionform.DiffOf(d))
		return nil
	}
	common, err := a.common(ctx, d)
	if err != nil {
		return err
	}
	fmt.Fprintln(f.Stdout, common)
	for _, s := range []checkpoint.Side{d.A, d.B} {
		printSide(f, s)
	}
	return printEnds(f, d)
}

// common describes the common beginning of two sessions.
func (s *past) common(ctx context.Context, d *checkpoint.Diff) (string, error) {
	text := "Nothing is in common."
	if d.Common > 0 {
		how := "They begin with the same"
		if d.Shared == d.Common {
			how = "They share the first"
		}
		var last []*event.Event
		for c, err := range s.History(ctx, s.Key) {
			if err != nil {
				return "", err
			}
			for _, e := range c.Events { // the sessions may share a part of a step
				if e.Seq <= d.Common {
					last = c.Events[:e.Seq-c.Events[0].Seq+1]
				}
			}
			if c.Seq >= d.Common {
				break
			}
		}
		text = fmt.Sprintf("%s %s, until: %s", how, render.Count(int(d.Common), "event"), render.Step(last))
	}
	if d.Same() {
		text += "\nThere is no difference."
	}
	return text, nil
}

// printSide prints the events of only one session.
func printSide(f *factory.Factory, s checkpoint.Side) {
	if len(s.Events) == 0 {
		return
	}
	out := transcript(f)
	title := fmt.Sprintf("--- %s, from %d to %d", visible.Line(factory.ShownID(s.Key)), s.Events[0].Seq, s.Fold.Seq)
	fmt.Fprintf(f.Stdout, "\n%s\n", f.TerminalOf(f.Stdout).Paint(render.Bold, title))
	for _, e := range s.Events {
		out.Event(e)
	}
	out.Finish()
}

// maxCell is the maximal number of characters of a printed value.
const maxCell = 40

// printEnds prints the differences at the end of the sessions.
func printEnds(f *factory.Factory, d *checkpoint.Diff) error {
	var rows [][3]string
	row := func(what, a, b string) {
		if a != b {
			rows = append(rows, [3]string{what, a, b})
		}
	}
	fa, fb := d.A.Fold, d.B.Fold
	row("events", fmt.Sprint(fa.Seq), fmt.Sprint(fb.Seq))
	row("active", fa.Active(), fb.Active())
	sa, sb := fa.States(), fb.States()
	keys := slices.Collect(maps.Keys(sa))
	for key := range sb {
		if _, both := sa[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		row("state "+key, stateWords(sa, key), stateWords(sb, key))
	}
	ua, ub := sessionform.Used(fa), sessionform.Used(fb)
	row("answers", fmt.Sprint(ua.Answers), fmt.Sprint(ub.Answers))
	row("input tokens", fmt.Sprint(ua.InputTokens), fmt.Sprint(ub.InputTokens))
	row("output tokens", fmt.Sprint(ua.OutputTokens), fmt.Sprint(ub.OutputTokens))
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(f.Stdout)
	table := factory.Table(f.Stdout, fmt.Sprintf("AT THE END\t%s\t%s", visible.Line(factory.ShownID(d.A.Key)), visible.Line(factory.ShownID(d.B.Key))))
	for _, r := range rows {
		for i, cell := range r {
			if r[i] = visible.Cut(visible.Line(cell), maxCell); r[i] == "" {
				r[i] = "-"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", r[0], r[1], r[2])
	}
	return table.Flush()
}

// stateWords returns a value of the state as text, "" if there is none.
func stateWords(state map[string]any, key string) string {
	value, ok := state[key]
	if !ok {
		return ""
	}
	return event.OutputText(event.EncodeJSON(value))
}
